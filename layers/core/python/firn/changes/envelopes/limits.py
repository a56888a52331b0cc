"""What one request may hold beside its bytes. A few bytes of JSON can be an event, a table or a column, and each of
them costs far more than its bytes: they are counted before anything is made of them (docs/adr/0038-limits.md). Pure.
"""

import re
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from firn.errors import RequestError

# Images and schemas of fewer bytes have no more columns than 5,000, and nobody looks into them.
LARGE: Final = 30_000
# Brackets, commas and strings that are looked at, one by one, where a decoder is of no help: each takes a Python step.
MOST_TOKENS: Final = 2_500_000
# Members of an image, nested ones included, up to which a decoder counts its own: each takes some 100 bytes meanwhile.
_MOST_MEMBERS: Final = 200_000
_REPEATED: Final = 256  # times the largest event: 4 GiB as it is, of which some seconds are made
_MADE: Final = 16  # times the largest event, of the rows that are made of others' bytes: 256 MiB, which are held
TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},"]', re.DOTALL)

_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


@dataclass(frozen=True)
class EventLimits:
    """The most that a request may hold.

    events   events, if all of them have one shape and are decoded together
    alone    events that have to be read one by one: of several shapes, broken, or without what orders them
    tables   source tables
    columns  columns of one row image, or of an inline schema
    size     bytes of one event, and of all those that can't be taken: each is held several times while it is written
    """

    events: int = 200_000
    alone: int = 50_000
    tables: int = 1_000
    columns: int = 5_000
    size: int = 16 * 1024 * 1024

    def check_events(self, count: int, *, alone: bool = False) -> None:
        """Raises RequestError 413 too_many_events."""
        if alone and count > self.alone:
            raise RequestError(
                413,
                "too_many_events",
                f"the body holds more than {self.alone:,} events that have to be read one by one (of several shapes, "
                "broken, or without what orders them): split the request",
            )
        if count > self.events:
            raise RequestError(
                413, "too_many_events", f"the body holds more than {self.events:,} events: split the request"
            )

    def check_tables(self, count: int) -> None:
        """Raises RequestError 413 too_many_tables."""
        if count > self.tables:
            raise RequestError(
                413,
                "too_many_tables",
                f"the body's events are of {count:,} tables, the limit is {self.tables:,}: split the request",
            )

    def check_size(self, *columns: Sequence[Sized | None]) -> None:
        """Raises RequestError 413 event_too_large for a value that is larger."""
        largest = max((max(map(len, filter(None, column)), default=0) for column in columns), default=0)
        if largest > self.size:
            raise RequestError(
                413,
                "event_too_large",
                f"an event holds {largest:,} bytes, the limit is {self.size:,}: leave its largest column out",
            )

    def check_rejected(self, size: int, first: str) -> None:
        """Raises RequestError 413 too_much_rejected. `size`: bytes that would become dead letters; `first`: why."""
        if size > self.size:
            raise RequestError(
                413,
                "too_much_rejected",
                f"{size:,} bytes of the body can't be taken, the limit is {self.size:,}: split the request, or look at "
                f"what is wrong with its events ({first})",
            )

    def check_repeated(self, size: int) -> None:
        """Raises RequestError 413 too_much_repeated. `size`: bytes beside the rows of events that hold several, once
        for each row: so often they are read."""
        if size > _REPEATED * self.size:
            raise RequestError(
                413,
                "too_much_repeated",
                "the body's events hold too many rows beside too large other members, each of which is read with each "
                "row: split the request, or send fewer rows an event",
            )

    def check_made(self, size: int) -> None:
        """Raises RequestError 413 too_much_repeated. `size`: bytes of all row images of events that are read alone."""
        if size > _MADE * self.size:
            raise RequestError(
                413,
                "too_much_repeated",
                f"the rows of the body's events grow to more than {_MADE * self.size:,} bytes as they are read (a "
                "number stands for the labels of a `set`): split the request, or send fewer rows an event",
            )

    def check_columns(self, images: Iterable[Sequence[bytes | None]], schemas: Sequence[bytes | None]) -> None:
        """Raises RequestError 413 too_many_columns for a large image or schema that has more. `images`: columns."""
        left = MOST_TOKENS
        for column in images:
            if max(map(len, filter(None, column)), default=0) <= LARGE:
                continue
            for image in column:
                # A column has a colon at least.
                if image is not None and len(image) > LARGE and image.count(b":") > self.columns:
                    left = self._counted(image, left)
        if any(schemas):
            for schema in set(schemas) - {None}:
                # Before, after and the transaction's: an envelope's schema has each column twice.
                if schema and len(schema) > LARGE and schema.count(b'"field"') > 2 * self.columns + LARGE // 100:
                    raise self._columns("an inline schema")

    def _counted(self, image: bytes, left: int) -> int:
        """How many tokens may still be looked at after this image's."""
        if image.count(b":") <= _MOST_MEMBERS:
            try:
                columns = len(_members(image))
            except (msgspec.DecodeError, RecursionError):
                columns = 0  # odd text or nesting: token by token
            if columns > self.columns:
                raise self._columns("an event")
            if columns:
                return left
        depth, columns = 0, 1
        for token in TOKEN.finditer(image):
            sign = token[0]
            left -= 1
            if sign == b"{" or sign == b"[":
                depth += 1
            elif sign == b"}" or sign == b"]":
                depth -= 1
            elif sign == b"," and depth == 1:
                columns += 1
            if columns > self.columns:
                raise self._columns("an event")
            if left < 0:
                raise RequestError(
                    413,
                    "too_many_columns",
                    "the body's large events hold too many nested values to count their columns: split the request, or "
                    "send what is nested as text",
                )
        return left

    def _columns(self, what: str) -> RequestError:
        return RequestError(
            413,
            "too_many_columns",
            f"{what} has more than {self.columns:,} columns: send fewer columns",
        )


LIMITS: Final = EventLimits()
"""As they are where nobody sets others."""
NO_LIMITS: Final = EventLimits(*[2**62] * 5)
"""For what somebody reads on purpose."""
