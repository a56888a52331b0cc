"""Whether a request carries AWS's signature (version 4) of a known key: worked out again by botocore, which is what AWS
itself gives its clients."""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPMessage

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

_HEADER = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?SignedHeaders=([^,]+), ?"
    r"Signature=([0-9a-f]{64})"
)
_WINDOW = 900  # seconds


@dataclass(frozen=True)
class Signer:
    """Who may ask, and what for: `service` is the name that the signature is for, such as glue or s3tables."""

    key: str
    secret: str
    region: str
    service: str

    def refusal(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> str | None:
        """Why the request is not let in; None if it is signed as it must be. `url`: with host and query."""
        told = {name.lower(): value for name, value in headers.items()}
        found = _HEADER.fullmatch(told.get("authorization", ""))
        if found is None:
            return "there is no signature"
        key, date, region, service, signed, signature = found.groups()
        if (key, region, service) != (self.key, self.region, self.service):
            return f"it is signed for {service} in {region} with another key, or for another service or region"
        at = told.get("x-amz-date", "")
        try:
            age = datetime.now(UTC) - datetime.strptime(at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        except ValueError:
            return "it has no time"
        names = signed.split(";")
        if abs(age.total_seconds()) > _WINDOW or not at.startswith(date) or not {"host", "x-amz-date"} <= set(names):
            return "its time or its signed headers are wrong"
        digest = hashlib.sha256(body).digest()
        if told.get("x-amz-content-sha256", digest.hex()) not in (digest.hex(), base64.b64encode(digest).decode()):
            return "the hash is of another body"
        request = AWSRequest(method, url, {name: told.get(name, "") for name in names}, body)
        if "x-amz-content-sha256" in told and "x-amz-content-sha256" not in names:
            request.headers["x-amz-content-sha256"] = told["x-amz-content-sha256"]
        request.context["timestamp"] = at
        auth = _Said(names, Credentials(self.key, self.secret), self.service, self.region)
        # botocore takes the header's word for the hash, which Iceberg writes in base64 and signs in hexadecimal digits.
        canonical = f"{auth.canonical_request(request).rpartition(chr(10))[0]}\n{digest.hex()}"
        right = auth.signature(auth.string_to_sign(request, canonical), request)
        return None if hmac.compare_digest(right, signature) else "the signature is wrong"


class _Said(SigV4Auth):
    """botocore's, over the headers that the request says are signed and no others."""

    def __init__(self, names: list[str], credentials: Credentials, service: str, region: str) -> None:
        super().__init__(credentials, service, region)
        self._names = names

    def headers_to_sign(self, request: AWSRequest) -> HTTPMessage:
        found = super().headers_to_sign(request)
        for name in set(found.keys()) - set(self._names):
            del found[name]
        return found
