"""The whole of Firn on this machine: AWS endpoint, EMR Serverless and function host in one process tree, on 127.0.0.1.

{dir}/staging, {dir}/warehouse and {dir}/catalog.db hold the data and survive a restart and a kill; with `s3` they are
in the memory of the S3 endpoint instead, and the catalog starts empty with them; with `other_s3` they are there, and
the catalog is kept ({dir}/other_s3). Queues are in memory either way. Besides: {dir}/jobs/{run} (Spark's output),
{dir}/logs, of functions, and {dir}/stack.json (addresses and this run's token, for the CLI).
"""

import json
import os
import re
import secrets
import shutil
import sys
import threading
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firn.config.event_sources_reader import KEYS as EVENT_SOURCES
from firn.config.reader import parse
from firn.config.region import WAREHOUSES
from firn.config.warehouses import beside
from firn.deployment.config_text import Watched, config_text
from firn.errors import ConfigError
from firn_local.aws import ACCESS_KEY, ACCOUNT, REGION, SECRET_KEY, AwsEndpoint, Observe, s3_authorization
from firn_local.claim import Claim
from firn_local.config_process import NotPublished, publish_apart
from firn_local.emr import EmrServerless
from firn_local.emr_runs import JobRun, Runner
from firn_local.emr_views import job_run
from firn_local.environment import REPOSITORY, RUNTIME_PYTHON, TEMPLATE, cloud_variables
from firn_local.events import job_state_event
from firn_local.heaps import share_heaps
from firn_local.host import FunctionHost, HostSettings
from firn_local.image import NoSuchImage, manifest
from firn_local.image import python as image_python
from firn_local.intrinsics import load
from firn_local.invoke_api import InvokeApi
from firn_local.kept_catalog import keep
from firn_local.other_s3 import OtherS3
from firn_local.queues import create_queues
from firn_local.spark_preparation import Preparation
from firn_local.spark_submit import SparkSubmit
from firn_local.stream_pollers import StreamPollers
from firn_local.template import Template, read
from firn_local.throttle import DEFAULT_RATE

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

RELEASE = "emr-spark-8.0.0"
ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role/firn-local-job"


class StackError(Exception):
    """The stack can't start. The text says what to do."""


@dataclass(frozen=True)
class Options:
    """How to run the stack. `config` None publishes none; `schedule_seconds` replaces each schedule's period. `rate`:
    bytes of requests a second that the HTTP ingress lets in, 0 for all. `queue_stream`: the stream of queue messages
    that have no message attribute `stream`. `job`: a folder of `make package` whose job is run as the template says,
    instead of the checkout's; `built`: a folder of `sam build` whose functions are run, on the runtime's Python.
    `catalog`: the address of one to use, in place of a SQLite file. `staging`, `warehouse`: addresses of storage
    outside of this machine, whose credentials the environment has."""

    dir: Path = Path(".firn")
    s3: bool = False
    other_s3: OtherS3 | None = None
    port: int = 8181
    config: Path | None = Path("firn.yaml")
    schedules: bool = True
    schedule_seconds: float | None = None
    template: Path = TEMPLATE
    environments: int = 1
    job_slots: int = 2
    glue: bool = False
    rate: float = DEFAULT_RATE
    queue_stream: str = ""
    job: Path | None = None
    built: Path | None = None
    catalog: str = ""
    staging: str = ""
    warehouse: str = ""

    def host(self, token: str) -> HostSettings:
        """How the functions are served."""
        python = sys.executable if self.built is None else str(RUNTIME_PYTHON)
        return HostSettings(
            self.port, self.schedules, self.schedule_seconds, self.environments, self.rate, token, python
        )


