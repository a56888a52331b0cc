"""Requests and responses as API Gateway and function URLs take them: REST API v1 events, and version 2's of a URL.

The routes are a short table of our own: Powertools' resolver alone would cost more of a cold start than all of Firn
(docs/adr/0002-staging-format.md).
"""

import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import msgspec

from firn.auth.senders import Request
from firn.errors import RequestError

Handler = Callable[..., Any]
Routes = Mapping[str, Mapping[str, Handler]]
"""Path below /v1/, with * for the name of one -> method -> handler of (event, that name and any more)."""

NOT_CONFIGURED: Final = "Firn's configuration here is missing or wrong; the function's log says what to do"
"""All that is answered to a ConfigError: its text may say where a secret is, and anybody may read the answer."""


def call(routes: Routes, event: Mapping[str, Any], hint: str) -> Any:
    """What the handler of the event's path and method gives. Raises RequestError 404 (with the hint), 405, 400."""
    http = event.get("requestContext", {}).get("http", {})  # a function URL's
    method = event.get("httpMethod") or http.get("method", "")
    parts = (event.get("path") or event.get("rawPath") or "").partition("/v1/")[2].split("/")
    try:
        names = [unquote(part, errors="strict") for part in parts[1::2]]
    except UnicodeDecodeError:
        raise RequestError(400, "bad_path", "a name in the path is not UTF-8") from None
    methods = routes.get("/".join("*" if place % 2 and part else part for place, part in enumerate(parts)))
    if methods is None:
        raise RequestError(404, "no_such_path", f"there is nothing here; {hint}")
    if method not in methods:
        raise RequestError(405, "method_not_allowed", f"only {', '.join(methods)} works here")
    return methods[method](event, *(names or [""]))


def request_of(event: Mapping[str, Any]) -> Request:
    """Who sent it says the gateway: nothing in a request's own bytes can. Raises RequestError 400."""
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items() if value is not None}
    context = event.get("requestContext") or {}
    # A REST API says it in `identity`, a function URL in `authorizer`.
    by_url = (context.get("authorizer") or {}).get("iam")
    caller = (context.get("identity") or {}).get("userArn") or (by_url or {}).get("userArn") or ""
    writer = parameters_of(event).get("writer") or headers.get("x-firn-writer", "")
    return Request(headers, _raw_body(event), caller, writer)


def parameters_of(event: Mapping[str, Any]) -> dict[str, str]:
    """The query string's parameters, the last of each name."""
    if event.get("queryStringParameters") is not None:
        return dict(event["queryStringParameters"])
    return {name: values[-1] for name, values in parse_qs(event.get("rawQueryString") or "").items()}


def response(status: int, content: bytes, kind: str, headers: Mapping[str, str] = {}) -> dict[str, Any]:
    """What a function answers: `content` of the type `kind`.

    What is not text reaches callers that say `Accept: */*` or its type; for others the gateway leaves it as base64.
    """
    text = is_text(kind)
    return {
        "statusCode": status,
        "headers": {"Content-Type": kind, **headers},
        "body": content.decode() if text else binascii.b2a_base64(content, newline=False).decode(),
        "isBase64Encoded": not text,
    }


def json_response(status: int, answer: Any, headers: Mapping[str, str] = {}) -> dict[str, Any]:
    """What a function answers: a value as JSON."""
    return response(status, msgspec.json.encode(answer), "application/json", headers)


def refused(error: RequestError) -> dict[str, Any]:
    """The answer to a request that can't be taken."""
    answer: dict[str, Any] = {"error": error.code, "message": str(error)}
    if error.retry_after is None:
        return json_response(error.status, answer)
    answer["retry_after"] = error.retry_after
    return json_response(error.status, answer, {"Retry-After": str(error.retry_after)})


def unavailable(code: str, message: str) -> dict[str, Any]:
    """The answer where nothing was decided, and another try is worth it."""
    return json_response(503, {"error": code, "message": message}, {"Retry-After": "1"})


def is_text(kind: str) -> bool:
    """Whether content of that type is answered as it is."""
    return kind.startswith(("application/json", "text/"))


def _raw_body(event: Mapping[str, Any]) -> bytes:
    body: str = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return body.encode("utf-8", "surrogatepass")
    try:
        return binascii.a2b_base64(body, strict_mode=True)
    except binascii.Error as error:
        raise RequestError(400, "unreadable_body", "the body is marked as base64 but can't be decoded") from error
