"""Requests as API Gateway and function URLs hand them over: REST API v1 events, and version 2's of a URL."""

import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from firn.auth.senders import Request
from firn.errors import RequestError

Handler = Callable[[Mapping[str, Any], str], Any]
Routes = Mapping[str, Mapping[str, Handler]]
"""Path below /v1/, with * for the name of one -> method -> handler of (event, that name)."""

NOT_CONFIGURED: Final = "Firn's configuration here is missing or wrong; the function's log says what to do"
"""All that is answered to a ConfigError: its text may say where a secret is, and anybody may read the answer."""


def call(routes: Routes, event: Mapping[str, Any], hint: str) -> Any:
    """What the handler of the event's path and method gives. Raises RequestError 404 (with the hint), 405."""
    http = event.get("requestContext", {}).get("http", {})  # a function URL's
    method = event.get("httpMethod") or http.get("method", "")
    collection, *named = (event.get("path") or event.get("rawPath") or "").partition("/v1/")[2].split("/")
    member = named[0] if named else ""
    methods = routes.get("/".join([collection, *(["*"] if member else named[:1]), *named[1:]]))
    if methods is None:
        raise RequestError(404, "no_such_path", f"there is nothing here; {hint}")
    if method not in methods:
        raise RequestError(405, "method_not_allowed", f"only {', '.join(methods)} works here")
    return methods[method](event, unquote(member))


def request_of(event: Mapping[str, Any]) -> Request:
    """Who sent it says the gateway: nothing in a request's own bytes can. Raises RequestError 400."""
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items() if value is not None}
    context = event.get("requestContext") or {}
    # A REST API says it in `identity`, a function URL in `authorizer`.
    by_url = (context.get("authorizer") or {}).get("iam")
    caller = (context.get("identity") or {}).get("userArn") or (by_url or {}).get("userArn") or ""
    return Request(headers, _raw_body(event), caller)


def parameters_of(event: Mapping[str, Any]) -> dict[str, str]:
    """The query string's parameters, the last of each name."""
    if event.get("queryStringParameters") is not None:
        return dict(event["queryStringParameters"])
    return {name: values[-1] for name, values in parse_qs(event.get("rawQueryString") or "").items()}


def _raw_body(event: Mapping[str, Any]) -> bytes:
    body: str = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return body.encode("utf-8", "surrogatepass")
    try:
        return binascii.a2b_base64(body, strict_mode=True)
    except binascii.Error as error:
        raise RequestError(400, "unreadable_body", "the body is marked as base64 and is none") from error
