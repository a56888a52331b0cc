"""From nothing, or from what runs already, to the deployed stack; and back to nothing."""

import fcntl
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from firn.deployment.config_text import config_text
from firn.deployment.stack import Stack
from firn.deployment.target import find_stack
from firn.log import layout, published_configs
from firn.log.store import get, open_store
from firn_deploy import DeployError, emr, localstack, packaged, rules, sam
from firn_deploy.daemon import Daemon
from firn_lake.tiering.lifecycle import apply_rules
from firn_local.environment import REPOSITORY, TEMPLATE
from firn_local.intrinsics import load
from firn_sql.configured import check_sql

Step = Callable[[str], AbstractContextManager[None]]
"""Around each part that takes its time: says what is done."""

_ACCOUNT = "000000000000"
_OF_JOBS = ("FIRN_JOB_ENTRY_POINT", "FIRN_JOB_SHA256", "FIRN_SPARK_SUBMIT_PARAMETERS")


@dataclass(frozen=True)
class Options:
    """What to deploy, and where. `port` None: the one it has, else 4566; 0: a free one. `parameters` replace those that
    this machine needs and the template's defaults."""

    folder: Path = Path(".localstack")
    port: int | None = None
    environment: str = "local"
    config: Path = REPOSITORY / "firn.yaml"
    template: Path = TEMPLATE
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The stack's name."""
        return f"firn-{self.environment}"


@dataclass
class Deployed:
    """What a deploy did. `changed`: parts that were not as they should be, empty if all was there already."""

    stack: Stack
    port: int
    changed: list[str] = field(default_factory=list)


def deploy(options: Options, step: Step) -> Deployed:
    """Start what does not run, build, deploy, and make what LocalStack drops. Raises DeployError, FirnError."""
    folder = options.folder.resolve()
    with _claimed(folder):
        changed: list[str] = []
        server, endpoint = Daemon(folder, "localstack"), Daemon(folder, "emr")
        port = _port(folder, options.port, server)
        if not server.running():
            with step("start LocalStack"):
                endpoint.stop(emr.STOP_SECONDS)
                _clear(folder)
                (folder / "deployment.json").write_text(json.dumps({"port": port, "stack": options.name}) + "\n")
                localstack.start(server, folder, port)
                sam.make_bucket(port, options.name)
            changed.append("LocalStack")
        if not endpoint.running():
            with step("start the EMR Serverless endpoint"):
                emr.start(endpoint, folder, port)
            changed.append("EMR Serverless endpoint")
        application = emr.described(folder)
        if application is None:
            raise DeployError(f"{folder}/endpoint.json is gone: `make undeploy-local`, then deploy again")
        with step("sam build"):
            built = sam.build(folder, options.template)
        with step("package the job"):
            job = packaged.make(folder)
        with step(f"sam deploy {options.name}"):
            parameters = {**_defaults(options.template), **_parameters(folder, options.environment, application)}
            parameters |= {**job, **options.parameters}
            if sam.deploy(folder, port, built, options.name, parameters):
                changed.append("stack")
        with step("upload the job, lifecycle rules, configuration"):
            deployed = sam.describe(port, options.name)
            if packaged.upload(folder, port, deployed.outputs["Staging"]):
                changed.append("job")
            changed += _lifecycle(port, options.template, deployed)
            stack = _describe(folder, port, deployed, application, server.pid())
            if _publish(stack, options.config):
                changed.append("firn.yaml")
        return Deployed(stack, port, changed)


def undeploy(folder: Path, step: Step) -> bool:
    """Stop all and remove the folder. -> False if there was nothing. Raises DeployError."""
    folder = folder.resolve()
    if not folder.exists():
        return False
    if not (folder / "deployment.json").exists() and any(folder.iterdir()):
        raise DeployError(f"{folder} holds no deployment of Firn's, so nothing in it is removed")
    with _claimed(folder):
        with step("stop the EMR Serverless endpoint"):
            Daemon(folder, "emr").stop(emr.STOP_SECONDS)
        with step("stop LocalStack"):
            Daemon(folder, "localstack").stop(localstack.STOP_SECONDS)
        shutil.rmtree(folder)
    return True


