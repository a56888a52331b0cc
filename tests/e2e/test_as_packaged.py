"""What would be deployed is what runs: every function out of what `sam build` left, every entry point of the job out of
its archive, with the template's own parameters, and nothing of this checkout on their paths.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from firn_local.environment import RUNTIME_PYTHON
from tests.e2e.conftest import ROOT, Stack, built, packaged_job
from tests.e2e.killing import idle
from tests.soak import long_only

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not RUNTIME_PYTHON.exists(), reason="functions run on Python 3.13: uv python install 3.13"),
]

PACKAGED = True
CONFIG = """
streams:
  shop:
    accept: [http, sqs]
    commit: {linger: 0s}
    tables:
      app.t: {to: shop.t, key: [id]}
"""
FUNCTIONS = {*("ingest_http", "ingest_queue", "dispatch", "job_events", "compact", "expire", "tier", "alerts", "query")}


def change(number: int) -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "app", "table": "t", "sequence": json.dumps([str(number)] * 2)}
    return {"op": "c", "before": None, "after": {"id": number, "note": "n"}, "source": source}


def runs(stack: Stack) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (stack.folder / "jobs").glob("*/run.json")]


def functions(stack: Stack) -> dict[str, dict[str, str]]:
    """The environment of each function's process (Linux)."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = (entry / "status").read_text()
            words = (entry / "environ").read_bytes().decode().split("\0")
            ran = (entry / "exe").readlink()
        except OSError:
            continue
        said = dict(word.split("=", 1) for word in words if "=" in word)
        if f"PPid:\t{stack.process.pid}\n" in status and "LAMBDA_TASK_ROOT" in said:
            found[said["AWS_LAMBDA_FUNCTION_NAME"]] = {**said, "exe": str(ran)}
    return found


@long_only  # tests/e2e/test_deploy_local.py runs the packaged ones in a deployment
def test_every_function_and_every_job_runs_as_it_is_packaged(stack: Stack) -> None:
    def invoke(function: str, event: dict[str, Any]) -> Any:
        status, answer = stack.request("POST", f"/_firn/invoke/{function}", json.dumps(event).encode())
        assert status == 200, (function, answer)
        ran.update(functions(stack))
        return answer

    ran: dict[str, dict[str, str]] = {}
    status, answer = stack.post("shop", json.dumps([change(1), change(2)]).encode())
    assert status == 202, answer
    message = {
        "messageId": "m", "body": json.dumps(change(3)), "receiptHandle": "r",
        "attributes": {"SentTimestamp": "0"}, "eventSource": "aws:sqs", "awsRegion": "us-east-1",
        "messageAttributes": {"stream": {"stringValue": "shop", "dataType": "String"}},
    }  # fmt: skip
    assert invoke("ingest_queue", {"Records": [message]}) == {"batchItemFailures": []}
    stack.flush("shop")
    rows = [1, 2, 3]
    assert sorted(stack.read("shop", "t")["id"].to_pylist()) == rows

    idle(stack)
    [committed] = runs(stack)
    detail = {"jobRunId": committed["id"], "applicationId": committed["application_id"], "state": "SUCCESS"}
    invoke("job_events", {"source": "aws.emr-serverless", "detail": detail})
    for function in ("compact", "expire", "tier", "alerts"):
        invoke(function, {})
    status, answer = stack.request("POST", "/v1/query", b'{"sql": "SELECT count(*) AS n FROM shop.t"}')
    assert (status, [row["n"] for row in answer["rows"]]) == (200, [len(rows)]), answer

    ran.update(functions(stack))

    stack.firn("rebuild", "shop.t", "--check")
    stack.firn("expire", "shop.t")  # tests/e2e/test_care.py has the other commands of care.py
    assert sorted(stack.read("shop", "t")["id"].to_pylist()) == rows

    sha256 = json.loads((packaged_job() / "manifest.json").read_text())["sha256"]
    drivers = [run["request"]["jobDriver"]["sparkSubmit"] for run in runs(stack)]
    assert {tuple(driver["entryPointArguments"][:2]) for driver in drivers} == {
        (sha256, script) for script in ("commit.py", "rebuild.py", "care.py")
    }
    for driver in drivers:
        assert driver["entryPoint"].endswith(f"/code/{sha256}/start.py")
        assert (
            f"spark.archives=s3://firn-local-staging-123456789012-us-east-1/code/{sha256}/job.tar.gz#job"
            in (driver["sparkSubmitParameters"])
        )

    assert set(ran) == FUNCTIONS
    for name, environment in ran.items():
        assert Path(environment["LAMBDA_TASK_ROOT"]).parent == built(), name
        assert Path(environment["exe"]).name.startswith("python3.13")
        # The worker stands in for Lambda's own runtime.
        paths = [path for path in environment["PYTHONPATH"].split(":") if path.startswith(str(ROOT))]
        assert paths == [str(ROOT / "infra" / "local")], name
