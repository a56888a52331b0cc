"""Tokens of the identity that the environment names, for what obstore has no call for: the same identities, by the same
names (firn/log/cloud_stores.py).

Azure: "Microsoft identity platform and the OAuth 2.0 client credentials flow", "How to use managed identities on a
virtual machine"; Google: "Using OAuth 2.0 for server to server applications", "Service account credentials" of the
metadata server.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import urlencode

from firn.errors import ConfigError, TerminalError
from firn.log.cloud_stores import GOOGLE_KEY_FILE, google_credentials, google_options
from firn_lake.tiering.cloud_calls import Answer, call

_MARGIN: Final = 120.0  # seconds before its end at which a token is replaced
_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}
_BEARER: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_AZURE: Final = "https://storage.azure.com/"
_GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_GOOGLE_TOKENS: Final = "https://oauth2.googleapis.com/token"
# Where gcloud leaves a person's own, which obstore reads too.
_GCLOUD: Final = Path(".config/gcloud/application_default_credentials.json")
# "RSASSA-PKCS1-v1_5", RFC 8017, 9.2: how a SHA-256 is told from other hashes.
_OCTETS: Final = 4  # DER's tag of an octet string
_SHA256: Final = bytes.fromhex("3031300d060960864801650304020105000420")


class Tokens:
    """One identity's, fetched once and again before it ends. Safe in threads."""

    def __init__(self, fetch: Callable[[], tuple[str, float]], clock: Callable[[], float] = time.monotonic) -> None:
        """`fetch` gives a token and how many seconds it is good for."""
        self._fetch, self._clock = fetch, clock
        self._token, self._until, self._lock = "", 0.0, Lock()

    def header(self) -> str:
        """The text of Authorization. Raises TransientError, TerminalError, ConfigError."""
        with self._lock:
            if not self._token or self._clock() >= self._until:
                self._token, seconds = self._fetch()
                self._until = self._clock() + max(0.0, seconds - _MARGIN)
            return f"Bearer {self._token}"


def azure_token(env: Mapping[str, str]) -> tuple[str, float]:
    """A token for Azure's storage, and its seconds: a service's by its secret or its file, else the machine's own."""
    client, tenant = env.get("AZURE_CLIENT_ID", ""), env.get("AZURE_TENANT_ID", "")
    secret, file = env.get("AZURE_CLIENT_SECRET", ""), env.get("AZURE_FEDERATED_TOKEN_FILE", "")
    if secret or file:
        proof = {"client_secret": secret} if secret else {
            "client_assertion_type": _BEARER, "client_assertion": _read(file, "AZURE_FEDERATED_TOKEN_FILE").strip(),
        }  # fmt: skip
        form = {"grant_type": "client_credentials", "client_id": client, "scope": f"{_AZURE}.default", **proof}
        host = (env.get("AZURE_AUTHORITY_HOST") or "https://login.microsoftonline.com").rstrip("/")
        return _told(_post(f"{host}/{tenant}/oauth2/v2.0/token", form))
    asked = {"resource": _AZURE} | ({"client_id": client} if client else {})
    if endpoint := env.get("IDENTITY_ENDPOINT"):
        query = urlencode({"api-version": "2019-08-01", **asked})
        return _told(_get(f"{endpoint}?{query}", {"X-IDENTITY-HEADER": env.get("IDENTITY_HEADER", "")}))
    query = urlencode({"api-version": "2018-02-01", **asked})
    return _told(_get(f"http://169.254.169.254/metadata/identity/oauth2/token?{query}", {"Metadata": "true"}))