def _port(folder: Path, asked: int | None, server: Daemon) -> int:
    try:
        before: int | None = int(json.loads((folder / "deployment.json").read_text())["port"])
    except (OSError, ValueError, KeyError):
        before = None
    if server.running():
        if before is None or asked not in (None, 0, before):
            raise DeployError(f"this deployment's LocalStack is on port {before}: `make undeploy-local` before another")
        return before
    return localstack.free_port(localstack.DEFAULT_PORT if asked is None else asked)


def _clear(folder: Path) -> None:
    """Forget the deployment before: what its LocalStack held is gone, so its catalog and its runs name nothing. What
    was built stays."""
    for entry in folder.iterdir():
        if entry.name in ("build", "build.toml", "cache", "job", "lock"):
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _defaults(template: Path) -> dict[str, str]:
    """All of the template's: a deploy that leaves one out keeps the value that the stack had before."""
    declared = load(template.read_text()).get("Parameters", {})
    return {name: str(one["Default"]) for name, one in declared.items() if "Default" in one}


def _parameters(folder: Path, environment: str, endpoint: emr.Endpoint) -> dict[str, str]:
    """What the template needs to know of this machine."""
    return {
        "Environment": environment,
        "CatalogUri": f"sqlite:///{folder}/catalog.db",
        "WithEmr": "false",
        "EmrEndpointUrl": endpoint.url,
        "EmrApplicationId": endpoint.application,
        "EmrJobRoleArn": f"arn:aws:iam::{_ACCOUNT}:role/firn-{environment}-job",
    }


def _lifecycle(port: int, template: Path, deployed: sam.Stack) -> list[str]:
    s3 = sam.client(port, "s3")
    wanted = rules.bucket_rules(template, deployed.parameters)
    return [
        f"lifecycle rules of {deployed.resources[name]}"
        for name, declared in wanted.items()
        if apply_rules(s3, deployed.resources[name], declared)
    ]


def _describe(folder: Path, port: int, deployed: sam.Stack, endpoint: emr.Endpoint, pid: int) -> Stack:
    """Write stack.json, by which every `firn` command finds the deployment."""
    outputs = deployed.outputs
    # What the template made of its parameters: `firn rebuild` and others start jobs as dispatch does.
    dispatch = sam.client(port, "lambda").get_function_configuration(FunctionName=outputs["DispatchFunction"])
    variables = dispatch["Environment"]["Variables"]
    # The output names AWS's own address; here the API is below LocalStack's.
    api, stage = deployed.resources["Api"], outputs["Url"].rpartition("/")[2]
    described = {
        "pid": pid,
        "url": f"{localstack.url(port)}/_aws/execute-api/{api}/{stage}",
        "aws_endpoint": localstack.url(port),
        "emr_endpoint": endpoint.url,
        "staging": outputs["Staging"],
        "warehouse": outputs["Warehouse"],
        "catalog_uri": deployed.parameters["CatalogUri"],
        "dispatch": outputs["DispatchFunction"],
        "alerts": outputs["AlertsFunction"],
        "queues": {"Queue": outputs["QueueUrl"], "DeadLetterQueue": outputs["DeadLetterQueueUrl"]},
        "env": {
            **localstack.credentials(port),
            "AWS_ENDPOINT_URL_EMR_SERVERLESS": endpoint.url,
            "FIRN_STAGING": outputs["Staging"],
            "FIRN_WAREHOUSE": outputs["Warehouse"],
            "FIRN_CATALOG_URI": deployed.parameters["CatalogUri"],
            "FIRN_EMR_APPLICATION_ID": endpoint.application,
            "FIRN_EMR_ROLE_ARN": deployed.parameters["EmrJobRoleArn"],
            **{name: variables[name] for name in _OF_JOBS},
        },
    }
    new = folder / "stack.json.new"
    new.write_text(json.dumps(described, indent=2) + "\n")
    new.replace(folder / "stack.json")
    return find_stack(folder)


def _publish(stack: Stack, config: Path) -> bool:
    """Make `config` the current configuration. -> whether it was not. Raises DeployError, ConfigError."""
    if not config.is_file():
        raise DeployError(f"{config} is not there; `firn init` writes a first one")
    text = config_text(config)
    stack.use_environment()
    store = open_store(stack.staging)
    before = get(store, layout.CONFIG_POINTER)
    published_configs.publish(store, text, str(config), check_sql)
    return get(store, layout.CONFIG_POINTER) != before


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """One command at a time works on a folder. Raises DeployError."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DeployError(f"another command deploys to {folder} just now: wait for its end") from None
        yield
