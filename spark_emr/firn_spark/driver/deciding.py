"""What becomes of each key of a small range: the rules of changes.incremental, one key at a time. Pure.

Orders are those of changes (`_ord`), columns go by name.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from firn.changes.fold import Key, Row, RowChange
from firn.changes.incremental import after, refolded, since
from firn.changes.placing import plain


@dataclass(frozen=True)
class Before:
    """What is known before the changes.

    rows     those of all keys that may change; `times`: their changes' times (microseconds)
    facts    deletes and creates of the memory that matter; `truncated`: order of its newest truncate, b"" for none
    linked   keys that are folded again, out of `again`: rows that are or were there, and what else is known of them
    """

    rows: Mapping[Key, Row] = field(default_factory=dict)
    times: Mapping[Key, int | None] = field(default_factory=dict)
    facts: Sequence[RowChange] = ()
    truncated: bytes = b""
    linked: Collection[Key] = ()
    there: Sequence[tuple[Key, Row]] = ()
    late: Sequence[RowChange] = ()


@dataclass
class Decided:
    """writes: rows to write; removes: keys whose row goes (also where another is written); told: how many keys a change
    decided; too_old: keys that would get a row at or below the floor."""

    writes: dict[Key, Row] = field(default_factory=dict)
    removes: list[Key] = field(default_factory=list)
    told: int = 0
    too_old: set[Key] = field(default_factory=set)


def decide(before: Before, changes: Sequence[RowChange], truncate: bytes, floor: bytes) -> Decided:
    """`changes`: the range's good ones, truncates left out; `truncate`: order of its newest, b"" for none; `floor`: as
    in memory.Remembered."""
    newest = max(truncate, before.truncated)
    result = Decided()
    deletes: defaultdict[Key, set[bytes]] = defaultdict(set)
    writes: defaultdict[Key, list[RowChange]] = defaultdict(list)
    told: set[Key] = set()
    touched = dict.fromkeys(change.key for change in changes if change.key not in before.linked)
    for change in (*before.facts, *changes):
        if change.key in touched and change.order > newest:
            told.add(change.key)
            if change.op == "d":
                deletes[change.key].add(change.order)
            elif change.values is not None:
                writes[change.key].append(change)
    for key in touched:
        row = before.rows.get(key)
        gone = max([*deletes[key], *([newest] if newest else [])], default=None)
        new = _after(key, row, writes[key], gone) if key in told or truncate else row
        order = None if new is None else plain(new.order)
        if row is None and order is not None and floor and order <= floor:
            result.too_old.add(key)
            continue
        _note(result, key, row, new, told=key in told)
    if truncate:
        for key, row in before.rows.items():
            if key not in touched and key not in before.linked:
                _note(result, key, row, since(row, newest), told=False)
    if before.linked:
        _refold(result, before, changes, newest)
    return result


def _after(key: Key, row: Row | None, writes: Sequence[RowChange], gone: bytes | None) -> Row | None:
    """incremental.after, which takes ten times as long; most keys have nothing that is unavailable or held."""
    if (row is not None and row.held) or any(write.unavailable for write in writes):
        return after(key, row, writes, gone)
    there = since(row, gone)
    new = [write for write in writes if gone is None or write.order > gone]
    newest = max(new, key=_order, default=None)
    if newest is None or (there is not None and there.order >= newest.order):
        return there
    return Row(dict(newest.values or {}), newest.order)


def _order(change: RowChange) -> tuple[bytes, str]:
    return change.order, change.op


def _refold(result: Decided, before: Before, changes: Sequence[RowChange], newest: bytes) -> None:
    said = [change for change in (*changes, *before.late) if change.key in before.linked]
    said += [change for change in before.facts if change.op == "d" and change.key in before.linked]
    if plain(newest):
        said.append(RowChange("t", (), newest[1:46], newest, None))
    rows = refolded(before.there, said)
    for key in before.linked:
        row, new = before.rows.get(key), rows.get(key)
        if new is not None:
            result.writes[key] = new
        if row is not None:
            result.removes.append(key)
        result.told += row is not None or new is not None


def _note(result: Decided, key: Key, row: Row | None, new: Row | None, *, told: bool) -> None:
    write = new is not None and (row is None or (new.order, new.held) != (row.order, row.held))
    remove = row is not None and (write or new is None)
    if write and new is not None:
        result.writes[key] = new
    if remove:
        result.removes.append(key)
    result.told += told and (write or remove)
