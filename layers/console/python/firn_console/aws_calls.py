"""Calls of AWS without an SDK: EMR Serverless is asked for runs, functions are invoked. boto3 alone would take as much
memory as all of the console.

Source: IAM User Guide, "Create a signed AWS API request" (signature version 4); AWS Lambda and EMR Serverless API
references. Credentials and endpoints are those of the environment, as Lambda and the embedded stack set them.
"""

import hashlib
import hmac
import http.client
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from firn.config.region import region_of
from firn.errors import ConfigError, RequestError, TransientError

_MOST_ANSWER: Final = 8 << 20  # bytes
_NAMES: Final = {"emr-serverless": "EMR_SERVERLESS", "lambda": "LAMBDA"}


def call(
    service: str,
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    seconds: float = 10.0,
    now: datetime | None = None,
) -> tuple[Any, Mapping[str, str]]:
    """What the service answers, as JSON, and the answer's headers (names in lower case).

    Raises TransientError (nobody answers, or it is too busy), RequestError 404 (there is no such thing), ConfigError
    (not allowed, or no credentials).
    """
    url = urlsplit(endpoint(service))
    target = quote(path, safe="/-_.~") + (f"?{_query(query)}" if query else "")
    headers = signed(service, method, url.netloc, path, query or {}, body, now or datetime.now(UTC))
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=seconds)
    try:
        connection.request(method, target, body or None, headers)
        answer = connection.getresponse()
        data, status = answer.read(_MOST_ANSWER + 1), answer.status
        told = {name.lower(): value for name, value in answer.getheaders()}
    except (OSError, http.client.HTTPException) as error:
        raise TransientError(f"{service} does not answer: {type(error).__name__}") from error
    finally:
        connection.close()
    if status == 404:
        raise RequestError(404, "not_there", f"{service} knows nothing of that name")
    if status == 429 or status >= 500:
        raise TransientError(f"{service} is busy (HTTP {status}); try again")
    if status >= 400:
        raise ConfigError(f"{service} refuses the console (HTTP {status}): {told.get('x-amzn-errortype', '')}")
    if len(data) > _MOST_ANSWER:
        raise TransientError(f"{service} answered more than {_MOST_ANSWER:,} bytes")
    return (msgspec.json.decode(data) if data.strip() else None), told


def endpoint(service: str) -> str:
    """Where the service is: as the environment names it, else the region's own."""
    named = os.environ.get(f"AWS_ENDPOINT_URL_{_NAMES[service]}") or os.environ.get("AWS_ENDPOINT_URL")
    region = region_of(os.environ)
    return named or f"https://{service}.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


def signed(
    service: str, method: str, host: str, path: str, query: Mapping[str, str], body: bytes, now: datetime
) -> dict[str, str]:
    """The headers of a request that is signed with the environment's credentials. Raises ConfigError without any."""
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID", ""), os.environ.get("AWS_SECRET_ACCESS_KEY", "")
    if not key or not secret:
        raise ConfigError("no AWS credentials in the environment")
    region, at = region_of(os.environ), now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": host, "x-amz-date": at}
    if token := os.environ.get("AWS_SESSION_TOKEN"):
        headers["x-amz-security-token"] = token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    # Every service but S3 has what is encoded in the path encoded once more.
    encoded = quote(quote(path, safe="/-_.~"), safe="/-_.~")
    canonical = "\n".join((method, encoded, _query(query), lines, names, hashlib.sha256(body).hexdigest()))
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signing = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        signing = hmac.digest(signing, part.encode(), "sha256")
    signature = hmac.new(signing, text.encode(), "sha256").hexdigest()
    return {
        **headers,
        "authorization": f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={signature}",
    }


def _query(query: Mapping[str, str]) -> str:
    return urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")
