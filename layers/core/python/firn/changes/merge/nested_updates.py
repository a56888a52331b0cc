"""Values of which updates change parts: a JSON document or array (text) as what it was, and the steps since.

MongoDB's updates reach into fields: `addr.zip` is set, `tags` is cut to two members. Two such updates can't be put
together from their results, and one that comes late can't be put below a result. So a row keeps, of each value that
steps were applied to, the value before them (the base) with its order, and the steps with theirs: whatever comes, in
any order, the value is the newest base with all newer steps, and rows alone are enough to tell it (fold.Row.held, under
PARTS).

Steps are a JSON array of `["set", path, value]`, `["unset", path]` and `["cut", path, size]`, which apply in this
order; a path is its names and places. They are total: what leads nowhere does nothing, so that any set of changes has a
value. Pure.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

MOST: Final = 256  # steps of one value that are kept apart,
LARGEST: Final = 1 << 20  # and characters of them
_FAR: Final = 1_000  # places beyond an array's end that a step may reach: MongoDB fills them with nulls
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
_read: Final = msgspec.json.Decoder(dict[str, tuple[str, str | None, list[tuple[str, str]]]]).decode

Path = Sequence[str]


@dataclass(frozen=True)
class Composed:
    """A value: its base, and the steps since, by rising order, each order once."""

    base_order: bytes
    base: str | None
    steps: tuple[tuple[bytes, str], ...] = ()

    def then(self, order: bytes, steps: str) -> "Composed":
        """With these steps too, which come after all that it has; or are the last of them, told again."""
        if self.steps and self.steps[-1][0] == order:
            return self
        return Composed(self.base_order, self.base, (*self.steps, (order, steps)))

    @cached_property
    def value(self) -> str | None:
        """What it is now, as JSON text."""
        return applied(self.base, [steps for _, steps in self.steps])

    def shortened(self) -> "Composed":
        """With at most MOST steps kept apart, and LARGEST of them: the oldest of more become part of the base."""
        size, first = 0, len(self.steps)
        while first and len(self.steps) - first < MOST and size + len(self.steps[first - 1][1]) <= LARGEST:
            first -= 1
            size += len(self.steps[first][1])
        if not first:
            return self
        old = self.steps[:first]
        return Composed(old[-1][0], applied(self.base, [steps for _, steps in old]), self.steps[first:])


def read(stored: bytes) -> dict[str, Composed]:
    """The composed values of a row, by column, as `written` made them."""
    return {
        column: Composed(b64decode(order), base, tuple((b64decode(at), steps) for at, steps in told))
        for column, (order, base, told) in _read(stored).items()
    }


def written(values: Mapping[str, Composed]) -> bytes:
    """The inverse: equal values give equal bytes."""
    return _encode({
        column: (_text(one.base_order), one.base, [(_text(at), steps) for at, steps in one.steps])
        for column, one in sorted(values.items())
    })  # fmt: skip


def _text(order: bytes) -> str:
    return b64encode(order).decode()


def applied(base: str | None, steps: Sequence[str]) -> str | None:
    """The JSON text after these steps, one after the other. Text that is no JSON, or nested beyond what JSON readers
    take, holds nothing for them to change."""
    try:
        value = None if base is None else _decode(base.encode())
        for told in steps:
            for kind, path, *more in _decode(told.encode()):
                value = _after(value, path, kind, more[0] if more else None)
        return None if value is None else _encode(value).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return base


def _after(value: Any, path: Path, kind: str, what: Any) -> Any:
    """The value after one step at a path within it."""
    if not path:
        if kind == "cut":
            return value[:what] if isinstance(value, list) else value
        return what
    name, inner = path[0], path[1:]
    if value is None and kind == "set":
        value = {}
    if isinstance(value, dict):
        if not inner and kind == "unset":
            return {one: part for one, part in value.items() if one != name}
        if name in value or kind == "set":
            return value | {name: _after(value.get(name), inner, kind, what)}
        return value
    if isinstance(value, list) and name.isdecimal() and len(name) < 8:
        return _in_array(value, int(name), inner, kind, what)
    return value


def _in_array(value: list[Any], place: int, inner: Path, kind: str, what: Any) -> list[Any]:
    if place >= len(value) and (kind != "set" or place > len(value) + _FAR):
        return value
    found = [*value, *[None] * (place + 1 - len(value))]
    # MongoDB's $unset of a member leaves null in its place.
    found[place] = None if kind == "unset" and not inner else _after(found[place], inner, kind, what)
    return found
