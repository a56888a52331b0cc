"""`make deploy-local`, as a user runs it: SAM, LocalStack, deployed Lambdas, the deployed schedule, real Spark.

All of the demo's 55,462 events, not a sample. One deployment serves all tests, in a folder and on ports of its own, so
that a developer's own one may be up beside it; three minutes on two cores, five on busy ones. It needs Python 3.13
(LocalStack's own requirement) and is skipped without; `make test` installs the rest.
"""

import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from firn_cli.check_parts import SELF_CHECK
from firn_deploy.sam import deploy, describe, make_bucket
from tests.e2e.conftest import ROOT, built, packaged_job
from tests.e2e.test_self_check import PARTS
from tests.soak import long_only

STREAMS = ("pgbench", "shop")
ROWS = {"accounts": 4800, "tellers": 10, "branches": 1, "history": 12500, "sentinel": 1, "customers": 8, "orders": 6}


def python_for_localstack() -> str | None:
    spec = importlib.util.spec_from_file_location("firn_setup", ROOT / "infra" / "setup" / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    found: str | None = setup.python_of("3.13", "FIRN_PYTHON_LOCALSTACK")
    return found


pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        python_for_localstack() is None,
        reason="LocalStack runs on Python 3.13 alone, and there is none: uv python install 3.13, then make test",
    ),
]


