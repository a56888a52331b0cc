"""A condition over the fields of a JSON row, in the three values of SQL: true, false, and unknown (None).

What a field holds is a text, a number (all its digits) or a boolean; null, what is not there, lists and objects are no
value. Values of two kinds are neither equal nor in order: what compares them is unknown. Pure; config.condition_text
reads it out of SQL.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Final, Literal, Protocol

import msgspec
from msgspec import UNSET, Raw

from firn.changes.json_member import member

Value = str | bool | Decimal | None
Sign = Literal["=", "<>", "<", "<=", ">", ">="]
_COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


class Condition(Protocol):
    """What may be true of a row."""

    def of(self, row: bytes) -> bool | None:
        """Of a row, a JSON object. Raises msgspec.DecodeError, RecursionError if it is none inside."""


@dataclass(frozen=True)
class Field:
    """A field of the row, or of an object in it. `path`: its names, one at least."""

    path: tuple[str, ...]

    def value(self, row: bytes) -> Value:
        """What it holds."""
        raw = self._raw(row)
        first = raw[:1]
        if first == b'"':
            return str(msgspec.json.decode(raw, type=str))
        if first in (b"t", b"f"):
            return first == b"t"
        if first in (b"n", b"{", b"["):
            return None
        try:
            return Decimal(raw.decode())
        except InvalidOperation:  # an exponent of more digits than a Decimal has
            return None

    def is_there(self, row: bytes) -> bool:
        """Whether it holds anything but null, lists and objects too."""
        return self._raw(row)[:1] != b"n"

    def _raw(self, row: bytes) -> bytes:
        raw = row
        for name in self.path:
            if not raw.startswith(b"{"):
                return b"null"
            found: Raw | Any = member(name)(raw)
            raw = b"null" if found is UNSET else bytes(found)
        return raw


@dataclass(frozen=True)
class Constant:
    """A value that the condition says."""

    told: Value

    def value(self, _row: bytes) -> Value:
        """It."""
        return self.told


@dataclass(frozen=True)
class Compared:
    """`left sign right`."""

    left: Field | Constant
    sign: Sign
    right: Field | Constant

    def of(self, row: bytes) -> bool | None:
        """As Condition says."""
        left, right = self.left.value(row), self.right.value(row)
        if left is None or right is None or type(left) is not type(right):
            return None
        return _COMPARED[self.sign](left, right)


@dataclass(frozen=True)
class Like:
    """`left LIKE pattern`: `%` is any text, `_` any character."""

    left: Field | Constant
    pattern: str

    def of(self, row: bytes) -> bool | None:
        """As Condition says."""
        value = self.left.value(row)
        return self._fits(value) if isinstance(value, str) else None

    def _fits(self, text: str) -> bool:
        """Each part between two `%` at the first place where it fits: that leaves the most for the others."""
        first, *others = self._parts
        if not others:
            return first.fullmatch(text) is not None
        begun = first.match(text)
        if begun is None:
            return False
        place = begun.end()
        for part in others[:-1]:
            found = part.search(text, place)
            if found is None:
                return False
            place = found.end()
        end = len(text) - len(self.pattern.rpartition("%")[2])
        return end >= place and others[-1].fullmatch(text, end) is not None

    @cached_property
    def _parts(self) -> list[re.Pattern[str]]:
        each = ("".join("." if one == "_" else re.escape(one) for one in part) for part in self.pattern.split("%"))
        return [re.compile(part, re.DOTALL) for part in each]


@dataclass(frozen=True)
class IsNull:
    """`field IS NULL`."""

    field: Field

    def of(self, row: bytes) -> bool:
        """As Condition says."""
        return not self.field.is_there(row)


@dataclass(frozen=True)
class Holds:
    """A field alone: whether it is true."""

    field: Field

    def of(self, row: bytes) -> bool | None:
        """As Condition says."""
        value = self.field.value(row)
        return value if isinstance(value, bool) else None


@dataclass(frozen=True)
class Is:
    """`field IS TRUE`, `field IS FALSE`: never unknown."""

    field: Field
    told: bool

    def of(self, row: bytes) -> bool:
        """As Condition says."""
        return self.field.value(row) is self.told


@dataclass(frozen=True)
class Not:
    """`NOT condition`."""

    inner: Condition

    def of(self, row: bytes) -> bool | None:
        """As Condition says."""
        found = self.inner.of(row)
        return None if found is None else not found


@dataclass(frozen=True)
class Joined:
    """Conditions with AND or OR between them. `all`: AND."""

    parts: Sequence[Condition]
    all: bool

    def of(self, row: bytes) -> bool | None:
        """As Condition says."""
        found = [part.of(row) for part in self.parts]
        if (not self.all) in found:
            return not self.all
        return None if None in found else self.all


def compared(test: Condition) -> Iterator[Compared]:
    """The comparisons in it."""
    match test:
        case Joined(parts=parts):
            for part in parts:
                yield from compared(part)
        case Not(inner=inner):
            yield from compared(inner)
        case Compared():
            yield test


@dataclass(frozen=True)
class RowCondition:
    """A whole condition. `fields`: the names of the row's fields that it looks at."""

    test: Condition
    fields: frozenset[str]

    @cached_property
    def numbers(self) -> frozenset[Decimal]:
        """Those that fields are compared with."""
        sides = (side for one in compared(self.test) for side in (one.left, one.right))
        return frozenset(side.told for side in sides if isinstance(side, Constant) and isinstance(side.told, Decimal))

    @cached_property
    def has_long_numbers(self) -> bool:
        """Whether one of them is none that a double is: written as 9007199254740993.0 a decoder may round it."""
        return any(Decimal(repr(float(number))) != number for number in self.numbers)

    def holds(self, row: bytes) -> bool:
        """Whether it is true of a row. Raises as Condition.of."""
        return self.test.of(row) is True
