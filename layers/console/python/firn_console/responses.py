"""The console's answers over HTTP: their headers, entity tags and compression, and what a request must say to change
anything.

Sources: Content Security Policy Level 3; Fetch Metadata Request Headers; RFC 9110, sections 8.8.3 and 13.1.2 (ETag,
If-None-Match); OWASP, Cross-Site Request Forgery Prevention, "Custom request headers".
"""

import base64
import gzip
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from firn.errors import RequestError
from firn_console.contract.action_pages import Fault

# No script, style, picture or connection but our own; nobody may frame the page; nothing leaves it, no referrer either.
SECURITY: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
DOCUMENTATION: Final = SECURITY["Content-Security-Policy"].replace(
    "style-src 'self'", "style-src 'self' 'unsafe-inline'; worker-src 'self'"
)
"""The policy of the documentation's pages: its theme writes styles into them, and its search is a worker of our own."""

HEADER: Final = "x-firn-console"
"""What each POST sends: no page of another origin can, without a leave (CORS) that is never given."""

_COMPRESSED: Final = 1_400  # bytes from which on compression is worth it: more than one packet
_PACKED: Final = ("image/png", "image/x-icon", "font/woff2")
_OWN_SITES: Final = (None, "", "none", "same-origin")


def data(event: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """A value as JSON, or 304 where the caller has it. Nothing keeps it but the page itself."""
    return content(event, msgspec.json.encode(value), "application/json", "no-store")


def content(event: Mapping[str, Any], body: bytes, kind: str, keep: str, policy: str | None = None) -> dict[str, Any]:
    """Bytes of a type, or 304 where the caller has them. `keep`: Cache-Control; `policy`: another than the pages'."""
    sent = headers_of(event)
    tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    headers = {**SECURITY, "Cache-Control": keep, "ETag": tag, "Vary": "Accept-Encoding"}
    headers |= {} if policy is None else {"Content-Security-Policy": policy}
    if _has(sent.get("if-none-match", ""), tag):
        return {"statusCode": 304, "headers": headers, "body": "", "isBase64Encoded": False}
    return _response(200, body, kind, headers, sent)


def refusal(event: Mapping[str, Any], error: RequestError) -> dict[str, Any]:
    """The answer to a request that can't be taken."""
    body = msgspec.json.encode(Fault(error.code, str(error), error.retry_after))
    headers = {**SECURITY, "Cache-Control": "no-store"}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return _response(error.status, body, "application/json", headers, headers_of(event))


def moved(to: str) -> dict[str, Any]:
    """That the page is at another path of the same origin."""
    headers = {**SECURITY, "Cache-Control": "no-store", "Location": to}
    return {"statusCode": 302, "headers": headers, "body": "", "isBase64Encoded": False}


def headers_of(event: Mapping[str, Any]) -> dict[str, str]:
    """The request's headers, names in lower case."""
    return {str(name).lower(): str(value) for name, value in (event.get("headers") or {}).items() if value is not None}


def check_own_page(headers: Mapping[str, str]) -> None:
    """Raises RequestError 403 for a request that a page of another origin may have sent, 415 for what is not JSON."""
    origin, host = headers.get("origin"), headers.get("host", "")
    foreign = origin is not None and origin.lower() not in (f"https://{host.lower()}", f"http://{host.lower()}")
    if foreign or headers.get("sec-fetch-site", "").lower() not in _OWN_SITES:
        raise RequestError(403, "foreign_origin", "pages of other sites may ask nothing here")


def check_action(headers: Mapping[str, str]) -> None:
    """Raises RequestError 403, 415 unless a request that changes something is the console's own."""
    check_own_page(headers)
    if headers.get(HEADER) != "1":
        raise RequestError(403, "no_console_header", "send X-Firn-Console: 1 with what changes something")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError(415, "not_json", "send Content-Type: application/json")


def _response(
    status: int, body: bytes, kind: str, headers: Mapping[str, str], sent: Mapping[str, str]
) -> dict[str, Any]:
    told = {**headers, "Content-Type": kind}
    if len(body) >= _COMPRESSED and "gzip" in sent.get("accept-encoding", "") and kind not in _PACKED:
        body, told = gzip.compress(body, 6, mtime=0), {**told, "Content-Encoding": "gzip"}
    elif kind not in _PACKED:
        return {"statusCode": status, "headers": told, "body": body.decode(), "isBase64Encoded": False}
    encoded = base64.b64encode(body).decode()
    return {"statusCode": status, "headers": told, "body": encoded, "isBase64Encoded": True}


def _has(wanted: str, tag: str) -> bool:
    return any(one.strip().removeprefix("W/") in (tag, "*") for one in wanted.split(","))
