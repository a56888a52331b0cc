"""Requests to Azure's and Google's storage that obstore has no call for, and what their answers mean.

Everything that is asked here may be asked again, so that a request whose answer got lost is.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from firn.errors import ConfigError, FirnError, TerminalError, TransientError
from firn.log.cloud_stores import is_loopback
from firn_lake.tiering.class_port import AT_ONCE

if TYPE_CHECKING:
    from requests import PreparedRequest, Session

_SECONDS: Final = (3.0, 60.0)  # to connect, and for an answer
_TRIES: Final = 4
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
_MOST_SAID: Final = 300
# Whatever the environment says: a proxy would ask for its own machine's identity.
_NO_PROXY: Final[Any] = {"http": None, "https": None, "all": None}


class Answer(NamedTuple):
    """What came back, whatever it says."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def call(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None = None, *, what: str, secure: bool = True
) -> Answer:
    """Ask, again where that may help. `what`: what is wanted, for errors; `secure` false: a service of the machine
    itself, which speaks plain HTTP. Raises TransientError if there is no answer, or one that says to come back;
    ConfigError for plain HTTP to elsewhere."""
    from requests.exceptions import RequestException

    if secure and urlsplit(url).scheme != "https" and not is_loopback(url):
        raise ConfigError(f"{urlsplit(url).netloc} is asked over plain HTTP, which is spoken on this machine only")
    try:
        told = _session().request(
            method, url, headers=dict(headers), data=body, timeout=_SECONDS, allow_redirects=False, auth=_as_it_is,
            proxies=None if secure else _NO_PROXY,
        )  # fmt: skip
        answer = Answer(told.status_code, told.headers, told.content)
    except RequestException as error:
        # Never the URL: a signature may be part of it.
        raise TransientError(f"{urlsplit(url).netloc} can't {what}: {type(error).__name__}; try again") from error
    if answer.status in _PASSING:
        raise TransientError(f"{urlsplit(url).netloc} can't {what}: {_said(answer)}; try again")
    return answer


def refused(answer: Answer, url: str, what: str) -> FirnError:
    """What an answer means that is none of those that were expected."""
    advice = ""
    if answer.status in (401, 403):
        advice = "; check the credentials, and what they may do there (docs/clouds.md)"
    elif answer.status == 404:
        advice = "; check that the bucket exists"
    return TerminalError(f"{urlsplit(url).netloc} can't {what}: {_said(answer)}{advice}")


def _said(answer: Answer) -> str:
    code = answer.headers.get("x-ms-error-code", "")
    text = " ".join(answer.body.decode("utf-8", "replace").split())[:_MOST_SAID]
    return " ".join(one for one in (str(answer.status), code, text) if one)


def _as_it_is(request: "PreparedRequest") -> "PreparedRequest":
    """Instead of what .netrc may hold for the host."""
    return request


@cache
def _session() -> "Session":
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    again: Any = Retry(_TRIES, status_forcelist=_PASSING, allowed_methods=None, backoff_factor=0.2,
                       raise_on_status=False, redirect=0)  # fmt: skip
    session = requests.Session()
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=AT_ONCE, max_retries=again))
    return session
