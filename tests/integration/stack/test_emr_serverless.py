"""EMR Serverless's API as boto3 speaks it, over real HTTP, with real processes that stand in for spark-submit."""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from firn_local.emr import EmrServerless
from firn_local.emr_runs import FINAL, Runner
from firn_local.serving import Server
from firn_local.spark_submit import SparkSubmit

pytestmark = pytest.mark.stack
any_client: Any = boto3.session.Session().client

ROLE = "arn:aws:iam::123456789012:role/job"
# Takes spark-submit's place: it runs the entry point with sh, after all options.
SUBMIT = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift 2; done
exec sh "$@"
"""


@dataclass
class Emr:
    """A running endpoint, a client of it, and one application."""

    client: Any
    application: str
    folder: Path
    runner: Runner
    server: Server

    def script(self, text: str) -> str:
        path = self.folder / f"script-{len(list(self.folder.glob('script-*')))}.sh"
        path.write_text(text)
        return str(path)

    def start(self, text: str, token: str, arguments: list[str] | None = None, **more: Any) -> str:
        driver = {"entryPoint": self.script(text), "entryPointArguments": arguments or []}
        answer = self.client.start_job_run(
            applicationId=self.application,
            clientToken=token,
            executionRoleArn=ROLE,
            jobDriver={"sparkSubmit": driver},
            **more,
        )
        return str(answer["jobRunId"])

    def get(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get_job_run(applicationId=self.application, jobRunId=run)["jobRun"]
        return found

    def wait(self, run: str, *states: str, seconds: float = 15) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self.get(run)
            if found["state"] in (states or FINAL):
                return found
            time.sleep(0.02)
        raise AssertionError(f"{run} is still {found['state']}: {found['stateDetails']}")

    def states(self, run: str) -> list[str]:
        return [step[1] for step in json.loads((self.folder / "jobs" / run / "run.json").read_text())["steps"]]

    def output(self, run: str, name: str = "stdout") -> str:
        return (self.folder / "jobs" / run / name).read_text()


def serve(folder: Path, slots: int = 2, minute: float = 60.0, waits_for: Callable[[], str] = lambda: "") -> Emr:
    submit = folder / "submit"
    submit.write_text(SUBMIT)
    spark = SparkSubmit(command=("sh", str(submit)), environment={"AWS_REGION": "us-east-1"})
    runner = Runner(
        folder / "jobs", spark, slots=slots, minute=minute, waits_for=waits_for,
        fetch=lambda url: f"echo from {url}".encode(),
    )  # fmt: skip
    server = Server(EmrServerless(runner, folder / "emr.json"))
    server.start()
    client = any_client(
        "emr-serverless",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"max_attempts": 0}, parameter_validation=False),
    )
    request = {"name": "firn", "releaseLabel": "emr-spark-8.0.0", "type": "SPARK", "clientToken": "one"}
    return Emr(client, client.create_application(**request)["applicationId"], folder, runner, server)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Emr]]:
    made: list[Emr] = []

    def start(**options: Any) -> Emr:
        made.append(serve(tmp_path, **options))
        return made[-1]

    yield start
    for emr in made:
        emr.runner.close()
        emr.server.stop()


@pytest.fixture
def emr(make: Callable[..., Emr]) -> Emr:
    return make()


def error_of(call: Callable[[], Any]) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        call()
    return caught.value.response["Error"]["Code"], caught.value.response["ResponseMetadata"]["HTTPStatusCode"]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_run_goes_through_the_states_in_their_order(emr: Emr) -> None:
    run = emr.start(
        'echo "$1" "$2" "$AWS_REGION"', "t", ["--first", "7"], name="firn-shop-1-1-1", tags={"stream": "shop"}
    )
    found = emr.wait(run)
    assert emr.states(run) == ["SUBMITTED", "PENDING", "SCHEDULED", "RUNNING", "SUCCESS"]
    assert emr.output(run) == "--first 7 us-east-1\n"
    assert found["name"] == "firn-shop-1-1-1"
    assert found["tags"] == {"stream": "shop"}
    assert found["executionRole"] == ROLE
    assert found["attempt"] == 1
    assert found["startedAt"] <= found["endedAt"]


def test_a_failing_run_says_its_exit_code_and_keeps_its_stderr(emr: Emr) -> None:
    run = emr.start("echo broken >&2; exit 3", "t")
    found = emr.wait(run)
    assert (found["state"], "exit code 3" in found["stateDetails"]) == ("FAILED", True)
    assert emr.output(run, "stderr") == "broken\n"


def test_the_same_token_and_request_is_the_same_run(emr: Emr) -> None:
    request = {
        "applicationId": emr.application,
        "clientToken": "again",
        "executionRoleArn": ROLE,
        "jobDriver": {"sparkSubmit": {"entryPoint": emr.script("echo once")}},
    }
    first, second = emr.client.start_job_run(**request), emr.client.start_job_run(**request)
    assert first["jobRunId"] == second["jobRunId"]
    emr.wait(first["jobRunId"])
    assert emr.client.start_job_run(**request)["jobRunId"] == first["jobRunId"]
    assert emr.output(first["jobRunId"]) == "once\n"
    assert error_of(lambda: emr.client.start_job_run(**{**request, "name": "other"})) == ("ConflictException", 409)


def test_a_failed_attempt_is_tried_again_as_the_retry_policy_says(emr: Emr) -> None:
    flag = emr.folder / "flag"
    run = emr.start(f"test -e {flag} && exit 0; touch {flag}; exit 1", "t", retryPolicy={"maxAttempts": 3})
    found = emr.wait(run)
    assert (found["state"], found["attempt"]) == ("SUCCESS", 2)
    assert emr.states(run).count("RUNNING") == 2
    assert "FAILED" not in emr.states(run)
    attempts = emr.client.list_job_run_attempts(applicationId=emr.application, jobRunId=run)["jobRunAttempts"]
    assert [(a["attempt"], a["state"]) for a in attempts] == [(2, "SUCCESS"), (1, "FAILED")]
    first = emr.client.get_job_run(applicationId=emr.application, jobRunId=run, attempt=1)["jobRun"]
    assert first["state"] == "FAILED"


def test_retries_end_after_max_attempts(emr: Emr) -> None:
    found = emr.wait(emr.start("exit 1", "t", retryPolicy={"maxAttempts": 2}))
    assert (found["state"], found["attempt"]) == ("FAILED", 2)


def test_cancel_kills_every_process_of_the_run(emr: Emr) -> None:
    # A child in a process group of its own, as PySpark's daemon is, that ignores SIGTERM.
    code = (
        "import os,signal,time; os.setpgid(0,0); signal.signal(15, signal.SIG_IGN);"
        "print(os.getpid(), flush=True); time.sleep(99)"
    )
    run = emr.start(f"trap '' TERM; python3 -c '{code}' & python3 -c '{code}' & sleep 99 & wait; wait; wait", "t")
    emr.wait(run, "RUNNING")
    deadline = time.monotonic() + 10
    while len(emr.output(run).split()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    pids = [*map(int, emr.output(run).split()), int(emr.output(run, "pid"))]
    assert len(pids) == 3
    assert all(map(alive, pids))
    emr.client.cancel_job_run(applicationId=emr.application, jobRunId=run, shutdownGracePeriodInSeconds=1)
    assert emr.get(run)["state"] in ("CANCELLING", "CANCELLED")
    assert emr.wait(run)["state"] == "CANCELLED"
    assert emr.states(run)[-2:] == ["CANCELLING", "CANCELLED"]
    assert not any(map(alive, pids))
    emr.client.cancel_job_run(applicationId=emr.application, jobRunId=run)


def test_a_run_that_ended_can_not_be_cancelled(emr: Emr) -> None:
    run = emr.start("true", "t")
    emr.wait(run)
    code = error_of(lambda: emr.client.cancel_job_run(applicationId=emr.application, jobRunId=run))
    assert code == ("ValidationException", 400)


def test_a_run_over_its_execution_time_out_is_cancelled(make: Callable[..., Emr]) -> None:
    emr = make(minute=0.5)
    found = emr.wait(emr.start("sleep 99", "t", executionTimeoutMinutes=1))
    assert found["state"] == "CANCELLED"
    assert "execution timeout of 1 minutes" in found["stateDetails"]


def test_runs_beyond_the_slots_wait_as_pending_and_can_be_cancelled_there(make: Callable[..., Emr]) -> None:
    emr = make(slots=1)
    first = emr.start("sleep 99", "1")
    emr.wait(first, "RUNNING")
    second = emr.start("true", "2")
    time.sleep(0.3)
    assert emr.get(second)["state"] == "PENDING"
    emr.client.cancel_job_run(applicationId=emr.application, jobRunId=second)
    assert emr.wait(second)["state"] == "CANCELLED"
    assert "RUNNING" not in emr.states(second)
    emr.client.cancel_job_run(applicationId=emr.application, jobRunId=first)
    assert emr.wait(first)["state"] == "CANCELLED"


def test_listing_filters_and_pages(emr: Emr) -> None:
    good = [emr.start("true", f"good {n}".replace(" ", "-")) for n in range(3)]
    bad = emr.start("false", "bad")
    for run in (*good, bad):
        emr.wait(run)
    listed = emr.client.list_job_runs(applicationId=emr.application)["jobRuns"]
    assert [run["id"] for run in listed] == [bad, *reversed(good)]
    failed = emr.client.list_job_runs(applicationId=emr.application, states=["FAILED", "CANCELLED"])["jobRuns"]
    assert [run["id"] for run in failed] == [bad]
    pages = emr.client.get_paginator("list_job_runs").paginate(
        applicationId=emr.application, PaginationConfig={"PageSize": 1}
    )
    assert [run["id"] for page in pages for run in page["jobRuns"]] == [bad, *reversed(good)]
    middle = emr.get(good[1])["createdAt"]
    since = emr.client.list_job_runs(applicationId=emr.application, createdAtAfter=middle)["jobRuns"]
    assert {good[2], bad} <= {run["id"] for run in since}
    assert emr.client.list_job_runs(applicationId=emr.application, mode="STREAMING")["jobRuns"] == []


def test_wrong_requests_are_validation_errors(emr: Emr) -> None:
    right = {
        "applicationId": emr.application,
        "clientToken": "v",
        "executionRoleArn": ROLE,
        "jobDriver": {"sparkSubmit": {"entryPoint": "x.py"}},
    }
    wrong: list[dict[str, Any]] = [
        {"executionRoleArn": "nobody"},
        {"clientToken": "not a token"},
        {"mode": "SOMETIMES"},
        {"name": "n" * 257},
        {"jobDriver": {"sparkSubmit": {}}},
        {"jobDriver": {"hive": {"query": "select 1"}}},
        {"retryPolicy": {"maxAttempts": 11}},
        {"tags": {"k": 1}},
    ]
    for change in wrong:
        code = error_of(lambda change=change: emr.client.start_job_run(**{**right, **change}))  # type: ignore[misc]
        assert code == ("ValidationException", 400), change


def test_what_does_not_exist_is_not_found(emr: Emr) -> None:
    missing = {"applicationId": "00nothing", "jobRunId": "00nothing"}
    assert error_of(lambda: emr.client.get_job_run(**missing)) == ("ResourceNotFoundException", 404)
    assert error_of(lambda: emr.client.get_job_run(applicationId=emr.application, jobRunId="00x"))[1] == 404
    assert error_of(lambda: emr.client.get_application(applicationId="00nothing"))[1] == 404
    assert error_of(lambda: emr.client.get_dashboard_for_job_run(**missing))[0] == "ValidationException"


def test_a_missing_entry_point_fails_the_run_and_says_so(emr: Emr) -> None:
    answer = emr.client.start_job_run(
        applicationId=emr.application,
        clientToken="m",
        executionRoleArn=ROLE,
        jobDriver={"sparkSubmit": {"entryPoint": "/no/such/commit.py"}},
    )
    found = emr.wait(answer["jobRunId"])
    assert found["state"] == "FAILED"
    assert "/no/such/commit.py" in found["stateDetails"]


def test_file_and_s3_entry_points_are_read(emr: Emr) -> None:
    runs = []
    for token, entry_point in (("f", f"file://{emr.script('echo from a file')}"), ("s", "s3://code/job.sh")):
        driver = {"sparkSubmit": {"entryPoint": entry_point}}
        request = {"applicationId": emr.application, "executionRoleArn": ROLE, "jobDriver": driver}
        runs.append(emr.client.start_job_run(clientToken=token, **request)["jobRunId"])
        emr.wait(runs[-1])
    assert [emr.output(run) for run in runs] == ["from a file\n", "from s3://code/job.sh\n"]


def test_an_application_starts_by_itself_stops_and_is_deleted(emr: Emr) -> None:
    def state() -> str:
        return str(emr.client.get_application(applicationId=emr.application)["application"]["state"])

    assert state() == "CREATED"
    run = emr.start("sleep 99", "t")
    assert state() == "STARTED"
    assert error_of(lambda: emr.client.stop_application(applicationId=emr.application))[0] == "ValidationException"
    emr.client.cancel_job_run(applicationId=emr.application, jobRunId=run)
    emr.wait(run)
    assert error_of(lambda: emr.client.delete_application(applicationId=emr.application))[0] == "ValidationException"
    emr.client.stop_application(applicationId=emr.application)
    emr.client.update_application(applicationId=emr.application, clientToken="u", architecture="ARM64")
    assert emr.client.list_applications(states=["STOPPED"])["applications"][0]["architecture"] == "ARM64"
    emr.client.delete_application(applicationId=emr.application)
    assert state() == "TERMINATED"


def test_create_application_honours_its_token(emr: Emr) -> None:
    request = {"name": "firn", "releaseLabel": "emr-spark-8.0.0", "type": "SPARK", "clientToken": "one"}
    assert emr.client.create_application(**request)["applicationId"] == emr.application
    assert error_of(lambda: emr.client.create_application(**{**request, "name": "b"})) == ("ConflictException", 409)


def test_tags_of_runs_and_applications_change(emr: Emr) -> None:
    arn = emr.client.get_application(applicationId=emr.application)["application"]["arn"]
    emr.client.tag_resource(resourceArn=arn, tags={"a": "1", "b": "2"})
    emr.client.untag_resource(resourceArn=arn, tagKeys=["a"])
    assert emr.client.list_tags_for_resource(resourceArn=arn)["tags"] == {"b": "2"}
    run = emr.start("true", "t", tags={"stream": "shop"})
    arn = emr.wait(run)["arn"]
    assert emr.client.list_tags_for_resource(resourceArn=arn)["tags"] == {"stream": "shop"}


def test_runs_and_tokens_survive_a_restart_and_a_run_that_was_on_its_way_is_failed(make: Callable[..., Emr]) -> None:
    before = make()
    done, going = before.start("true", "done"), before.start("sleep 99", "going")
    before.wait(done)
    before.wait(going, "RUNNING")
    record = (before.folder / "jobs" / going / "run.json").read_bytes()
    before.runner.close()
    before.server.stop()
    (before.folder / "jobs" / going / "run.json").write_bytes(record)  # as a killed stack leaves it
    after = make()
    assert after.application == before.application
    assert after.get(done)["state"] == "SUCCESS"
    assert after.get(going)["state"] == "FAILED"
    assert "The stack stopped" in after.get(going)["stateDetails"]


def test_nothing_runs_after_the_runner_is_closed(emr: Emr) -> None:
    run = emr.start("sleep 99", "t")
    emr.wait(run, "RUNNING")
    time.sleep(0.2)
    pid = int(emr.output(run, "pid"))
    emr.runner.close()
    assert not alive(pid)
    assert emr.get(run)["state"] == "FAILED"
    assert os.getpid() != pid


def test_a_run_waits_while_this_machine_lacks_what_spark_needs_and_says_what(make: Callable[..., Emr]) -> None:
    lacks = ["Spark's jars are being fetched"]
    emr = make(waits_for=lambda: lacks[0])
    run = emr.start("exit 0", "one")
    emr.wait(run, "PENDING")
    time.sleep(0.3)
    found = emr.get(run)
    assert (found["state"], found["stateDetails"]) == ("PENDING", "Spark's jars are being fetched")
    assert not emr.runner.idle
    lacks[0] = ""
    assert emr.wait(run)["state"] == "SUCCESS"
    lacks[0] = "a Java is missing"
    cancelled = emr.start("exit 0", "two")
    emr.wait(cancelled, "PENDING")
    emr.client.cancel_job_run(applicationId=emr.application, jobRunId=cancelled)
    assert emr.wait(cancelled)["state"] == "CANCELLED"
