"""Google's storage by a workload identity federation: a credentials file of the type `external_account`, which holds no
secret. obstore does not know the type; Iceberg's FileIO in jobs does, by Google's own library.

The machine's own token, from a file, a server or AWS, is exchanged for one of Google's, and that for a service
account's where the file names one. Sources: RFC 8693; https://google.aip.dev/auth/4117;
https://docs.cloud.google.com/iam/docs/workload-identity-federation-with-other-clouds
"""

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from firn.config.region import region_of
from firn.errors import ConfigError, StorageUnavailable

_SECONDS: Final = 4.0
_MOST: Final = 1 << 20
_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_PLATFORM: Final = "https://www.googleapis.com/auth/cloud-platform"  # what asks for a service account's token needs
_EXCHANGE: Final = {
    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
    "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
}
# This machine, and the metadata servers of clouds.
_PLAIN: Final = frozenset({"localhost", "127.0.0.1", "::1", "169.254.169.254"})
_WRITE: Final = "write the file as `gcloud iam workload-identity-pools create-cred-config` makes it"


class FederatedIdentity:
    """What obstore asks for tokens, whenever the last one is about to end. Its text shows nothing of the file."""

    def __init__(self, file: Mapping[str, Any], where: str, environment: Mapping[str, str] | None = None) -> None:
        """`file`: the credentials file's; `where`: where it is, for people. Raises ConfigError for one that can't be
        used."""
        self._where, self._environment = where, environment
        self._audience, self._token_type = self._text(file, "audience"), self._text(file, "subject_token_type")
        self._token_url = self._url(file, "token_url")
        self._account_url = self._url(file, "service_account_impersonation_url", needed=False)
        lives = file.get("service_account_impersonation") or {}
        self._lives = lives.get("token_lifetime_seconds") if isinstance(lives, dict) else None
        source = file.get("credential_source")
        self._subject = self._source(source if isinstance(source, dict) else {})

    def __call__(self) -> dict[str, Any]:
        """A token and its end, as obstore has them. Raises StorageUnavailable, ConfigError."""
        form = {**_EXCHANGE, "audience": self._audience, "subject_token_type": self._token_type,
                "subject_token": self._subject(), "scope": _PLATFORM if self._account_url else _SCOPE}  # fmt: skip
        asked = datetime.now(UTC)
        found = self._asked(
            self._token_url, urlencode(form).encode(), {"Content-Type": "application/x-www-form-urlencoded"}
        )
        token, seconds = found.get("access_token"), found.get("expires_in")
        ends = asked + timedelta(seconds=seconds if isinstance(seconds, int) else 3600)
        if self._account_url and isinstance(token, str):
            body: dict[str, Any] = {"scope": [_SCOPE]}
            if isinstance(self._lives, int):
                body["lifetime"] = f"{self._lives}s"
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
            found = self._asked(self._account_url, json.dumps(body).encode(), headers)
            token = found.get("accessToken")
            try:
                ends = datetime.fromisoformat(str(found.get("expireTime")))
            except ValueError:
                token = None
        if not isinstance(token, str) or not token:
            raise StorageUnavailable(f"{self._where}: what answers at its address of tokens gave none")
        return {"token": token, "expires_at": ends}

    def _source(self, source: Mapping[str, Any]) -> Callable[[], str]:
        """Where the machine's own token comes from."""
        if str(source.get("environment_id", "")).startswith("aws"):
            return lambda: self._of_aws(source)
        form = source.get("format") if isinstance(source.get("format"), dict) else {}
        field = str(form.get("subject_token_field_name", "")) if form.get("type") == "json" else ""  # type: ignore[union-attr]
        if isinstance(file := source.get("file"), str):
            return lambda: self._token_in(self._read(file), field)
        if "url" in source:
            url, headers = self._url(source, "url"), source.get("headers")
            told = {str(name): str(value) for name, value in headers.items()} if isinstance(headers, dict) else {}
            return lambda: self._token_in(self._sent(url, None, told), field)
        what = "an executable, which Firn runs none of" if "executable" in source else "nothing that Firn knows"
        raise ConfigError(f"{self._where}: its credential_source is {what}; give a file, a url or AWS's")

    def _of_aws(self, source: Mapping[str, Any]) -> str:
        """Proof of who we are at AWS: a signed question to its STS, which Google asks in our place."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.session import Session

        found = Session().get_credentials()
        if found is None:
            raise ConfigError(f"{self._where}, which trusts AWS's identity, and there are no AWS credentials here")
        region = region_of(os.environ if self._environment is None else self._environment)
        pattern = str(source.get("regional_cred_verification_url") or
                      "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15")  # fmt: skip
        request = AWSRequest("POST", pattern.replace("{region}", region))
        request.headers["x-goog-cloud-target-resource"] = self._audience
        request.headers["host"] = urlsplit(str(request.url)).netloc
        SigV4Auth(found.get_frozen_credentials(), "sts", region).add_auth(request)
        headers = [{"key": name, "value": value} for name, value in request.headers.items()]
        return quote(json.dumps({"url": request.url, "method": "POST", "headers": headers}, sort_keys=True), safe="")

    def _read(self, file: str) -> str:
        try:
            with Path(file).open("rb") as opened:
                return opened.read(_MOST).decode()
        except (OSError, UnicodeError) as error:
            raise StorageUnavailable(
                f"{self._where}: the token file {file} can't be read: {type(error).__name__}"
            ) from None

    def _token_in(self, text: str, field: str) -> str:
        found: Any = text.strip()
        if field:
            try:
                found = json.loads(text).get(field)
            except (ValueError, AttributeError):
                found = None
        if not isinstance(found, str) or not found:
            raise StorageUnavailable(
                f"{self._where}: its credential_source has no token" + f" in {field}" * bool(field)
            )
        return found

    def _asked(self, url: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, Any]:
        try:
            found = json.loads(self._sent(url, body, headers))
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {}

    def _sent(self, url: str, body: bytes | None, headers: Mapping[str, str]) -> str:
        """The answer. Raises StorageUnavailable, which repeats nothing that was sent."""
        request = urllib.request.Request(url, body, dict(headers))  # noqa: S310 (checked by _url)
        host = urlsplit(url).hostname
        try:
            with _OPENER.open(request, timeout=_SECONDS) as answer:
                return str(answer.read(_MOST).decode(errors="replace"))
        except urllib.error.HTTPError as error:
            said = _code(error.read(_MOST).decode(errors="replace"))
            raise StorageUnavailable(f"{self._where}: {host} gives no token ({error.code}{said})") from None
        except (OSError, ValueError) as error:
            raise StorageUnavailable(f"{self._where}: {host} does not answer ({type(error).__name__})") from None

    def _text(self, file: Mapping[str, Any], name: str) -> str:
        found = file.get(name)
        if not isinstance(found, str) or not found:
            raise ConfigError(f"{self._where}, a file of type 'external_account' without {name}: {_WRITE}")
        return found

    def _url(self, file: Mapping[str, Any], name: str, *, needed: bool = True) -> str:
        if not needed and not file.get(name):
            return ""
        url = self._text(file, name)
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _PLAIN):
            raise ConfigError(f"{self._where}: its {name} is not https: {_WRITE}")
        return url


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """One would take what proves who we are along."""

    def redirect_request(self, *_given: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


def _code(text: str) -> str:
    """The code of an OAuth2 error, or Google's status, and no more: an answer may repeat what was sent."""
    found = re.search(r'"(?:error|status)"\s*:\s*"([A-Za-z_]{1,60})"', text)
    return f", {found[1]}" if found else ""