def google_token(env: Mapping[str, str]) -> tuple[str, float]:
    """A token for Google's storage, and its seconds: that of a key file, else the machine's own."""
    if federated := google_options(env).get("credential_provider"):  # a file that is none says so
        found = federated()
        return str(found["token"]), (found["expires_at"] - datetime.now(UTC)).total_seconds()
    own = Path(env.get("HOME", "/")) / _GCLOUD
    named = google_credentials(env) or (("", _read(str(own), GOOGLE_KEY_FILE)) if own.exists() else None)
    if named is not None:
        key = json.loads(named[1])
        if key.get("type") == "service_account":
            return _told(_post(key.get("token_uri") or _GOOGLE_TOKENS, _assertion(key, time.time())))
        form = {name: key[name] for name in ("client_id", "client_secret", "refresh_token")}
        return _told(_post(_GOOGLE_TOKENS, {"grant_type": "refresh_token", **form}))
    host = env.get("GCE_METADATA_HOST") or "metadata.google.internal"
    path = "computeMetadata/v1/instance/service-accounts/default/token"
    return _told(_get(f"http://{host}/{path}", {"Metadata-Flavor": "Google"}))


def _read(file: str, name: str) -> str:
    try:
        return Path(file).read_text()
    except OSError as error:
        raise ConfigError(f"{name} names {file}, which can't be read ({error.strerror})") from error


def _post(url: str, form: Mapping[str, str]) -> Answer:
    return call("POST", url, _FORM, urlencode(form).encode(), what="give a token")


def _get(url: str, headers: Mapping[str, str]) -> Answer:
    return call("GET", url, headers, what="give a token of this machine's identity", secure=False)


def _told(answer: Answer) -> tuple[str, float]:
    """The token of an answer. What is refused is said without quoting more of it than OAuth's own words."""
    try:
        found: Any = json.loads(answer.body)
        if answer.status == 200:
            return str(found["access_token"]), float(found.get("expires_in") or 0)
        why = str(found.get("error", "")) if isinstance(found, dict) else ""
    except (ValueError, KeyError, TypeError):
        why = ""
    raise TerminalError(
        f"no token for the storage: {answer.status} {why}".rstrip() + "; set credentials, or give this machine an "
        "identity that may read and write there (docs/clouds.md)"
    )


def _assertion(key: Mapping[str, Any], now: float) -> dict[str, str]:
    """What a service account says of itself, signed by its key."""
    about = {
        "iss": key["client_email"], "scope": _GOOGLE_SCOPE, "aud": key.get("token_uri") or _GOOGLE_TOKENS,
        "iat": int(now), "exp": int(now) + 3600,
    }  # fmt: skip
    head = {"alg": "RS256", "typ": "JWT", "kid": key.get("private_key_id", "")}
    text = ".".join(_plain(json.dumps(part).encode()) for part in (head, about))
    return {"grant_type": _GRANT, "assertion": f"{text}.{_plain(sign_rs256(str(key['private_key']), text.encode()))}"}


def _plain(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def sign_rs256(pem: str, data: bytes) -> bytes:
    """RSA's signature of a SHA-256 (RFC 8017, 8.2), by a key as Google's files have it (PKCS #8): a library for it
    would be larger than all of this layer's own code. Raises ConfigError for what is no such key."""
    try:
        body = "".join(line for line in pem.splitlines() if not line.startswith("-----"))
        wrapped = _parts(_parts(base64.b64decode(body))[0][1])
        inner = dict(wrapped)[_OCTETS]  # the key, beside its version and kind
        modulus, _, private = (int.from_bytes(value) for _, value in _parts(_parts(inner)[0][1])[1:4])
    except (ValueError, IndexError, KeyError) as error:
        raise ConfigError(f"{GOOGLE_KEY_FILE} names a file whose private_key is none: copy the whole of it") from error
    size = (modulus.bit_length() + 7) // 8
    digest = _SHA256 + hashlib.sha256(data).digest()
    padded = b"\0\1" + b"\xff" * (size - len(digest) - 3) + b"\0" + digest
    return pow(int.from_bytes(padded), private, modulus).to_bytes(size)


def _parts(data: bytes) -> list[tuple[int, bytes]]:
    """The values of DER that follow each other: tag and content."""
    found, at = [], 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:
            count = length & 0x7F
            length, at = int.from_bytes(data[at : at + count]), at + count
        content = data[at : at + length]
        if len(content) != length:
            raise ValueError("cut off")
        found.append((tag, content))
        at += length
    return found
