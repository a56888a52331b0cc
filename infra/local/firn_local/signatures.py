"""AWS's signatures (version 4) on requests: which service one is for, and whether it was made with a secret key.

Source: IAM User Guide, "Create a signed AWS API request". A signature is read as a whole or not at all: what one part
of the stack takes for a request to S3, no other may take for something else.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qs, quote
from wsgiref.types import WSGIEnvironment

WINDOW = 900  # seconds by which a request's time may differ from ours, both ways: AWS's
_HEADER = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<credential>\S+), ?SignedHeaders=(?P<headers>[a-z0-9;._-]+), ?"
    r"Signature=(?P<signature>[0-9a-f]{64})",
    re.ASCII,
)
_CREDENTIAL = re.compile(
    r"(?P<key>[^/,\s]+)/(?P<date>\d{8})/(?P<region>[\w-]+)/(?P<service>[a-z0-9-]+)/aws4_request", re.ASCII
)


@dataclass(frozen=True)
class Signature:
    """What a request says of its signature. `headers`: the names of those signed; a link has none and no signature
    that this checks."""

    key: str
    date: str
    region: str
    service: str
    headers: tuple[str, ...] = ()
    signature: str = ""


def signature_of(environ: WSGIEnvironment) -> Signature | None:
    """The signature in the request's header or, of a link, in its query. None if it is none, or more than one."""
    query = parse_qs(environ.get("QUERY_STRING", ""))
    if "HTTP_AUTHORIZATION" not in environ:
        [credential, *more] = query.get("X-Amz-Credential", ["", ""])
        return None if more else _signature(credential)
    header = _HEADER.fullmatch(environ["HTTP_AUTHORIZATION"])
    if header is None:
        return None
    return _signature(header["credential"], tuple(header["headers"].split(";")), header["signature"])


def _signature(credential: str, headers: tuple[str, ...] = (), signature: str = "") -> Signature | None:
    found = _CREDENTIAL.fullmatch(credential)
    if found is None:
        return None
    return Signature(found["key"], found["date"], found["region"], found["service"], headers, signature)


def is_signed_with(secret: str, signed: Signature, environ: WSGIEnvironment, body: bytes, now: datetime) -> bool:
    """Whether the signature is over this request and of this time, made with `secret`. `now`: aware. Links are not."""
    sent = environ.get("HTTP_X_AMZ_DATE", "")
    try:
        time = datetime.strptime(sent, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return False
    needed = {"host", "x-amz-date"} <= set(signed.headers)
    if not needed or not sent.startswith(signed.date) or abs((now - time).total_seconds()) > WINDOW:
        return False
    scope = f"{signed.date}/{signed.region}/{signed.service}/aws4_request"
    hashed = hashlib.sha256(_canonical(signed, environ, body).encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    right = hmac.new(key, f"AWS4-HMAC-SHA256\n{sent}\n{scope}\n{hashed}".encode(), "sha256").hexdigest()
    return hmac.compare_digest(right, signed.signature)


def _canonical(signed: Signature, environ: WSGIEnvironment, body: bytes) -> str:
    path, _, query = str(environ["REQUEST_URI"]).partition("?")
    # Every service but S3 has what is encoded in the path encoded once more.
    path = path if signed.service == "s3" else quote(path, safe="/-_.~")
    parameters = sorted(one if "=" in one else f"{one}=" for one in query.split("&") if one)
    headers = "".join(f"{name}:{' '.join(_header(environ, name).split())}\n" for name in signed.headers)
    hashed = hashlib.sha256(body).hexdigest()
    parts = environ["REQUEST_METHOD"], path, "&".join(parameters), headers, ";".join(signed.headers), hashed
    return "\n".join(parts)


def _header(environ: Mapping[str, object], name: str) -> str:
    variable = name.upper().replace("-", "_")
    return str(environ.get(variable if name in ("content-type", "content-length") else f"HTTP_{variable}", ""))
