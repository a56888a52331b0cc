from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from firn.errors import ConfigError, TerminalError, TransientError, UnknownOutcome
from firn.runs.emr import EmrJobs, client_token, parse_run
from firn.runs.job_runs import Run, run_name
from firn.settings import Settings
from firn.usage.job_account import Resources

SETTINGS = Settings(
    staging="s3://acme-staging",
    warehouse="s3://acme/warehouse",
    catalog_uri="sqlite:///c.db",
    emr_application="app-1",
    emr_role="arn:aws:iam::123456789012:role/job",
    job_entry_point="s3://acme-staging/code/commit.py",
    spark_submit_parameters="--py-files s3://acme-staging/code/firn.zip",
)
SINCE = datetime(2026, 3, 1, tzinfo=UTC)


class Emr:
    """EMR Serverless's client, as far as Firn calls it; `pages` answers list_job_runs, `error` is raised."""

    def __init__(self, pages: Mapping[str | None, Mapping[str, Any]] | None = None, error: Exception | None = None):
        self.requests: list[dict[str, Any]] = []
        self._pages = pages or {None: {"jobRuns": []}}
        self._error = error

    def start_job_run(self, **request: Any) -> dict[str, str]:
        self.requests.append(request)
        if self._error:
            raise self._error
        return {"jobRunId": "00f1"}

    def list_job_runs(self, **request: Any) -> Mapping[str, Any]:
        self.requests.append(request)
        return self._pages[request.get("nextToken")]


def answered(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "StartJobRun")  # type: ignore[typeddict-item]


def test_a_start_carries_the_range_in_its_arguments_name_and_tags() -> None:
    emr = Emr()
    assert EmrJobs(SETTINGS, emr).start("eu-shop", 4, 9, 2) == "00f1"
    (request,) = emr.requests
    assert request["applicationId"] == "app-1"
    assert request["name"] == "firn-eu-shop-4-9-2"
    assert request["tags"] == {"firn:stream": "eu-shop", "firn:first": "4", "firn:last": "9", "firn:attempt": "2"}
    assert request["jobDriver"]["sparkSubmit"] == {
        "entryPoint": "s3://acme-staging/code/commit.py",
        "entryPointArguments": [
            "--stream", "eu-shop", "--staging", "s3://acme-staging", "--warehouse", "s3://acme/warehouse",
            "--catalog-uri", "sqlite:///c.db", "--first", "4", "--last", "9", "--attempt", "2",
        ],
        "sparkSubmitParameters": "--py-files s3://acme-staging/code/firn.zip",
    }  # fmt: skip


def test_a_packaged_job_is_started_by_what_checks_its_hash() -> None:
    emr = Emr()
    jobs = EmrJobs(replace(SETTINGS, job_entry_point="s3://acme-staging/code/ab12/commit.py", job_sha256="ab12"), emr)
    jobs.start("eu-shop", 4, 9, 2)
    jobs.start_script("care.py", ["--run", "x"], "care-x", "token", {})
    first, second = (request["jobDriver"]["sparkSubmit"] for request in emr.requests)
    assert first["entryPoint"] == second["entryPoint"] == "s3://acme-staging/code/ab12/start.py"
    assert first["entryPointArguments"][:4] == ["ab12", "commit.py", "--stream", "eu-shop"]
    assert second["entryPointArguments"] == ["ab12", "care.py", "--run", "x"]


def test_the_token_is_the_same_for_the_same_work_and_no_other() -> None:
    tokens = {
        client_token(*work) for work in [("s", 1, 2, 1), ("s", 1, 2, 2), ("s", 1, 3, 1), ("s", 2, 2, 1), ("t", 1, 2, 1)]
    }
    assert len(tokens) == 5
    assert client_token("s", 1, 2, 1) in tokens
    assert all(len(token) <= 64 for token in tokens)


def test_a_run_is_read_back_from_its_name() -> None:
    summary = {"id": "00f1", "name": run_name("eu-shop", 4, 9, 2), "state": "RUNNING"}
    assert parse_run(summary) == Run("00f1", "eu-shop", 4, 9, 2, "RUNNING")


