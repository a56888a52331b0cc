"""What keeps web pages out of the stack: a browser on this machine reaches loopback for any page that it shows.

A page reaches us under a name of its own that resolves to loopback (DNS rebinding: the `Host` is not ours), or sends a
request to our address from its own origin (the browser says so in `Origin` or `Sec-Fetch-Site`, which no page can
change). Both are refused, whatever the method, and no answer lets a page read it (CORS): moto's would.
Sources: Fetch Standard, "CORS protocol"; Fetch Metadata Request Headers, section 2; RFC 9110, section 15.5.20 (421).
"""

import re
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)
# A page of another port of this machine is `same-site`, and no friend either.
_OWN_SITES = ("", "none", "same-origin")


def fault(environ: WSGIEnvironment) -> tuple[str, str] | None:
    """Why a request is refused: the status line, and a text for people. None if it is not a foreign page's."""
    host, origin = environ.get("HTTP_HOST", ""), environ.get("HTTP_ORIGIN")
    if not _LOOPBACK.fullmatch(host):
        return "421 Misdirected Request", f"the host {host[:100]!r} is not here: use 127.0.0.1 or localhost"
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        return "403 Forbidden", f"web pages of {origin[:100]!r} may ask nothing here"
    if environ.get("HTTP_SEC_FETCH_SITE", "").lower() not in _OWN_SITES:
        return (
            "403 Forbidden",
            "web pages of other sites may ask nothing here: type the address instead of following a link",
        )
    return None


def guarded(app: WSGIApplication) -> WSGIApplication:
    """The application for requests that are not a foreign page's; its answers without leave for other pages."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if (found := fault(environ)) is not None:
            status, text = found
            body = text.encode("utf-8", "replace") + b"\n"
            headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
            start_response(status, headers)
            return [body]

        def answer(status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Any:
            own = [(name, value) for name, value in headers if not name.lower().startswith("access-control-")]
            return start_response(status, own, exc_info) if exc_info else start_response(status, own)

        return app(environ, answer)

    return serve
