"""The function host: drives each function of a template by its events there: requests, SQS batches, schedules, rules.

Of its own it answers only GET /metrics and, to whoever has the stack's token in X-Firn-Token, GET /_firn/health,
POST /_firn/invoke/{function} and POST /_firn/lifecycle; everything else is API Gateway's part, its rate limit included.
"""

import base64
import hmac
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIEnvironment

from firn.metrics import Metric
from firn_local.events import HttpRequest, api_event, matches, path_parameters, schedule_event
from firn_local.fork_server import can_fork
from firn_local.functions import FunctionError, FunctionRunner, PayloadTooLarge, fork_server
from firn_local.lifecycle_runner import Done
from firn_local.prometheus import CONTENT_TYPE, Metrics
from firn_local.queues import QueuePoller
from firn_local.serving import Response, Server, json_response, raw_path, read_body, request_headers, sent_path
from firn_local.source_poller import PULL, SourcePoller
from firn_local.template import ApiEvent, ScheduleEvent, Template
from firn_local.throttle import ByteBucket

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

MAX_BODY = 10 << 20
"""Bytes of a request that API Gateway takes (its quotas, "Payload size": 10 MB)."""

_IDLE_SECONDS = 180.0
ALERTS = "alerts"  # the function, and the section of firn.yaml without which it is not invoked
_WARM_MB = 1024  # what asks for more is not held ready on a laptop where perhaps nobody asks it anything
_log = logging.getLogger("firn.local")


@dataclass(frozen=True)
class HostSettings:
    """How functions are served.

    port              0 for any that is free
    schedules         False runs none, and delivers no events; `schedule_seconds` replaces every schedule's period
    environments      processes of one function at once
    rate              bytes of requests that are let in a second, 0 for all
    token             what the host's own routes ask for; "" closes them
    python            what runs the functions
    """

    port: int = 0
    schedules: bool = True
    schedule_seconds: float | None = None
    environments: int = 1
    rate: float = 0
    token: str = ""
    python: str = sys.executable