@pytest.mark.parametrize("name", ["", None, "nightly", "firn-compact", "firn-shop-1-2-x", "other-shop-1-2-3"])
def test_other_jobs_of_the_application_are_none_of_ours(name: str | None) -> None:
    assert parse_run({"id": "1", "name": name, "state": "RUNNING"}) is None


def test_all_pages_of_recent_and_of_active_runs_are_read_once_each() -> None:
    one, two = ({"id": str(n), "name": run_name("s", n, n, 1), "state": "FAILED"} for n in (1, 2))
    emr = Emr({None: {"jobRuns": [one], "nextToken": "p2"}, "p2": {"jobRuns": [two]}})
    assert [run.id for run in EmrJobs(SETTINGS, emr).runs(SINCE)] == ["1", "2"]
    assert emr.requests[0] == {"applicationId": "app-1", "createdAtAfter": SINCE}
    assert "RUNNING" in emr.requests[2]["states"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (EndpointConnectionError(endpoint_url="http://127.0.0.1:1"), TransientError),
        (ReadTimeoutError(endpoint_url="http://127.0.0.1:1"), UnknownOutcome),
        (answered("InternalServerException", 500), UnknownOutcome),
        (answered("ThrottlingException", 429), TransientError),
        (answered("ConflictException", 409), TransientError),
        (answered("ResourceNotFoundException", 404), ConfigError),
        (answered("ValidationException", 400), TerminalError),
        (NoCredentialsError(), TerminalError),
    ],
)
def test_an_answer_of_aws_is_transient_unknown_or_terminal(error: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected):
        EmrJobs(SETTINGS, Emr(error=error)).start("s", 1, 1, 1)


def test_the_client_is_made_at_the_first_call() -> None:
    assert "_client" not in vars(EmrJobs(SETTINGS))


def test_a_start_carries_the_policy_that_narrows_its_role() -> None:
    emr = Emr()
    jobs = EmrJobs(SETTINGS, emr, policy=lambda stream, last, attempt: f"{stream} {last} {attempt}")
    jobs.start("shop", 4, 9, 2)
    jobs.start_script("rebuild.py", [], "rebuild", "token", {})
    assert [request.get("executionIamPolicy") for request in emr.requests] == [{"policy": "shop 9 2"}, None]


def test_a_run_has_its_name_and_what_it_used_and_an_unknown_one_nothing() -> None:
    class Named(Emr):
        def get_job_run(self, **request: Any) -> dict[str, Any]:
            if request["jobRunId"] == "00gone":
                raise answered("ResourceNotFoundException", 404)
            hours = {"vCPUHour": 0.5, "memoryGBHour": 2.0, "storageGBHour": 0.0}
            used = {"00run": {"billedResourceUtilization": hours, "totalResourceUtilization": {}}}
            used["00total"] = {"totalResourceUtilization": hours}
            return {"jobRun": {"name": "firn-shop-1-2-1", **used.get(request["jobRunId"], {})}}

    jobs = EmrJobs(SETTINGS, Named())
    used = ("firn-shop-1-2-1", Resources(1800, 7200))
    assert [jobs.ended(run) for run in ("00run", "00total")] == [used, used]
    assert jobs.ended("00young") == ("firn-shop-1-2-1", Resources())
    assert jobs.ended("00gone") == ("", Resources())


def test_no_job_is_started_that_could_not_reach_its_catalog() -> None:
    emr = Emr()
    lonely = replace(SETTINGS, catalog_uri="https://catalog.example.org/", jobs_region="eu-central-1")
    jobs = EmrJobs(lonely, emr)
    for start in (lambda: jobs.start("shop", 1, 1, 1), lambda: jobs.start_script("care.py", [], "care-x", "t", {})):
        with pytest.raises(ConfigError, match=r"catalog\.example\.org/ can't be reached.*SubnetIds"):
            start()
    assert emr.requests == []
    for reached in (replace(lonely, catalog_uri="glue://"), replace(lonely, jobs_region="")):
        assert EmrJobs(reached, emr).start("shop", 1, 1, 1) == "00f1"