class Stack:
    """start() and stop() it, or use it in a `with`. `say` gets lines for people."""

    def __init__(
        self,
        options: Options,
        say: Callable[[str], None] = print,
        observe: Observe | None = None,
        ready: Callable[["Stack"], None] = lambda _stack: None,
    ) -> None:
        """`observe` hears of each AWS action that a part asks for (firn_local.calls); `ready` is called once requests
        are answered, before anything is fetched for Spark."""
        self._ready = ready
        self.options = options
        self._observe = observe
        self._host: FunctionHost | None = None
        self._pollers: StreamPollers | None = None
        self.runner: Runner | None = None
        self.dir = options.dir.resolve()
        self._say = say
        self._claim = Claim(self.dir)
        self._stops: list[Callable[[], None]] = []
        self._stopping = threading.Event()
        self.description: dict[str, Any] = {}

    def __enter__(self) -> "Stack":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all parts; requests are answered then. Raises StackError, NoOtherS3, OtherCatalog, NotReached,
        AlreadyRunning, PortInUse, TemplateError."""
        if self.options.config is not None and not self.options.config.is_file():
            raise StackError(
                f"{self.options.config} does not exist: `firn init` writes a first one, --config names another"
            )
        self._claim.take()
        self._stops.append(self._claim.release)
        share_heaps()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all parts, newest first, and leave no process behind."""
        self._stopping.set()
        while self._stops:
            self._stops.pop()()

    def _start(self) -> None:
        environment: dict[str, str] = {}
        preparation = Preparation(self._say, lambda: runner.idle, self.options.warehouse)
        runner = self.runner = self._runner(environment, preparation)
        emr = EmrServerless(runner, None if self.options.s3 else self.dir / "emr.json")
        # Of this run alone: other users of this machine reach the ports too, and shall start nothing as its owner.
        token = secrets.token_urlsafe(32)
        invoke = InvokeApi()
        secret = token if self.options.other_s3 is None else self.options.other_s3.secret_key
        aws = AwsEndpoint(others={"emr-serverless": emr, "lambda": invoke}, observe=self._observe, secret_key=secret)
        self._aws = aws
        aws.start()
        self._stops += [aws.stop, runner.close]
        application = emr.ensure_application("firn", RELEASE)

        parameters = {"EmrApplicationId": application, "QueueStream": self.options.queue_stream}
        parameters |= {} if self.options.job is None else self._image(self.options.job)
        declared = self.options.template if self.options.built is None else self.options.built / "template.yaml"
        template = read(declared, local_parameters(declared, parameters), queue_urls=aws.url)
        for note in template.notes:
            self._say(f"note: {note}")
        sqs = sqs_client(aws)
        queues = create_queues(sqs, template.queues)
        environment |= self._storage(aws, template) | _job_environment(application, self.dir / "jobs")
        environment |= _CHECKOUT if self.options.job is None else self._upload(self.options.job, template)
        self._publish(environment)

        host = FunctionHost(
            template,
            environment,
            self.dir / "logs",
            self.options.host(token),
            sqs=sqs,
            queue_urls=queues,
            lifecycle=aws.run_lifecycle,
            has_section=self._has_section,
        )
        invoke.functions = host.functions
        self._stops.append(host.stop)
        host.start()
        self._host = host
        self._start_polling(template, host, token)
        if self.options.config is not None:
            threading.Thread(target=self._watch, args=(environment,), name="config", daemon=True).start()
        self.description = {
            "pid": os.getpid(),
            "url": host.server.url,
            "aws_endpoint": aws.url,
            "emr_endpoint": aws.url,
            "staging": environment["FIRN_STAGING"],
            "warehouse": environment["FIRN_WAREHOUSE"],
            "catalog_uri": environment["FIRN_CATALOG_URI"],
            "queues": queues,
            "env": {name: value for name, value in environment.items() if name not in cloud_variables()},
            "token": token,
        }
        self._describe()
        self._ready(self)
        self._stops.append(preparation.stop)
        preparation.start()

    def _runner(self, environment: Mapping[str, str], preparation: Preparation) -> Runner:
        return Runner(
            self.dir / "jobs",
            SparkSubmit(environment=environment),
            slots=self.options.job_slots,
            fetch=self._fetch,
            tell=self._job_state,
            waits_for=preparation.waits_for,
        )

    def _describe(self) -> None:
        """Write stack.json, which nobody but the owner may read."""
        new = self.dir / "stack.json.new"
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(json.dumps(self.description, indent=2) + "\n")
        new.replace(self.dir / "stack.json")

    def _job_state(self, run: JobRun, before: str) -> None:
        if self._host is not None and run.state != before:
            self._host.deliver(job_state_event(job_run(run, run.attempt, run.updated_at), before))

    def _storage(self, aws: AwsEndpoint, template: Template) -> dict[str, str]:
        """Make the stores, and name them and how they are reached. With `s3` the catalog is new too: its tables' files
        went with memory. Raises NoOtherS3, OtherCatalog, NotReached."""
        other = self.options.other_s3
        if self.options.s3 or other is not None:
            folder = self.dir / ("s3" if other is None else "other_s3")  # what outlives memory is not lost with it
            if other is None:
                for bucket in template.buckets.values():
                    self._request("PUT", f"/{bucket}")
                shutil.rmtree(folder, ignore_errors=True)
            else:
                other.make_buckets(template.buckets.values())
            folder.mkdir(exist_ok=True)
            staging, warehouse = (template.buckets[name] for name in ("StagingBucket", "WarehouseBucket"))
            data, catalog = (f"s3://{staging}", f"s3://{warehouse}/warehouse"), folder / "catalog.db"
        else:
            for name in ("staging", "warehouse"):
                (self.dir / name).mkdir(exist_ok=True)
            data, catalog = (f"file://{self.dir}/staging", f"file://{self.dir}/warehouse"), self.dir / "catalog.db"
        uri = self.options.catalog or ("glue://" if self.options.glue else f"sqlite:///{catalog}")
        staging, warehouse = self.options.staging or data[0], self.options.warehouse or data[1]
        reached = aws.credentials | ({} if other is None else other.variables)
        clouds = cloud_variables() if self.options.staging or self.options.warehouse else {}
        places = {"FIRN_STAGING": staging, "FIRN_WAREHOUSE": warehouse, "FIRN_CATALOG_URI": uri}
        places[WAREHOUSES] = beside(warehouse)
        variables = {**reached, **places, **clouds}
        is_kept = not staging.startswith("s3://") or other is not None
        keep(self.dir if is_kept else None, staging, uri, variables if self.options.catalog else None)
        return variables

    def _image(self, package: Path) -> dict[str, str]:
        """The template's parameters for a packaged job. Raises StackError."""
        try:
            said = manifest(package)
            python = image_python(self.dir / "image", said["python"])
        except NoSuchImage as error:
            raise StackError(str(error)) from error
        return {"JobSha256": said["sha256"], "JobPython": str(python)}

    def _upload(self, package: Path, template: Template) -> dict[str, str]:
        """Put the packaged job where the template has it -> what starts jobs from there."""
        bucket, said = template.buckets["StagingBucket"], manifest(package)
        self._request("PUT", f"/{bucket}")
        for name in said["files"]:
            self._request("PUT", f"/{bucket}/code/{said['sha256']}/{name}", (package / name).read_bytes())
        [dispatch] = [spec.environment for spec in template.functions if spec.logical_id == "Dispatch"]
        return {name: dispatch[name] for name in _CHECKOUT}

    def _fetch(self, url: str) -> bytes:
        return self._request("GET", f"/{url.removeprefix('s3://')}")

    def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """A request to the own S3, which takes any signature. A boto3 S3 client would cost the stack 20 MB more."""
        headers = {"Authorization": s3_authorization(), "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(self._aws.url + path, body, headers, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            content: bytes = answer.read()
        return content

    def _publish(self, environment: dict[str, str]) -> None:
        """Check firn.yaml and put it into the staging store. Raises StackError with what is wrong with it."""
        if self.options.config is None:
            return
        try:
            for note in publish_apart(self.options.config, environment):
                self._say(f"note: {note}")
        except NotPublished as error:
            raise StackError(str(error)) from error

    def _has_section(self, name: str) -> bool:
        """Whether firn.yaml has `sources`, or `alerts`: nobody starts a function for none."""
        try:
            text = "" if self.options.config is None else self.options.config.read_text("utf-8")
        except (OSError, UnicodeError):
            return False
        return re.search(rf"^{name}[ \t]*:", text, re.MULTILINE) is not None

    def _start_polling(self, template: Template, host: FunctionHost, token: str) -> None:
        """Poll the sources of streams, and go on doing so as firn.yaml changes."""
        if "ingest_stream" in host.functions:
            self._pollers = StreamPollers(
                host.functions["ingest_stream"], template.mappings, self._aws.url, host.server.url, token,
                self.dir / "logs", self._say,
            )  # fmt: skip
            self._stops.append(self._pollers.stop)
            self._poll_streams()

    def _poll_streams(self) -> None:
        """Poll what the published firn.yaml names as sources of its streams."""
        if self.options.config is None or self._pollers is None:
            return
        try:
            text = config_text(self.options.config)
            named = any(f"{word}:" in text for word in EVENT_SOURCES)  # few files do, and to read one takes memory
            self._pollers.apply(parse(text, str(self.options.config)).streams.values() if named else ())
        except ConfigError as error:  # it was changed meanwhile, and is looked at again
            self._say(str(error))

    def _watch(self, environment: dict[str, str]) -> None:
        """Publish the configuration again whenever the file, or a schema file that it names, changes; a wrong one is
        reported and the old one stays."""
        assert self.options.config is not None  # noqa: S101
        watched = Watched(self.options.config)
        while not self._stopping.wait(1):
            try:
                changed = watched.changed()
            except OSError:
                continue  # an editor is replacing it
            if changed:
                try:
                    self._publish(environment)
                    self._say(f"{self.options.config}: published")
                    self._poll_streams()
                except StackError as error:
                    self._say(f"{self.options.config} is not published, the one before stays in use:\n{error}")


def local_parameters(template: Path, given: Mapping[str, str]) -> dict[str, str]:
    """The template's parameters as they are here, of those that it has."""
    declared = load(template.read_text()).get("Parameters", {})
    ours = {"Environment": "local", "WithEmr": "false", "WithPull": "true", "EmrJobRoleArn": ROLE_ARN, "Console": "on"}
    ours |= {**_STREAMS, **given}
    return {name: value for name, value in ours.items() if name in declared}


# So that the function and its mappings are there; what they poll says firn.yaml.
_STREAMS = {
    "KinesisStreamArn": f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/local",
    "DynamoDbStreamArn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/local/stream/local",
    "KafkaTopic": "local",
    "KafkaBootstrapServers": "127.0.0.1:9092",
}

# Jobs run as they lie in this Firn; spark-submit's settings for this machine come from the runner.
_CHECKOUT = {
    "FIRN_JOB_ENTRY_POINT": str(REPOSITORY / "spark_emr" / "commit.py"),
    "FIRN_JOB_SHA256": "",
    "FIRN_SPARK_SUBMIT_PARAMETERS": "",
}


def _job_environment(application: str, logs: Path) -> dict[str, str]:
    return {
        "FIRN_EMR_APPLICATION_ID": application,
        "FIRN_EMR_ROLE_ARN": ROLE_ARN,
        "FIRN_OPEN_READS": "1",  # who reaches loopback may read, as he may post, unless firn.yaml says who
        "FIRN_ENVIRONMENT": "",  # the console says that it is no deployment
        "FIRN_ALERTS_LOCAL": f"arn:aws:sns:{REGION}:{ACCOUNT}:",
        "FIRN_JOB_LOGS": str(logs),
        "FIRN_DOCS": str(REPOSITORY / "build" / "site" / "html"),
    }


def sqs_client(aws: AwsEndpoint) -> "SQSClient":
    """A client of the queues behind `aws`, signed as that endpoint wants it."""
    import boto3
    from botocore.config import Config

    return boto3.session.Session().client(
        "sqs",
        endpoint_url=aws.url,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(retries={"max_attempts": 1}, read_timeout=30),
    )