class FunctionHost:
    """Serves a template's functions. `environment` is added to what the template declares for each; `queue_urls`: by
    logical id; `lifecycle`: does what the buckets' lifecycle rules say, as of a time; `has_section`: whether firn.yaml
    has `sources`, or `alerts`."""

    def __init__(
        self,
        template: Template,
        environment: Mapping[str, str],
        logs: Path,
        settings: HostSettings,
        *,
        sqs: "SQSClient | None" = None,
        queue_urls: Mapping[str, str] | None = None,
        lifecycle: Callable[[datetime], list[Done]] | None = None,
        has_section: Callable[[str], bool] | None = None,
    ) -> None:
        self._lifecycle, self._has_section = lifecycle, has_section
        self._settings = settings
        self._template = template
        self._bucket = ByteBucket(settings.rate)
        self._metrics = Metrics(logs.parent)
        self._forks = fork_server(template.functions, environment, logs) if can_fork(settings.python) else None
        self.functions = {
            spec.name: FunctionRunner(
                spec,
                environment,
                logs,
                environments=settings.environments,
                python=settings.python,
                forks=self._forks,
            )
            for spec in template.functions
        }
        self._routes = [(route, self.functions[spec.name]) for spec in template.functions for route in spec.api]
        urls = {queue.arn: (queue_urls or {})[queue.logical_id] for queue in template.queues} if sqs is not None else {}
        self._pollers = [
            QueuePoller(source, self.functions[spec.name], sqs, urls[source.queue_arn])
            for spec in template.functions
            for source in spec.queues
            if sqs is not None
        ]
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._tick,
                args=(schedule, self.functions[spec.name], settings.schedule_seconds or schedule.seconds),
                name=f"schedule-{spec.name}",
                daemon=True,
            )
            for spec in template.functions
            for schedule in spec.schedules
            if settings.schedules and spec.name != PULL
        ]
        self._sources = [
            SourcePoller(self.functions[spec.name], partial(has_section, "sources"))
            for spec in template.functions
            if spec.name == PULL and settings.schedules and has_section is not None
        ]
        self._threads.append(threading.Thread(target=self._housekeeping, name="housekeeping", daemon=True))
        # waitress refuses only what no handler could want; the limit with API Gateway's answer is in _api.
        self.server = Server(self, settings.port, threads=16, max_body=4 * MAX_BODY)

    def start(self) -> None:
        """Serve requests, poll queues, keep schedules. Functions behind the API are started now, others and large ones
        when they are needed."""
        self.server.start()
        for spec in self._template.functions:
            if spec.api and spec.memory_mb <= _WARM_MB:
                threading.Thread(target=self.functions[spec.name].warm, daemon=True).start()
        for poller in self._pollers:
            poller.start()
        for source in self._sources:
            source.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Take nothing new, then end the functions."""
        self._stopping.set()
        for source in self._sources:
            source.stop()
        for function in self.functions.values():
            function.close()
        if self._forks is not None:
            self._forks.close()
        for poller in self._pollers:
            poller.stop()
        self.server.stop()

    def deliver(self, event: Mapping[str, Any]) -> None:
        """An event of another service: invoke each function that has a rule for it, and don't wait."""
        if self._stopping.is_set() or not self._settings.schedules:
            return
        for spec in self._template.functions:
            for rule in spec.rules:
                if matches(rule.pattern, event):
                    function = self.functions[spec.name]
                    args = (function, dict(event), "event")
                    threading.Thread(target=self._invoke, args=args, name=rule.name, daemon=True).start()

    def _invoke(self, function: FunctionRunner, event: Any, why: str) -> None:
        """Invoke where nobody waits for the answer: what goes wrong is a line in the log."""
        try:
            function.invoke(event)
        except (FunctionError, PayloadTooLarge) as error:
            if not self._stopping.is_set():
                _log.error("%s (%s): %s", function.spec.name, why, error)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (WSGI)."""
        path = raw_path(environ)
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if path == "/metrics":
            response = Response(200, self._metrics.text().encode(), (("Content-Type", CONTENT_TYPE),))
        elif length > MAX_BODY:
            response = json_response(413, {"message": "Request Too Long"})
        elif path.startswith("/_firn/"):
            response = self._own(environ["REQUEST_METHOD"], path, environ)
        else:
            request = HttpRequest(
                environ["REQUEST_METHOD"],
                sent_path(environ),
                environ.get("QUERY_STRING", ""),
                request_headers(environ),
                read_body(environ),
                environ.get("REMOTE_ADDR", "127.0.0.1"),
            )
            response = self._api(request)
            self._metrics.count(Metric.API_REQUESTS, status=str(response.status))
        return response.send(start_response)

    def _api(self, request: HttpRequest) -> Response:
        """API Gateway's part: find the route, make the event, turn the handler's result into an answer."""
        route, function, parameters = self._route(request)
        if function is None:
            # What a REST API answers where it has no such method and path.
            return json_response(
                403,
                {"message": "Missing Authentication Token", "hint": f"no route for {request.method} {request.path}"},
                {"x-amzn-ErrorType": "MissingAuthenticationTokenException"},
            )
        if wait := self._bucket.take(len(request.body)):
            return json_response(
                429,
                {"message": "Too Many Requests"},
                {"Retry-After": str(wait), "x-amzn-ErrorType": "TooManyRequestsException"},
            )
        event = api_event(
            request, route, parameters, stage=self._template.stage, binary_types=self._template.binary_types
        )
        try:
            return _gateway_response(function.invoke(event))
        except PayloadTooLarge:
            return json_response(413, {"message": "Request Too Long"})
        except FunctionError as error:
            _log.error("%s %s: %s", request.method, request.path, error)
        except (TypeError, ValueError, KeyError) as error:
            _log.error("%s %s: the handler's answer is malformed: %s", request.method, request.path, error)
        return json_response(502, {"message": "Internal server error"})

    def _route(self, request: HttpRequest) -> tuple[ApiEvent, FunctionRunner | None, dict[str, str]]:
        for route, function in self._routes:
            parameters = path_parameters(route, request.method, request.path)
            if parameters is not None:
                return route, function, parameters
        return ApiEvent(request.path, request.method), None, {}

    def _own(self, method: str, path: str, environ: WSGIEnvironment) -> Response:
        """The host's own routes."""
        given = environ.get("HTTP_X_FIRN_TOKEN", "").encode("utf-8", "surrogatepass")
        token = self._settings.token.encode()
        if not token or not hmac.compare_digest(given, token):
            return json_response(401, {"message": "send X-Firn-Token: it is `token` in the stack's stack.json"})
        if path == "/_firn/health" and method == "GET":
            errors = {name: function.last_error for name, function in self.functions.items()}
            return json_response(200, {"status": "ok", "functions": errors})
        if path == "/_firn/lifecycle" and method == "POST" and self._lifecycle is not None:
            return _lifecycle_response(self._lifecycle, environ.get("QUERY_STRING", ""))
        name = path.removeprefix("/_firn/invoke/")
        if name == path or method != "POST":
            here = "GET /_firn/health, POST /_firn/invoke/{function} and POST /_firn/lifecycle?now=TIME"
            return json_response(404, {"message": f"here are {here}"})
        function = self.functions.get(name) or next(
            (known for known in self.functions.values() if known.spec.logical_id == name), None
        )
        if function is None:
            return json_response(404, {"message": f"no function {name}: there are {', '.join(sorted(self.functions))}"})
        try:
            event = json.loads(read_body(environ) or b"{}")
            if _names_caller(event):
                return json_response(403, {"message": "who signed a request says AWS alone: take it out of the event"})
            return json_response(200, function.invoke(event))
        except ValueError as error:
            return json_response(400, {"message": f"the event is not JSON: {error}"})
        except PayloadTooLarge as error:
            return json_response(413, {"message": str(error)})
        except FunctionError as error:
            status = 504 if error.report.get("errorType") == "Sandbox.Timedout" else 502
            return json_response(status, error.report, {"X-Amz-Function-Error": error.kind})

    def _tick(self, schedule: ScheduleEvent, function: FunctionRunner, seconds: float) -> None:
        """Invoke at each period. A run that takes longer than a period leaves out the periods it covers."""
        while not self._stopping.wait(seconds):
            if function.spec.name == ALERTS and self._has_section is not None and not self._has_section(ALERTS):
                continue
            event = json.loads(schedule.input) if schedule.input else schedule_event(schedule.name)
            self._invoke(function, event, "scheduled")

    def _housekeeping(self) -> None:
        while not self._stopping.wait(10):
            for function in self.functions.values():
                function.reap(_IDLE_SECONDS)


