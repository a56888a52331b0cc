"""Google's storage classes: an object is rewritten in place with another class, by the storage itself.

Every class is read at once. A rewritten object is a new one, so that its metadata says when it was written first; and
it is made of the generation that was looked at or not at all ("Objects: rewrite" of Google's JSON API). obstore writes
a class and never tells it.
"""

import json
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from firn.config.storage_classes import GOOGLE, ClassTable
from firn.errors import TerminalError
from firn.log.cloud_stores import google_emulator
from firn_lake.tiering.class_port import Listed, Place, Returned
from firn_lake.tiering.cloud_calls import Answer, call, refused
from firn_lake.tiering.cloud_tokens import Tokens, google_token

WRITTEN: Final = "firn-written"
"""Metadata of an object in a cold class: when it was written, as it would be without the move."""
_FIELDS: Final = "name,size,timeCreated,storageClass,metadata"
# What an object carries besides its bytes and its metadata: a rewrite with a class takes over none of it by itself.
_CARRIED: Final = ("contentType", "contentEncoding", "contentDisposition", "contentLanguage", "cacheControl")
# Older names of the same: "Storage classes" in Google's documents.
_HOT: Final = frozenset({"STANDARD", "REGIONAL", "MULTI_REGIONAL", "DURABLE_REDUCED_AVAILABILITY", ""})
_NO_BUCKET: Final = b"bucket does not exist"


class GoogleClasses:
    """The storage classes of objects, by the identity of the environment (docs/clouds.md)."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._env = os.environ if environment is None else environment
        self._emulator = google_emulator(self._env)
        self._base = f"{self._emulator or 'https://storage.googleapis.com'}/storage/v1/b"
        self._tokens = Tokens(lambda: google_token(self._env))

    @property
    def table(self) -> ClassTable:
        """What classes there are."""
        return GOOGLE

    def place(self, url: str) -> Place | None:
        """Bucket and key."""
        scheme, _, rest = url.partition("://")
        bucket, _, key = rest.partition("/")
        return Place(bucket, key) if scheme == "gs" else None

    def listing(self, prefix: Place) -> dict[str, Listed]:
        """All objects below the prefix; one request for 1,000."""
        found: dict[str, Listed] = {}
        asked = {"prefix": prefix.key, "fields": f"nextPageToken,items({_FIELDS})", "maxResults": "1000"}
        while True:
            answer = self._call("GET", f"{prefix.bucket}/o?{urlencode(asked)}", what="list files")
            if answer.status != 200:
                raise refused(answer, self._base, "list files")
            page = json.loads(answer.body)
            found.update((str(one["name"]), _described(one)) for one in page.get("items") or ())
            if not page.get("nextPageToken"):
                return found
            asked["pageToken"] = page["nextPageToken"]

    def look(self, where: Place) -> Listed | None:
        """One object; None if it is not there."""
        found = self._object(where)
        return None if found is None else _described(found)

    def move(self, where: Place, kind: str | None) -> bool:
        """Rewrite the object with the class. False: it is gone, or another wrote it meanwhile."""
        found = self._object(where) if kind is not None else None
        return kind is None or (found is not None and self._rewritten(where, found, kind))

    def warm(self, where: Place) -> Returned | None:
        """Rewrite the object in STANDARD: it counts as written now."""
        found = self._object(where)
        if found is None or _kind(found) == GOOGLE.hot or not self._rewritten(where, found, GOOGLE.hot):
            return None
        return Returned(int(found["size"]))

    def _rewritten(self, where: Place, found: Mapping[str, Any], kind: str) -> bool:
        if _kind(found) == kind:
            return True  # an earlier try's answer got lost
        metadata = {name: value for name, value in (found.get("metadata") or {}).items() if name != WRITTEN}
        if kind != GOOGLE.hot:
            metadata[WRITTEN] = _described(found).modified.isoformat()
        wanted = {name: found[name] for name in _CARRIED if found.get(name)}
        body = json.dumps(wanted | {"storageClass": kind, "metadata": metadata}).encode()
        there, same = f"{where.bucket}/o/{quote(where.key, safe='')}", str(found.get("generation", ""))
        asked = {"ifGenerationMatch": same, "ifSourceGenerationMatch": same} if same else {}
        while True:  # Google makes a large object in several turns
            path = f"{there}/rewriteTo/b/{there}?{urlencode(asked)}"
            answer = self._call("POST", path, body, what="rewrite a file")
            if answer.status == 412 or _is_gone(answer):
                # Another's write, a removal, or our own request whose answer got lost.
                now = self._object(where)
                return now is not None and _kind(now) == kind
            if answer.status != 200:
                raise refused(answer, self._base, "rewrite a file")
            told = json.loads(answer.body)
            if told.get("done"):
                break
            asked["rewriteToken"] = told["rewriteToken"]
        if _kind(told.get("resource") or {}) != kind:
            raise TerminalError(
                f"the bucket {where.bucket} keeps objects in classes of its own choice (Autoclass?), not in {kind}: "
                "switch that off for it, or take `tier` out of firn.yaml"
            )
        return True

    def _object(self, where: Place) -> dict[str, Any] | None:
        answer = self._call("GET", f"{where.bucket}/o/{quote(where.key, safe='')}", what="look at a file")
        if answer.status == 200:
            found: dict[str, Any] = json.loads(answer.body)
            return found
        if _is_gone(answer):
            return None
        raise refused(answer, self._base, "look at a file")

    def _call(self, method: str, path: str, body: bytes | None = None, *, what: str) -> Answer:
        headers = {} if self._emulator else {"Authorization": self._tokens.header()}
        if body is not None:
            headers["Content-Type"] = "application/json"
        return call(method, f"{self._base}/{path}", headers, body, what=what)


def _is_gone(answer: Answer) -> bool:
    return answer.status == 404 and _NO_BUCKET not in answer.body


def _kind(found: Mapping[str, Any]) -> str:
    kind = str(found.get("storageClass") or "")
    return GOOGLE.hot if kind in _HOT else kind


def _described(found: Mapping[str, Any]) -> Listed:
    kind, when = _kind(found), datetime.fromisoformat(found["timeCreated"])
    noted = (found.get("metadata") or {}).get(WRITTEN) if kind != GOOGLE.hot else None
    if noted is not None:
        try:
            when = min(when, datetime.fromisoformat(noted))
        except (ValueError, TypeError):  # somebody else's, and no time with its zone
            noted = None
    return Listed(int(found.get("size") or 0), when, kind)
