"""Job runs on EMR Serverless. boto3 is imported here, inside functions, and nowhere else in the core layer.

API: https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_StartJobRun.html
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from firn.config.reach import unreachable
from firn.config.written_secrets import is_secret_name, secret_in
from firn.errors import ConfigError, FirnError, TerminalError, TransientError, UnknownOutcome
from firn.runs.job_runs import ACTIVE, Run, parse_name, run_name
from firn.settings import Settings
from firn.usage.job_account import Resources, billed

START: Final = "start.py"
_TIMEOUT_SECONDS: Final = 10
# Refused before anything was done: asking again is safe and may help.
_THROTTLED: Final = frozenset({"ThrottlingException", "TooManyRequestsException"})


def client_token(stream: str, first: int, last: int, attempt: int) -> str:
    """The same work has the same token, on whichever dispatcher (64 hex digits, EMR's limit)."""
    return hashlib.sha256(run_name(stream, first, last, attempt).encode()).hexdigest()


def parse_run(summary: Mapping[str, Any]) -> Run | None:
    """A job run as list_job_runs shows it; None if it is not a commit job of Firn's."""
    found = parse_name(str(summary.get("name") or ""))
    return None if found is None else Run(str(summary["id"]), *found, str(summary["state"]))


Policy = Callable[[str, int, int], str | None]  # stream, last epoch, attempt -> the IAM policy of that job, if any


def _as_the_role(_stream: str, _last: int, _attempt: int) -> None:
    return None


class EmrJobs:
    """The commit jobs of one EMR Serverless application."""

    def __init__(self, settings: Settings, client: Any = None, policy: Policy = _as_the_role) -> None:
        """`policy`: what a commit job may do, of what its role may (runs/session_policy.py)."""
        self._settings = settings
        self._given = client
        self._policy = policy

    def runs(self, since: datetime) -> Sequence[Run]:
        """Firn's runs created at or after `since`, and all active ones. Raises TransientError."""
        found: dict[str, Run] = {}
        for query in ({"createdAtAfter": since}, {"states": list(ACTIVE)}):
            for summary in self._pages(query):
                if run := parse_run(summary):
                    found[run.id] = run
        return list(found.values())

    def start(self, stream: str, first: int, last: int, attempt: int) -> str:
        """Start the commit of epochs `first` to `last`, or find the run that this very call started before.

        -> the run's id. Raises TransientError (throttled, refused), UnknownOutcome (no clear answer), ConfigError.
        """
        s = self._settings
        arguments = {
            "stream": stream, "staging": s.staging, "warehouse": s.warehouse,
            "catalog-uri": s.catalog_uri, "first": str(first), "last": str(last),
            "attempt": str(attempt),
        }  # fmt: skip
        return self._start(
            s.job_entry_point,
            [word for name, value in arguments.items() for word in (f"--{name}", value)],
            run_name(stream, first, last, attempt),
            client_token(stream, first, last, attempt),
            {"firn:stream": stream, "firn:first": str(first), "firn:last": str(last), "firn:attempt": str(attempt)},
            self._policy(stream, last, attempt),
        )

    def ended(self, run: str) -> tuple[str, Resources]:
        """The name of a run, "" if there is none of that id or it has none; and what it used. Raises TransientError."""
        try:
            answer = self._call("get_job_run", applicationId=self._settings.emr_application, jobRunId=run)
        except ConfigError:
            return "", Resources()
        return str(answer["jobRun"].get("name") or ""), billed(answer["jobRun"])

    def start_script(
        self, script: str, arguments: Sequence[str], name: str, token: str, tags: Mapping[str, str]
    ) -> str:
        """Start another entry point, which lies beside the commit job's. `name` must not begin like a commit job's.

        -> the run's id; the same token gives the same run. Raises what `start` raises.
        """
        folder = self._settings.job_entry_point.rpartition("/")[0]
        return self._start(f"{folder}/{script}", arguments, name, token, tags)

    def active(self, prefix: str) -> dict[str, str]:
        """Names that begin with `prefix`, of runs on their way or at work -> the run's id. Raises TransientError."""
        found = ((str(one.get("name") or ""), str(one["id"])) for one in self._pages({"states": list(ACTIVE)}))
        return {name: run for name, run in found if name.startswith(prefix)}

    def _start(
        self,
        entry_point: str,
        arguments: Sequence[str],
        name: str,
        token: str,
        tags: Mapping[str, str],
        policy: str | None = None,
    ) -> str:
        s = self._settings
        if (why := unreachable(s.catalog_uri, s.jobs_region)) is not None:
            raise ConfigError(why)  # what is staged waits, and no attempt is counted
        _expect_no_secret(arguments)
        if (held := secret_in(s.spark_submit_parameters)) is not None:
            raise _holds_secret("FIRN_SPARK_SUBMIT_PARAMETERS", held)
        if s.job_sha256:  # start.py runs the script out of the archive, once that has this hash
            folder, _, script = entry_point.rpartition("/")
            entry_point, arguments = f"{folder}/{START}", [s.job_sha256, script, *arguments]
        driver: dict[str, Any] = {"entryPoint": entry_point, "entryPointArguments": list(arguments)}
        if s.spark_submit_parameters:
            driver["sparkSubmitParameters"] = s.spark_submit_parameters
        answer = self._call(
            "start_job_run",
            applicationId=s.emr_application,
            clientToken=token,
            executionRoleArn=s.emr_role,
            name=name,
            jobDriver={"sparkSubmit": driver},
            tags=dict(tags),
            **({"executionIamPolicy": {"policy": policy}} if policy else {}),
        )
        return str(answer["jobRunId"])

    @cached_property
    def _client(self) -> Any:
        """Made at the first call: a dispatch with nothing to commit never loads boto3."""
        return self._given if self._given is not None else _new_client()

    def _pages(self, query: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        summaries: list[Mapping[str, Any]] = []
        token: dict[str, str] = {}
        while True:
            page = self._call("list_job_runs", applicationId=self._settings.emr_application, **query, **token)
            summaries += page["jobRuns"]
            if not page.get("nextToken"):
                return summaries
            token = {"nextToken": page["nextToken"]}

    def _call(self, operation: str, **request: Any) -> Mapping[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self._client, operation)(**request)  # type: ignore[no-any-return]
        except (BotoCoreError, ClientError) as error:
            raise _failure(operation, error) from error


def _expect_no_secret(words: Sequence[str]) -> None:
    """Raises ConfigError, which repeats no value: whoever may look at job runs reads a run's arguments."""
    for before, word in zip(("", *words), words, strict=False):
        is_named = before.startswith("--") and is_secret_name(before)
        held = secret_in(f"{before.lstrip('-')}={word}" if is_named else word)
        if held is not None:
            raise _holds_secret(before if before.startswith("--") else "an argument", held)


def _holds_secret(where: str, held: str) -> ConfigError:
    return ConfigError(
        f"{where} of a job holds {held} and whoever may look at job runs could read it: take it out, and name "
        "the place of the secret instead (firn.credential behind the catalog's address; FIRN_AZURE_KEY, "
        "FIRN_AZURE_SAS, FIRN_AZURE_CLIENT_SECRET or FIRN_GOOGLE_CREDENTIALS for a storage), which the job reads"
    )


def _failure(operation: str, error: Any) -> FirnError:
    """Which of our errors an answer of AWS is: by its code and status, never by its text."""
    from botocore.exceptions import ConnectionError, EndpointConnectionError, HTTPClientError

    answer = getattr(error, "response", None) or {}
    code = answer.get("Error", {}).get("Code", "")
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    text = f"EMR Serverless, {operation}: {error}"
    if code in _THROTTLED or isinstance(error, EndpointConnectionError):
        return TransientError(f"{text}; it is tried again by the next dispatch")
    if status >= 500 or isinstance(error, ConnectionError | HTTPClientError):
        return UnknownOutcome(f"{text}; the run may have been started: ask again with the same token")
    if code == "ConflictException":
        return TransientError(f"{text}; another dispatcher started this attempt with other settings")
    if code == "ResourceNotFoundException":
        return ConfigError(f"{text}; check FIRN_EMR_APPLICATION_ID and its region")
    return TerminalError(f"{text}; check the application, the role and the job's parameters")


def _new_client() -> Any:
    import boto3
    from botocore.config import Config

    # Our own retry repeats with the same token; botocore's default of five tries would outlive the function.
    limits = Config(connect_timeout=3, read_timeout=_TIMEOUT_SECONDS, retries={"total_max_attempts": 2})
    return boto3.client("emr-serverless", config=limits)
