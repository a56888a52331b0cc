"""An error of `firn doctor --storage` as the setting to change. Pure."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from firn.config.region import s3_endpoint
from firn.errors import ConfigError, FirnError
from firn.log.cloud_stores import AZURE, GOOGLE, azure_endpoint, google_emulator

_PROLOGUE: Final = re.compile(r"<\?xml[^>]*>")
_LONGEST: Final = 400  # characters of what a server said
# Words of what the storage said -> what is wrong. The first that fits counts.
_CAUSES: Final = (
    (("notimplemented", "501 not implemented"), "unsupported"),
    (("nosuchbucket", "containernotfound"), "bucket"),
    (("authorizationheadermalformed", "permanentredirect", "301 moved", "illegallocation"), "region"),
    (("requesttimetooskewed", "request time and the current time"), "clock"),
    (("invalidaccesskeyid", "signaturedoesnotmatch", "invalidtoken", "expiredtoken", "401 unauthorized",
      "no credentials", "authenticationfailed", "usernotfound"), "credentials"),
    (("accessdenied", "403 forbidden", "authorizationfailure"), "rights"),
    (("builder error", "badscheme", "scheme is not allowed"), "plain http"),
    (("kind: connect", "dns error", "connection refused"), "endpoint"),
    (("kind: timeout", "timedout", "timed out"), "hang"),
    (("404 not found",), "nothing there"),
)  # fmt: skip


def where(url: str, environment: Mapping[str, str]) -> str:
    """The URL, and the endpoint that it is asked at, for people: no password of either. What Azure's addresses have
    before their @ is a container."""
    scheme = urlsplit(url).scheme
    endpoint = s3_endpoint(environment) if scheme == "s3" else ""
    if scheme in AZURE | GOOGLE:
        endpoint = azure_endpoint(environment) if scheme in AZURE else google_emulator(environment)
    return (url if scheme in AZURE else _shown(url)) + (f" by {_shown(endpoint)}" if endpoint else "")


def cause_of(error: Exception) -> str:
    """What is wrong, in one line: Firn's own words, and the storage's code for it."""
    said = str(error) or type(error).__name__
    body = str(error.__cause__ or "")
    code = body.partition("<Code>")[2].partition("</Code>")[0]
    text = " ".join(_PROLOGUE.sub("", said).split())
    if code and code not in text:
        text = f"{text} [{code}]"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def advice_on(error: Exception, part: str, url: str, environment: Mapping[str, str]) -> str:
    """What to change. `part`: of the check, as it names it."""
    cause = _kind(error)
    place = urlsplit(url)
    if isinstance(error, ConfigError):
        return "set it in the environment, of functions and jobs too, as it says"
    if cause == "unsupported":
        if part == "create":
            return "this storage knows no conditional put (If-None-Match: *): Firn can't stage here (docs/storages.md)"
        return "this storage lacks what this part asks for: Firn needs it (docs/storages.md)"
    if place.scheme != "s3":
        return (
            "see that the place is there, that this machine reaches it, and that its credentials may write to it "
            "(docs/clouds.md)"
        )
    endpoint = s3_endpoint(environment)
    asked = f"AWS_ENDPOINT_URL_S3 (or AWS_ENDPOINT_URL) is {_shown(endpoint)}" if endpoint else (
        "no AWS_ENDPOINT_URL_S3 is set, so AWS itself is asked: set it if the bucket is elsewhere"
    )  # fmt: skip
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""
    match cause:
        case "bucket":
            return f"there is no bucket {place.netloc}: make it, or name another in the URL; {asked}"
        case "region":
            return f"AWS_REGION is {region}: set the bucket's region, as its provider names it"
        case "clock":
            return "set this machine's clock: signatures are refused where it is more than 15 minutes off"
        case "credentials":
            return "it does not know AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or AWS_PROFILE): set its own"
        case "rights":
            return "the key of AWS_ACCESS_KEY_ID may not do this: it needs to list, read, write and delete in "\
                f"{place.netloc}; compare the bucket's policy"  # fmt: skip
        case "plain http":
            return f"{asked}: beyond this machine write https://, plain http is used on loopback only"
        case "endpoint":
            return f"nothing answers there. {asked}; see that host and port are right and reached from here"
        case "hang":
            return f"it takes connections and does not answer in time. {asked}; see whether it is an S3, and healthy"
        case "nothing there":
            return f"what answers is no S3, or there is no bucket {place.netloc}. {asked}"
    return f"the storage's own log says more. {asked}" if isinstance(error, FirnError) else asked


def _kind(error: Exception) -> str:
    said = f"{error} {error.__cause__ or ''}".lower()
    return next((kind for words, kind in _CAUSES if any(word in said for word in words)), "")


def _shown(url: str) -> str:
    """Without a user and a password."""
    before, at, host = url.rpartition("@")
    return f"{before.partition('://')[0]}://{host}" if at and "://" in before else url
