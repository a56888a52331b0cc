"""The console's paths: what answers a request, once it is known who asks."""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec

import firn
from firn.auth.gateway import parameters_of, request_of
from firn.auth.grants import Grants
from firn.config.model import Config
from firn.errors import RequestError
from firn.log import layout, pause
from firn.log.store import Store, modified
from firn.settings import Settings
from firn_console import (
    actions,
    alert_page,
    assets,
    holds,
    jobs,
    letters,
    log_pages,
    overview,
    responses,
    streams,
    tables,
)
from firn_console.asked import Asked
from firn_console.contract.action_pages import Session

_MOST_BODY: Final = 8 << 20
Answer = Callable[..., Any]


def session(asked: Asked) -> Session:
    """Who asks. Raises StorageUnavailable."""
    since, published = pause.since(asked.store), modified(asked.store, layout.CONFIG_POINTER)
    return Session(
        target=asked.settings.environment or "embedded",
        version=firn.__version__,
        rights=asked.grant.rights,
        config=asked.config.sha,
        published_at=None if published is None else layout.instant(published),
        paused_since=None if since is None else layout.instant(since),
    )


GETS: Final[Mapping[str, Answer]] = {
    "session": session,
    "overview": overview.overview,
    "streams/*": streams.stream_page,
    "streams/*/epochs": log_pages.epoch_page,
    "streams/*/batches": log_pages.batch_page,
    "streams/*/batches/*": streams.batch,
    "streams/*/receipts": streams.receipt,
    "dead-letters": letters.letter_page,
    "dead-letters/*/*/*": letters.letter_answer,
    "quarantine": holds.quarantine,
    "alerts": alert_page.alerts,
    "jobs": jobs.run_page,
    "jobs/*": jobs.run_answer,
    "tables": tables.table_page,
    "tables/*": tables.table_answer,
    "actions": actions.action_list,
    "actions/*": actions.action_plan,
}
"""Path below /v1/console/ -> what answers a GET."""

POSTS: Final[Mapping[str, Answer]] = {"actions/*": actions.done}


def page(event: Mapping[str, Any], documentation: Path | None = None) -> dict[str, Any]:
    """A file of the pages, or of the documentation in its folder; `/`, `/console` and `/docs` are moved to the first.
    Raises RequestError 404, 405."""
    method, path = place_of(event)
    if method not in ("GET", "HEAD"):
        raise RequestError(405, "method_not_allowed", "only GET works here")
    if path == "/docs":
        return responses.moved("docs/")
    if path.startswith("/docs/"):
        body, kind = assets.documentation(path.removeprefix("/docs/"), documentation)
        return responses.content(event, body, kind, "no-cache", responses.DOCUMENTATION)
    if not path.startswith("/console/"):
        return responses.moved("console/")  # beside either: a deployment has its stage before them
    body, kind = assets.read(path.removeprefix("/console/"))
    return responses.content(event, body, kind, "no-cache")


def answer(
    event: Mapping[str, Any], store: Store, settings: Settings, config: Config, grants: Grants, now: datetime
) -> dict[str, Any]:
    """Anything below /v1/console/.

    Raises RequestError (NotAReader 401, NotGranted 403 among them), StorageUnavailable, TransientError, UnknownOutcome,
    UnreadableBatch, ConfigError.
    """
    method, path = place_of(event)
    headers = responses.headers_of(event)
    if method == "POST":
        responses.check_action(headers)
    else:
        responses.check_own_page(headers)
    request = request_of(event)
    grant = grants.of(config, request, now, settings.open_reads)
    routes = POSTS if method == "POST" else GETS
    route, names = _routed(path.partition("/v1/console/")[2], routes, method)
    body = _body(request.body) if method == "POST" else {}
    asked = Asked(store, config, settings, grant, now, parameters_of(event), body)
    return responses.data(event, routes[route](asked, *names))


def place_of(event: Mapping[str, Any]) -> tuple[str, str]:
    """Method and path of a REST API's event, or a function URL's."""
    http = event.get("requestContext", {}).get("http", {})
    return event.get("httpMethod") or http.get("method", ""), event.get("path") or event.get("rawPath") or "/"


def _routed(path: str, routes: Mapping[str, Answer], method: str) -> tuple[str, list[str]]:
    """The route of a path, and the names in it. Raises RequestError 400, 404, 405."""
    parts = path.split("/")
    for route in routes:
        words = route.split("/")
        if len(words) == len(parts) and all(a == b or (a == "*" and b) for a, b in zip(words, parts, strict=True)):
            try:
                return route, [unquote(b, errors="strict") for a, b in zip(words, parts, strict=True) if a == "*"]
            except UnicodeDecodeError:
                raise RequestError(400, "bad_path", "a name in the path is not UTF-8") from None
    if method not in ("GET", "HEAD", "POST"):
        raise RequestError(405, "method_not_allowed", "only GET and POST work here")
    raise RequestError(404, "no_such_path", "the console has no such path: docs/console.md names those it has")


def _body(data: bytes) -> Mapping[str, Any]:
    """A POST's JSON object. Raises RequestError 400, 413."""
    if len(data) > _MOST_BODY:
        raise RequestError(413, "too_large", f"the body has more than {_MOST_BODY:,} bytes")
    try:
        found = msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, RecursionError):
        raise RequestError(400, "bad_json", "the body is no JSON object") from None
    if not isinstance(found, dict):
        raise RequestError(400, "bad_json", "the body is no JSON object")
    return found