class Deployment:
    """The deployment of this module."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *arguments: str) -> dict[str, Any]:
        """python -m … --dir … --json; -> what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", *arguments, "--dir", str(self.folder), "--json"],
            cwd=ROOT, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.logs()}"
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    def logs(self) -> str:
        files = [
            self.folder / "localstack.log",
            *self.folder.glob("functions/*.log"),
            *self.folder.glob("jobs/*/stderr"),
        ]
        return "\n".join(f"--- {file}\n{file.read_text(errors='replace')[-3000:]}" for file in files if file.exists())

    def client(self, service: str) -> Any:
        env = json.loads((self.folder / "stack.json").read_text())["env"]
        return boto3.session.Session().client(
            service,  # type: ignore[call-overload]
            endpoint_url=env["AWS_ENDPOINT_URL"],
            region_name=env["AWS_REGION"],
            aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
        )

    def objects(self) -> dict[str, str]:
        """Every object in the staging bucket's log and in the warehouse, with its etag."""
        s3, found = self.client("s3"), {}
        for bucket in ("firn-local-staging-000000000000-us-east-1", "firn-local-lake-000000000000-us-east-1"):
            for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
                found.update({f"{bucket}/{one['Key']}": one["ETag"] for one in page.get("Contents", ())})
        # What dispatch says of the backlog is written at each tick, a job notes that it has ended, and scheduled care
        # how it found its tables.
        changing = ("state/", "jobs/", "care/", "health/")
        return {key: etag for key, etag in found.items() if not key.partition("/")[2].startswith(changing)}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    made = Deployment(tmp_path_factory.mktemp("deployed") / "stack")
    made.folder.mkdir()
    # What other tests had packaged and built need not be made again.
    shutil.copytree(packaged_job(), made.folder / "job")
    (made.folder / "cache").symlink_to(built().parent / "cache")
    shutil.copy(built().parent / "build.toml", made.folder)
    yield made
    subprocess.run([sys.executable, "-m", "firn_deploy", "down", "--dir", str(made.folder)], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def first(deployment: Deployment) -> dict[str, Any]:
    """The first deploy, with an update of the stack while the events are posted."""
    return deployment.run("examples.deployed", "--port", "0", "--update-while-posting")


@pytest.fixture(scope="module")
def self_check(deployment: Deployment, first: dict[str, Any]) -> dict[str, Any]:
    """Each part of `firn doctor --deep`, as it was found."""
    done = subprocess.run(
        [sys.executable, "-m", "firn_cli.main", "doctor", "--deep", "--json", "--dir", str(deployment.folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    return {one["name"]: one for one in json.loads(done.stdout)}


def test_the_tables_that_deployed_functions_and_the_schedule_committed_are_postgresqls(first: dict[str, Any]) -> None:
    assert {table["table"]: table["expected"] for table in first["tables"]} == ROWS
    assert all(table["equal"] == table["expected"] and not table["extra"] for table in first["tables"])


def test_jobs_ran_from_the_package(deployment: Deployment, first: dict[str, Any]) -> None:
    sha256 = json.loads((deployment.folder / "job" / "manifest.json").read_text())["sha256"]
    runs = [json.loads(path.read_text()) for path in deployment.folder.glob("jobs/*/run.json")]
    drivers = [run["request"]["jobDriver"]["sparkSubmit"] for run in runs]
    assert drivers
    for driver in drivers:
        assert driver["entryPoint"].endswith(f"/code/{sha256}/start.py")
        assert driver["entryPointArguments"][:2] == [sha256, "commit.py"]


@long_only
def test_a_rebuild_and_the_self_checks_care_ran_from_the_package_too(
    deployment: Deployment, first: dict[str, Any], self_check: dict[str, Any]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "firn_cli.main", "rebuild", "bank.branches", "--check", "--dir", str(deployment.folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{deployment.logs()}"
    runs = [json.loads(path.read_text()) for path in deployment.folder.glob("jobs/*/run.json")]
    scripts = {run["request"]["jobDriver"]["sparkSubmit"]["entryPointArguments"][1] for run in runs}
    assert scripts == {"commit.py", "rebuild.py", "care.py"}


def test_every_deployed_function_answers(deployment: Deployment, first: dict[str, Any]) -> None:
    client = deployment.client("lambda")
    names = sorted(one["FunctionName"] for one in client.list_functions()["Functions"])
    ours = [name for name in names if name.startswith("firn-local-")]
    assert len(ours) == 9
    events: dict[str, dict[str, Any]] = {
        "firn-local-ingest-http": {"httpMethod": "GET", "path": "/v1/health", "resource": "/v1/health"},
        "firn-local-query": {"httpMethod": "GET", "path": "/v1/tables", "resource": "/v1/tables"},
        "firn-local-ingest-queue": {"Records": []},
        "firn-local-job-events": {"source": "aws.emr-serverless", "detail": {"jobRunId": "none", "state": "SUCCESS"}},
    }
    for name in ours:
        answer = client.invoke(FunctionName=name, Payload=json.dumps(events.get(name, {})).encode())
        assert answer.get("FunctionError") is None, (name, answer["Payload"].read())
        assert client.get_function_configuration(FunctionName=name)["Runtime"] == "python3.13"


@long_only
def test_the_self_check_of_a_first_deploy_finds_nothing_wrong_and_leaves_nothing(
    deployment: Deployment, self_check: dict[str, Any]
) -> None:
    assert {part: self_check[part]["ok"] for part in PARTS} == dict.fromkeys(PARTS, True), (
        f"{self_check}\n{deployment.logs()}"
    )
    assert "3 rows are right" in self_check["change"]["found"]
    # Markers of folders, which end with a slash, hold nothing.
    assert [path for path in deployment.objects() if SELF_CHECK in path and not path.endswith("/")] == []


def test_an_update_while_events_are_posted_loses_none(first: dict[str, Any]) -> None:
    assert first["events_during_update"] > 0
    sent = first["sent"]
    assert sent["pgbench"]["events"] == 55_462
    for stream in STREAMS:
        account = first["audits"][stream]
        assert account["balanced"], account
        assert account["pending"] == account["dead"] == account["difference"] == 0
        assert account["acked"] == sent[stream]["events"]


def test_the_schedule_started_the_jobs_and_nobody_else(deployment: Deployment, first: dict[str, Any]) -> None:
    [rule] = [one for one in deployment.client("events").list_rules()["Rules"] if "DispatchEvery" in one["Name"]]
    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(1 minute)", "ENABLED")
    assert list(deployment.folder.glob("jobs/*/run.json"))
    log = (deployment.folder / "functions" / "firn-local-dispatch.log").read_text()
    assert "START RequestId" in log


def test_the_rules_that_localstack_drops_are_there(deployment: Deployment, first: dict[str, Any]) -> None:
    s3 = deployment.client("s3")
    found = s3.get_bucket_lifecycle_configuration(Bucket="firn-local-staging-000000000000-us-east-1")["Rules"]
    days = {rule["ID"]: rule.get("Expiration", {}).get("Days") for rule in found}
    assert days["dead-letters"] == 90
    assert days["unfinished-uploads"] is None


def test_only_loopback_is_listened_on(deployment: Deployment, first: dict[str, Any]) -> None:
    pids = {int((deployment.folder / f"{name}.pid").read_text()) for name in ("localstack", "emr")}
    listening = [address for pid in pids for address in listening_addresses(pid)]
    assert len(listening) >= 2
    assert {address for address in listening if address != "0100007F"} == set()


def test_the_firn_command_reads_the_deployment(deployment: Deployment, first: dict[str, Any]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "firn_cli.main", "query", "SELECT count(*) AS n FROM bank.history", "--json",
         "--dir", str(deployment.folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "12500" in done.stdout


FUNCTION = """
import os, time
if os.environ.get("BROKEN"):
    raise RuntimeError("broken at its start")
def handler(event, context):
    print("did", event["do"])
    if event["do"] == "raise":
        raise ValueError("as asked")
    if event["do"] == "sleep":
        time.sleep(30)
    if event["do"] == "exit":
        os._exit(3)
    return {"pid": os.getpid(), "left": context.get_remaining_time_in_millis()}
"""


def test_firn_flush_invokes_the_deployed_function(deployment: Deployment, first: dict[str, Any]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "firn_cli.main", "flush", "shop", "--json", "--dir", str(deployment.folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [said] = json.loads(done.stdout)
    assert said["stream"] == "shop"
    assert said["epoch"] > 0


TARGETS = """
targets:
  dev: {{stack: firn-local, region: us-east-1, endpoint: '{endpoint}'}}
  prod: {{stack: firn-prod, region: us-east-1, endpoint: '{endpoint}'}}
streams: {{shop: {{tables: {{'*': {{to: 'shop.{{table}}'}}}}}}}}
"""


def test_the_query_function_starts_from_its_wheels_and_lets_nobody_read(
    deployment: Deployment, first: dict[str, Any]
) -> None:
    url = json.loads((deployment.folder / "stack.json").read_text())["url"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{url}/v1/tables", timeout=60)
    assert (refused.value.code, json.loads(refused.value.read())["error"]) == (401, "unauthorized")


@long_only  # a second deployment, beside the first
def test_two_environments_stand_side_by_side_and_firn_talks_to_either(
    deployment: Deployment, first: dict[str, Any], tmp_path: Path
) -> None:
    """The second has its own stack in the same account; the first is as it was, and its data stay its own."""
    port, objects = int(json.loads((deployment.folder / "deployment.json").read_text())["port"]), deployment.objects()
    parameters = {**describe(port, "firn-local").parameters, "Environment": "prod"}
    parameters["CatalogUri"] = f"sqlite:///{deployment.folder}/prod.db"
    make_bucket(port, "firn-prod")
    assert deploy(deployment.folder, port, deployment.folder / "build" / "template.yaml", "firn-prod", parameters)
    dev, prod = (describe(port, name) for name in ("firn-local", "firn-prod"))
    assert len(dev.resources) == len(prod.resources) > 30
    assert set(dev.resources.values()) & set(prod.resources.values()) == set()
    (tmp_path / "firn.yaml").write_text(TARGETS.format(endpoint=f"http://127.0.0.1:{port}"))

    def firn(*arguments: str) -> Any:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        done = subprocess.run(
            [sys.executable, "-m", "firn_cli.main", *arguments, "--json"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    known = {one["stream"]: one for one in firn("--target", "dev", "status")}
    assert set(STREAMS) <= set(known)
    assert known["pgbench"]["committed_epoch"] > 0
    assert firn("--target", "prod", "status") == [], "nothing of the other environment's is seen here"
    assert {one["stream"] for one in firn("--target", "dev", "flush", "shop")} == {"shop"}
    assert deployment.objects() == objects


def test_functions_fail_as_they_do_in_lambda(deployment: Deployment, first: dict[str, Any]) -> None:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("app.py", FUNCTION)
    client = deployment.client("lambda")
    common = {
        "Runtime": "python3.13",
        "Handler": "app.handler",
        "Role": "arn:aws:iam::000000000000:role/any",
        "Code": {"ZipFile": code.getvalue()},
        "Timeout": 2,
    }
    client.create_function(FunctionName="odd", **common)
    client.create_function(FunctionName="broken", Environment={"Variables": {"BROKEN": "1"}}, **common)

    def invoke(name: str, do: str) -> tuple[str | None, dict[str, Any]]:
        client.get_waiter("function_active_v2").wait(FunctionName=name)
        answer = client.invoke(FunctionName=name, Payload=json.dumps({"do": do}).encode())
        return answer.get("FunctionError"), json.load(answer["Payload"])

    error, before = invoke("odd", "nothing")
    assert error is None
    assert 0 < before["left"] <= 2000
    assert invoke("odd", "raise")[1]["errorType"] == "ValueError"
    assert invoke("odd", "nothing")[1]["pid"] == before["pid"], "an exception does not end the process"
    assert "timed out after 2.00 seconds" in invoke("odd", "sleep")[1]["errorMessage"]
    after = invoke("odd", "nothing")[1]
    assert after["pid"] != before["pid"]
    assert "exit status 3" in invoke("odd", "exit")[1]["errorMessage"]
    assert invoke("odd", "nothing")[0] is None
    assert "broken at its start" in invoke("broken", "nothing")[1]["errorMessage"]
    assert "did sleep" in (deployment.folder / "functions" / "odd.log").read_text()


@long_only  # the first one is changed by an update while events are posted
def test_a_second_deploy_changes_nothing(deployment: Deployment, first: dict[str, Any]) -> None:
    cloudformation = deployment.client("cloudformation")
    events = len(cloudformation.describe_stack_events(StackName="firn-local")["StackEvents"])
    objects = deployment.objects()
    second = deployment.run("examples.deployed")
    assert second["changed"] == []
    assert second["sent"]["pgbench"]["duplicates"] == second["sent"]["pgbench"]["batches"] > 0
    assert second["sent"]["shop"]["events"] == 0
    assert len(cloudformation.describe_stack_events(StackName="firn-local")["StackEvents"]) == events
    assert deployment.objects() == objects
    assert [table["ok"] for table in second["tables"]] == [True] * len(ROWS)


def test_undeploying_leaves_nothing_behind(deployment: Deployment, first: dict[str, Any]) -> None:
    running = [pid for pid in of_the_deployment(deployment.folder) if pid != os.getpid()]
    assert len(running) >= 2
    assert deployment.run("firn_deploy", "down") == {"removed": True}
    assert not deployment.folder.exists()
    deadline = time.monotonic() + 10  # a function whose LocalStack was killed ends when it asks for its next event
    while left := of_the_deployment(deployment.folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
    assert deployment.run("firn_deploy", "down") == {"removed": False}


def of_the_deployment(folder: Path) -> list[int]:
    """Processes whose command line, working directory or environment names the folder (Linux)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in said:
            found.append(int(entry.name))
    return found


def listening_addresses(pid: int) -> list[str]:
    """The IPv4 and IPv6 addresses, in /proc/net/tcp's hex, that a process listens on (Linux)."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        target = os.readlink(entry)
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return [row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes]