def _names_caller(event: Any) -> bool:
    """Whether an event says who signed the request that it stands for, as none can that nobody checked."""
    context = event.get("requestContext") if isinstance(event, dict) else None
    if not isinstance(context, dict):
        return bool(context)
    identity = context.get("identity")
    signed = identity.get("userArn") if isinstance(identity, dict) else identity
    return bool(signed) or bool(context.get("authorizer"))


def _lifecycle_response(run: Callable[[datetime], list[Done]], query: str) -> Response:
    """Lifecycle rules are applied as of `now`, an ISO time (UTC without a zone); the present without one."""
    text = parse_qs(query).get("now", [""])[0]
    try:
        # A plus that was not encoded is a space by now.
        now = datetime.fromisoformat(text.replace(" ", "+")) if text else datetime.now(UTC)
    except ValueError:
        return json_response(400, {"message": f"now={text!r} is not a time; write now=2026-03-01T00:00:00Z"})
    done = run(now if now.tzinfo else now.replace(tzinfo=UTC))
    return json_response(200, {"now": now.isoformat(), "objects": [asdict(one) for one in done]})


def _gateway_response(result: Any) -> Response:
    """A proxy integration's result as an HTTP answer. Raises TypeError, ValueError or KeyError if it is malformed."""
    if not isinstance(result, dict):
        raise TypeError(f"it is {type(result).__name__}, not an object with statusCode")
    headers = {name.lower(): (name, [str(value)]) for name, value in (result.get("headers") or {}).items()}
    for name, values in (result.get("multiValueHeaders") or {}).items():
        headers[name.lower()] = (name, [str(value) for value in values])
    headers.setdefault("content-type", ("Content-Type", ["application/json"]))
    for ours in ("content-length", "connection", "transfer-encoding"):
        headers.pop(ours, None)
    text = result.get("body") or ""
    body = base64.b64decode(text) if result.get("isBase64Encoded") else str(text).encode()
    pairs = tuple((name, value) for name, values in headers.values() for value in values)
    return Response(int(result["statusCode"]), body, pairs)
