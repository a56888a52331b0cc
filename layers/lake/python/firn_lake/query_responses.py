"""What the query function answers: rows in the response, or a link to them. Imports neither PyArrow nor DuckDB."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from firn.auth.gateway import is_text, response
from firn.errors import RequestError
from firn.log.query_results import Result
from firn_lake.query_protocol import Head

INLINE_BYTES = 4_000_000  # of Lambda's 6 MB, which base64 makes a third longer
ESCAPED_BYTES = 5_500_000  # of text, which Lambda's runtime writes as a JSON text


class Body:
    """An answer as it comes: in memory while it fits into a response, else on its way to a result's link."""

    def __init__(self, open_result: Callable[[str], Result]) -> None:
        self._open, self._content = open_result, bytearray()
        self._head = Head("json", "application/json")
        self._result: Result | None = None

    def begin(self, head: Head) -> None:
        """What it will be."""
        self._head = head

    def take(self, part: bytes) -> None:
        """Its next bytes."""
        if self._result is not None:
            self._result.write(part)
            return
        self._content += part
        if len(self._content) > INLINE_BYTES:
            self._spill()

    def response(self, rows: int) -> dict[str, Any]:
        """The response, now that it is whole."""
        if self._result is None and is_text(self._head.content_type) and _escaped(self._content) > ESCAPED_BYTES:
            self._spill()
        if self._result is None:
            return _response(200, bytes(self._content), self._head.content_type)
        kept = self._result.keep()
        told = {
            "url": kept.url,
            "expires_at": kept.expires_at,
            "bytes": kept.bytes,
            "rows": rows,
            "format": self._head.format,
        }
        return _response(200, msgspec.json.encode(told), "application/json")

    def _spill(self) -> None:
        self._result = self._open(self._head.format)
        self._result.write(bytes(self._content))
        self._content.clear()


def refusal(error: RequestError) -> dict[str, Any]:
    """The response to a question that is not answered. It may quote what was asked."""
    after = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    told = {"error": error.code, "message": str(error)}
    return _response(error.status, msgspec.json.encode(told), "application/json", after)


def _response(status: int, content: bytes, kind: str, headers: Mapping[str, str] = {}) -> dict[str, Any]:
    return response(status, content, kind, {"Cache-Control": "no-store", **headers})


def _escaped(content: bytearray) -> int:
    return len(json.dumps(content.decode()))
