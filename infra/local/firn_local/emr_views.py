"""Applications and job runs as the API shows them: the shapes Application, ApplicationSummary, JobRun and so on."""

import json
import math
from typing import Any

import msgspec

from firn_local.emr_model import Invalid
from firn_local.emr_runs import JobRun

_CALLER = "arn:aws:iam::123456789012:user/local"
_ARN = "arn:aws:emr-serverless:us-east-1:123456789012:"


class Application(msgspec.Struct):
    """One application. `request` is CreateApplication's input without the token."""

    id: str
    request: dict[str, Any]
    client_token: str
    created_at: float
    updated_at: float
    state: str = "CREATED"

    @property
    def arn(self) -> str:
        """The application's ARN."""
        return f"{_ARN}/applications/{self.id}"

    @property
    def tags(self) -> dict[str, str]:
        """The application's tags; change them in place."""
        tags: dict[str, str] = self.request.setdefault("tags", {})
        return tags

    def view(self, *, summary: bool) -> dict[str, Any]:
        """The shape ApplicationSummary or Application."""
        common = {
            "arn": self.arn,
            "name": self.request.get("name"),
            "releaseLabel": self.request["releaseLabel"],
            "type": self.request["type"],
            "state": self.state,
            "stateDetails": "",
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "architecture": self.request.get("architecture", "X86_64"),
        }
        return present({"id": self.id, **common} if summary else {**self.request, **common, "applicationId": self.id})


def summary(run: JobRun, attempt: int) -> dict[str, Any]:
    """What JobRun, JobRunSummary and JobRunAttemptSummary share."""
    current = attempt == run.attempt
    created, updated = times(run, attempt)
    return {
        "applicationId": run.application_id,
        "arn": run.arn,
        "name": run.request.get("name"),
        "mode": run.request.get("mode", "BATCH"),
        "createdBy": _CALLER,
        "createdAt": run.created_at,
        "updatedAt": run.updated_at,
        "executionRole": run.request["executionRoleArn"],
        "state": run.state if current else "FAILED",
        "stateDetails": run.details if current else "The attempt failed and another one followed.",
        "releaseLabel": run.release_label,
        "type": "SPARK",
        "attempt": attempt,
        "attemptCreatedAt": created,
        "attemptUpdatedAt": updated,
    }


def times(run: JobRun, attempt: int) -> tuple[float, float]:
    """When the attempt's first and latest states began, seconds since the epoch."""
    known = [at for n, _, at in run.steps if n == attempt] or [run.created_at]
    return known[0], known[-1]


def job_run(run: JobRun, attempt: int, now: float) -> dict[str, Any]:
    """The shape JobRun: the request as it was sent, and where the run is."""
    end = run.ended_at or now
    return present(
        {
            **{name: value for name, value in run.request.items() if name != "executionRoleArn"},
            **summary(run, attempt),
            "jobRunId": run.id,
            "executionTimeoutMinutes": run.timeout_minutes,
            "retryPolicy": run.request.get("retryPolicy") or {"maxAttempts": 1},
            "tags": run.tags,
            "startedAt": run.started_at,
            "endedAt": run.ended_at,
            **utilization(run),
            "totalExecutionDurationSeconds": int(end - run.started_at) if run.started_at else 0,
            "queuedDurationMilliseconds": int(((run.started_at or end) - run.created_at) * 1000),
        }
    )


def utilization(run: JobRun) -> dict[str, Any]:
    """What a run that ended used: as one worker of the smallest size (2 vCPUs, 8 GB) would, billed for a minute at
    least. The processes of this machine have whatever it has."""
    if not (run.started_at and run.ended_at):
        return {}
    seconds = math.ceil(run.ended_at - run.started_at)

    def hours(lasted: int) -> dict[str, float]:
        return {"vCPUHour": lasted * 2 / 3600, "memoryGBHour": lasted * 8 / 3600, "storageGBHour": 0.0}

    return {"totalResourceUtilization": hours(seconds), "billedResourceUtilization": hours(max(60, seconds))}


def attempt_summary(run: JobRun, attempt: int) -> dict[str, Any]:
    """The shape JobRunAttemptSummary."""
    moments = {"jobCreatedAt": run.created_at, "createdAt": times(run, attempt)[0]}
    return present({"id": run.id, **summary(run, attempt), **moments})


def job_run_summary(run: JobRun) -> dict[str, Any]:
    """The shape JobRunSummary."""
    return present({"id": run.id, **summary(run, run.attempt)})


def created(application: Application) -> dict[str, Any]:
    """CreateApplication's answer."""
    return present({"applicationId": application.id, "name": application.request.get("name"), "arn": application.arn})


def started(run: JobRun) -> dict[str, Any]:
    """StartJobRun's answer."""
    return {"applicationId": run.application_id, "jobRunId": run.id, "arn": run.arn}


def page(name: str, items: list[dict[str, Any]], request: dict[str, Any]) -> dict[str, Any]:
    """At most maxResults items (50 by default) from where nextToken points to, which is the number of items before."""
    token = request.get("nextToken", "0")
    if not token.isdigit():
        raise Invalid("The nextToken is not one that this service gave.")
    start, size = int(token), request.get("maxResults", 50)
    answer: dict[str, Any] = {name: items[start : start + size]}
    if start + size < len(items):
        answer["nextToken"] = str(start + size)
    return answer


def present(values: dict[str, Any]) -> dict[str, Any]:
    """Without the members that have no value: the API leaves them out rather than sending null."""
    return {name: value for name, value in values.items() if value is not None}


def without_tags(request: dict[str, Any]) -> str:
    """A request in one spelling, to compare with a repeated one. Tags may have changed since."""
    return json.dumps({name: value for name, value in request.items() if name != "tags"}, sort_keys=True)
