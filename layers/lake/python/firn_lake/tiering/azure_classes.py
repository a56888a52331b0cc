"""Azure's access tiers: Set Blob Tier moves a block blob at once, and the blob stays what it was.

obstore sets no tier but by writing a blob, and its signed addresses are wrong for names that need escaping: these
requests are signed here ("Authorize with Shared Key", "Set Blob Tier", "List Blobs" in Azure's documents).
"""

import base64
import hashlib
import hmac
import logging
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from xml.etree.ElementTree import Element, fromstring

from firn.config.storage_classes import AZURE, ClassTable
from firn.log.cloud_stores import azure_endpoint, azure_options, with_cloud_secrets
from firn_lake.tiering.class_port import Listed, Place, Returned
from firn_lake.tiering.cloud_calls import Answer, call, refused
from firn_lake.tiering.cloud_tokens import Tokens, azure_token

_log: Final = logging.getLogger(__name__)

_VERSION: Final = "2021-12-02"  # the first that knows Cold
_PLACE: Final = re.compile(r"abfss?://([^/@]+)@([^/@.]+)\.[^/]*/(.*)", re.DOTALL)
_GONE: Final = frozenset({"BlobNotFound", "ResourceNotFound", ""})
_ON_ITS_WAY: Final = frozenset({"BlobBeingRehydrated"})


class AzureClasses:
    """The access tiers of blobs, by the identity of the environment (docs/clouds.md)."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Raises ConfigError, TransientError if the key's place can't be asked."""
        self._env = with_cloud_secrets(os.environ if environment is None else environment)
        self._tokens = Tokens(lambda: azure_token(self._env))

    @property
    def table(self) -> ClassTable:
        """What classes there are."""
        return AZURE

    def place(self, url: str) -> Place | None:
        """Bucket (`container@account`) and key."""
        found = _PLACE.fullmatch(url)
        return None if found is None else Place(f"{found[1]}@{found[2]}", found[3])

    def listing(self, prefix: Place) -> dict[str, Listed]:
        """All blobs below the prefix; one request for 5,000."""
        return dict(self._listed(prefix))

    def _listed(self, prefix: Place) -> Iterator[tuple[str, Listed]]:
        marker = ""
        while True:
            asked = {"restype": "container", "comp": "list", "prefix": prefix.key, "marker": marker}
            answer = self._call("GET", Place(prefix.bucket, ""), asked, what="list files")
            if answer.status != 200:
                raise refused(answer, self._base(prefix), "list files")
            page = fromstring(answer.body)  # noqa: S314 - the storage's own answer, and expat bounds what entities become
            for blob in page.iterfind("Blobs/Blob"):
                told = {one.tag: one.text or "" for one in blob.iterfind("Properties/*")}
                yield _name(blob), _described(
                    told.get("Content-Length"), told["Last-Modified"], told.get("AccessTier"),
                    told.get("AccessTierChangeTime"),
                )  # fmt: skip
            marker = page.findtext("NextMarker") or ""
            if not marker:
                return

    def look(self, where: Place) -> Listed | None:
        """One blob; None if it is not there."""
        answer = self._call("HEAD", where, {}, what="look at a file")
        if answer.status == 200:
            told = answer.headers
            return _described(
                told.get("Content-Length"), told["Last-Modified"], told.get("x-ms-access-tier"),
                told.get("x-ms-access-tier-change-time"),
            )  # fmt: skip
        if answer.status == 404 and answer.headers.get("x-ms-error-code", "") in _GONE:
            return None
        raise refused(answer, self._base(where), "look at a file")

    def move(self, where: Place, kind: str | None) -> bool:
        """Set the blob's tier. False: it is gone, or leased, or on its way out of the archive."""
        if kind is None:
            return True
        answer = self._call("PUT", where, {"comp": "tier"}, {"x-ms-access-tier": kind}, what="set a file's tier")
        code = answer.headers.get("x-ms-error-code", "")
        if answer.status in (200, 202):
            return True
        if (answer.status == 404 and code in _GONE) or answer.status in (409, 412):
            _log.warning("%s can't be moved to %s: %s", where.key, kind, code or answer.status)
            return code in _ON_ITS_WAY and kind == AZURE.hot
        raise refused(answer, self._base(where), "set a file's tier")

    def warm(self, where: Place) -> Returned | None:
        """Set the blob's tier to Hot; what is archived is there hours later (rehydration of standard priority)."""
        found = self.look(where)
        if found is None or found.kind == AZURE.hot or not self.move(where, AZURE.hot):
            return None
        return Returned(found.size, AZURE.is_archive(found.kind))

    def _base(self, where: Place) -> str:
        account = where.bucket.partition("@")[2]
        return azure_endpoint(self._env) or f"https://{account}.blob.core.windows.net"

    def _call(
        self,
        method: str,
        where: Place,
        asked: Mapping[str, str],
        more: Mapping[str, str] | None = None,
        *,
        what: str,
    ) -> Answer:
        container, _, account = where.bucket.partition("@")
        options = azure_options(f"abfss://{where.bucket}.dfs.core.windows.net", self._env)
        url = f"{self._base(where)}/{quote(f'{container}/{where.key}'.rstrip('/'))}"
        headers = {"x-ms-version": _VERSION, "x-ms-date": format_datetime(datetime.now(UTC), usegmt=True)}
        headers |= more or {}
        query = {name: value for name, value in asked.items() if value}
        if "account_key" in options:
            signed = to_sign(method, headers, account, urlsplit(url).path, query)
            digest = hmac.new(base64.b64decode(options["account_key"]), signed.encode(), hashlib.sha256).digest()
            headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
        elif "sas_key" in options:
            query |= dict(parse_qsl(options["sas_key"]))
        else:
            headers["Authorization"] = self._tokens.header()
        return call(method, f"{url}?{urlencode(query)}" if query else url, headers, what=what)


def to_sign(method: str, headers: Mapping[str, str], account: str, path: str, query: Mapping[str, str]) -> str:
    """What Azure wants signed of a request without a body. `path`: as it is sent."""
    empty = "\n" * 12  # Content-Length, Range and the like, which these requests don't have
    own = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers) if name.startswith("x-ms-"))
    asked = "".join(f"\n{name}:{query[name]}" for name in sorted(query))
    return f"{method}{empty}{own}/{account}{path}{asked}"


def _name(blob: Element) -> str:
    from urllib.parse import unquote

    name = blob.find("Name")
    text = (name.text or "") if name is not None else ""
    # What XML has no characters for.
    return unquote(text) if name is not None and name.get("Encoded") == "true" else text


def _described(size: str | None, modified: str, tier: str | None, moved: str | None) -> Listed:
    """Setting a tier changes no other time: what is Hot again counts as written when it came back. Where an account has
    no tiers (premium) all is Hot."""
    kind, when = tier or AZURE.hot, parsedate_to_datetime(modified)
    if kind == AZURE.hot and moved:
        when = max(when, parsedate_to_datetime(moved))
    return Listed(int(size or 0), when, kind)
