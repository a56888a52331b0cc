"""EMR Serverless's REST-JSON API over the local runner, as boto3's emr-serverless client speaks it.

Differences from the service that a caller can see: applications change state at once (no CREATING, STARTING or
STOPPING), there is no dashboard, and sessions, capacity and roles are accepted but mean nothing here.
"""

import random
import string
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import msgspec
from botocore import xform_name

from firn_local import emr_views as views
from firn_local.emr_model import ApiError, Invalid, match, parameters
from firn_local.emr_runs import FINAL, JobRun, Runner
from firn_local.emr_views import Application
from firn_local.serving import json_response, raw_path, read_body

_Operation = Callable[[dict[str, Any]], dict[str, Any]]


class EmrServerless:
    """The API as a WSGI application. `state` is a file that keeps the applications over a restart, or None."""

    def __init__(self, runner: Runner, state: Path | None = None) -> None:
        self._runner = runner
        self._state = state
        self._lock = threading.RLock()
        self._applications: dict[str, Application] = {}
        self._runs: dict[str, JobRun] = {}
        if state is not None and state.exists():
            kept = msgspec.json.decode(state.read_bytes(), type=list[Application])
            self._applications = {application.id: application for application in kept}
            self._runs = {run.id: run for run in runner.load() if run.application_id in self._applications}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (WSGI)."""
        try:
            found = match(environ["REQUEST_METHOD"], raw_path(environ))
            if found is None:
                raise Invalid(f"No such operation: {environ['REQUEST_METHOD']} {raw_path(environ)}")
            route, bound = found
            # Named as boto3 names it: list_job_runs for ListJobRuns.
            operation: _Operation | None = getattr(self, xform_name(route.name), None)
            if operation is None:
                raise Invalid(f"{route.name} is not part of the local EMR Serverless.")
            request = parameters(route, bound, environ.get("QUERY_STRING", ""), read_body(environ))
            with self._lock:
                response = json_response(200, operation(request))
        except ApiError as error:
            response = json_response(error.status, {"message": str(error)}, {"x-amzn-ErrorType": error.code})
        return response.send(start_response)

    def ensure_application(self, name: str, release: str) -> str:
        """The id of the application of that name, made and started if there is none."""
        with self._lock:
            for known in self._applications.values():
                if known.request.get("name") == name and known.state != "TERMINATED":
                    return known.id
            request = {"name": name, "releaseLabel": release, "type": "SPARK", "clientToken": name}
            identifier: str = self.create_application(request)["applicationId"]
            return identifier

    # Applications

    def create_application(self, request: dict[str, Any]) -> dict[str, Any]:
        """CreateApplication: CREATED at once. A repeated clientToken gives the same application."""
        token = request.pop("clientToken")
        for known in self._applications.values():
            if known.client_token == token:
                if views.without_tags(known.request) != views.without_tags(request):
                    raise ApiError("ConflictException", f"The client token {token} was used with another request.")
                return views.created(known)
        if request["type"].lower() != "spark":
            raise Invalid(f"The local EMR Serverless runs Spark only, not {request['type']}.")
        now = time.time()
        application = Application(_identifier(), request, token, now, now)
        self._applications[application.id] = application
        self._keep()
        return views.created(application)

    def get_application(self, request: dict[str, Any]) -> dict[str, Any]:
        """GetApplication."""
        return {"application": self._application(request).view(summary=False)}

    def list_applications(self, request: dict[str, Any]) -> dict[str, Any]:
        """ListApplications, newest first, filtered by `states`."""
        states = request.get("states")
        chosen = [a for a in self._applications.values() if not states or a.state in states]
        chosen.sort(key=lambda application: -application.created_at)
        return views.page("applications", [application.view(summary=True) for application in chosen], request)

    def update_application(self, request: dict[str, Any]) -> dict[str, Any]:
        """UpdateApplication: only while it is CREATED or STOPPED, as in the service."""
        application = self._application(request)
        if application.state not in ("CREATED", "STOPPED"):
            raise Invalid(f"Application {application.id} is {application.state}: stop it to update it.")
        del request["clientToken"], request["applicationId"]
        application.request.update(request)
        self._move(application, application.state)
        return self.get_application({"applicationId": application.id})

    def start_application(self, request: dict[str, Any]) -> dict[str, Any]:
        """StartApplication: STARTED at once."""
        self._move(self._application(request), "STARTED")
        return {}

    def stop_application(self, request: dict[str, Any]) -> dict[str, Any]:
        """StopApplication: refused while runs are active, as in the service."""
        application = self._application(request)
        active = [
            run.id for run in self._runs.values() if run.application_id == application.id and run.state not in FINAL
        ]
        if active:
            raise Invalid(f"Application {application.id} has active job runs: {', '.join(active)}.")
        self._move(application, "STOPPED")
        return {}

    def delete_application(self, request: dict[str, Any]) -> dict[str, Any]:
        """DeleteApplication: only when CREATED or STOPPED; it stays listed as TERMINATED."""
        application = self._application(request)
        if application.state == "STARTED":
            raise Invalid(f"Application {application.id} is STARTED: stop it before you delete it.")
        self._move(application, "TERMINATED")
        return {}

    # Job runs

    def start_job_run(self, request: dict[str, Any]) -> dict[str, Any]:
        """StartJobRun. Same clientToken and request: the same run; same token, another request: ConflictException."""
        application = self._application(request)
        token = request.pop("clientToken")
        for known in self._runs.values():
            if known.application_id == application.id and known.client_token == token:
                if known.request != request:
                    raise ApiError("ConflictException", f"The client token {token} was used with another request.")
                return views.started(known)
        _check_run(request)
        if application.state == "TERMINATED":
            raise Invalid(f"Application {application.id} is TERMINATED.")
        if application.state != "STARTED":
            if not application.request.get("autoStartConfiguration", {}).get("enabled", True):
                raise Invalid(f"Application {application.id} is {application.state} and does not start by itself.")
            self._move(application, "STARTED")
        now, identifier = time.time(), _identifier()
        run = JobRun(
            application_id=application.id,
            id=identifier,
            arn=f"{application.arn}/jobruns/{identifier}",
            request=request,
            client_token=token,
            release_label=application.request["releaseLabel"],
            created_at=now,
            updated_at=now,
            tags=dict(request.get("tags") or {}),
        )
        self._runs[run.id] = run
        self._runner.submit(run)
        return views.started(run)

    def get_job_run(self, request: dict[str, Any]) -> dict[str, Any]:
        """GetJobRun. With `attempt`, state and times of that attempt."""
        run = self._run(request)
        attempt = request.get("attempt", run.attempt)
        if not 1 <= attempt <= run.attempt:
            raise ApiError("ResourceNotFoundException", f"Job run {run.id} has no attempt {attempt}.")
        return {"jobRun": views.job_run(run, attempt, time.time())}

    def list_job_runs(self, request: dict[str, Any]) -> dict[str, Any]:
        """ListJobRuns, newest first, filtered by states, createdAtAfter, createdAtBefore and mode."""
        self._application(request)
        states, mode = request.get("states"), request.get("mode")
        after, before = request.get("createdAtAfter", float("-inf")), request.get("createdAtBefore", float("inf"))
        chosen = [
            run
            for run in self._runs.values()
            if run.application_id == request["applicationId"]
            and (not states or run.state in states)
            and after <= run.created_at <= before
            and (mode is None or run.request.get("mode", "BATCH") == mode)
        ]
        chosen.sort(key=lambda run: (-run.created_at, run.id))
        return views.page("jobRuns", [views.job_run_summary(run) for run in chosen], request)

    def list_job_run_attempts(self, request: dict[str, Any]) -> dict[str, Any]:
        """ListJobRunAttempts, newest first."""
        run = self._run(request)
        attempts = [views.attempt_summary(run, number) for number in range(run.attempt, 0, -1)]
        return views.page("jobRunAttempts", attempts, request)

    def cancel_job_run(self, request: dict[str, Any]) -> dict[str, Any]:
        """CancelJobRun: CANCELLING now, CANCELLED once its processes are gone. An error after the run's end."""
        run = self._run(request)
        if run.state in FINAL - {"CANCELLED"}:
            raise Invalid(f"Job run {run.id} is {run.state} and can't be cancelled.")
        grace = request.get("shutdownGracePeriodInSeconds")
        self._runner.cancel(run, *(() if grace is None else (float(grace),)))
        return {"applicationId": run.application_id, "jobRunId": run.id}

    # Tags

    def list_tags_for_resource(self, request: dict[str, Any]) -> dict[str, Any]:
        """ListTagsForResource."""
        return {"tags": self._tags(request["resourceArn"])}

    def tag_resource(self, request: dict[str, Any]) -> dict[str, Any]:
        """TagResource."""
        self._tags(request["resourceArn"]).update(request["tags"])
        self._keep()
        return {}

    def untag_resource(self, request: dict[str, Any]) -> dict[str, Any]:
        """UntagResource."""
        tags = self._tags(request["resourceArn"])
        for key in request["tagKeys"]:
            tags.pop(key, None)
        self._keep()
        return {}

    def _application(self, request: dict[str, Any]) -> Application:
        application = self._applications.get(request["applicationId"])
        if application is None:
            raise ApiError("ResourceNotFoundException", f"Application {request['applicationId']} does not exist.")
        return application

    def _run(self, request: dict[str, Any]) -> JobRun:
        self._application(request)
        run = self._runs.get(request["jobRunId"])
        if run is None or run.application_id != request["applicationId"]:
            raise ApiError("ResourceNotFoundException", f"Job run {request['jobRunId']} does not exist.")
        return run

    def _tags(self, arn: str) -> dict[str, str]:
        resources: tuple[Application | JobRun, ...] = (*self._applications.values(), *self._runs.values())
        for resource in resources:
            if resource.arn == arn:
                return resource.tags
        raise ApiError("ResourceNotFoundException", f"Resource {arn} does not exist.")

    def _move(self, application: Application, state: str) -> None:
        application.state, application.updated_at = state, time.time()
        self._keep()

    def _keep(self) -> None:
        if self._state is not None:
            new = self._state.with_suffix(".new")
            new.write_bytes(msgspec.json.encode(list(self._applications.values())))
            new.replace(self._state)


def _check_run(request: dict[str, Any]) -> None:
    """Rules that the model's shapes don't say (EMR Serverless User Guide, "Job resiliency": 1 to 10 attempts)."""
    if "sparkSubmit" not in (request.get("jobDriver") or {}):
        raise Invalid("The job driver must be sparkSubmit for an application of type Spark.")
    if not 1 <= (request.get("retryPolicy") or {}).get("maxAttempts", 1) <= 10:
        raise Invalid("retryPolicy.maxAttempts must be between 1 and 10.")


def _identifier() -> str:
    """16 characters like the service's own: 00, then letters and digits."""
    return "00" + "".join(random.choices(string.ascii_lowercase + string.digits, k=14))
