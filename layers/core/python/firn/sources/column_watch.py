"""What a database's owner did to columns that no change tells: pgoutput names columns, and a name may change hands.

PostgreSQL numbers the columns of a table and never uses a number twice (pg_attribute.attnum). What the numbers say is
kept in `pulls/{stream}/{source}/columns.json`, and what follows from a change of it for rows that were written before
is a note in `firn status`. Advice, not truth: nothing is decoded by it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from firn.log import layout
from firn.log.store import Store, get, put

SHOWN: Final = timedelta(days=14)
_MOST: Final = 50  # notes that are kept


@dataclass(frozen=True)
class NumberedColumn:
    """A column as pg_attribute has it now. `filled`: rows from before it have its default, which no change says."""

    number: int
    name: str
    filled: bool = False


class ColumnNote(msgspec.Struct, frozen=True):
    """What to do about a table. `at`: RFC 3339, UTC, milliseconds."""

    table: str
    at: str
    text: str


class Watched(msgspec.Struct):
    """The columns of each table by their number (as text), and notes, the newest last."""

    columns: dict[str, dict[str, str]] = {}
    notes: list[ColumnNote] = []


def compared(before: Mapping[int, str], now: Sequence[NumberedColumn]) -> Iterator[str]:
    """What rows from before have otherwise than the database. `before`: names by number."""
    there = {one.number for one in now}
    for one in now:
        old = before.get(one.number)
        if old is not None and old != one.name:
            yield (
                f"column {old} is called {one.name} now: write renames: {{{one.name}: {old}}} into its rule, or older "
                f"rows keep their values under {old}"
            )
        if old is None and any(name == one.name and number not in there for number, name in before.items()):
            yield (
                f"column {one.name} was dropped and made again: rows that no change has touched since keep the values "
                "of the old one; read the table again with `firn backfill`"
            )
        elif old is None and one.filled:
            yield (
                f"column {one.name} came with a default: rows that no change has touched since have null there, or the "
                "default that firn.yaml declares; read the table again with `firn backfill`"
            )


class ColumnWatch:
    """Compares what tables look like with what they looked like before. `save` writes what is new."""

    def __init__(self, store: Store, stream: str, source: str, now: str) -> None:
        self._store, self._path, self._now = store, layout.pull_columns_path(stream, source), now
        self._known: Watched | None = None
        self._changed = False

    def look(self, table: str, names: Iterable[str], now: Sequence[NumberedColumn]) -> None:
        """Take notice of a table. `names`: of its columns as the change had them; if the database calls them otherwise
        by now, what a number was then can't be told, and nothing is."""
        if not set(names) <= {one.name for one in now}:
            return
        if self._known is None:
            self._known = read_watched(self._store, self._path)
        told = {str(one.number): one.name for one in now}
        before = self._known.columns.get(table)
        if before == told:
            return
        if before is not None:
            numbered = {int(number): name for number, name in before.items()}
            self._known.notes += [ColumnNote(table, self._now, text) for text in compared(numbered, now)]
            self._known.notes = self._known.notes[-_MOST:]
        self._known.columns[table] = told
        self._changed = True

    def save(self) -> None:
        """Raises StorageUnavailable, UnknownOutcome."""
        if self._changed and self._known is not None:
            put(self._store, self._path, msgspec.json.encode(self._known))
            self._changed = False


def read_watched(store: Store, path: str) -> Watched:
    """What was known last; nothing if there is none that can be read. Raises StorageUnavailable."""
    data = get(store, path)
    try:
        return Watched() if data is None else msgspec.json.decode(data, type=Watched)
    except msgspec.MsgspecError:
        return Watched()


def notes_of(store: Store, stream: str, source: str, now: datetime) -> list[ColumnNote]:
    """The notes of the last days. Raises StorageUnavailable."""
    found = read_watched(store, layout.pull_columns_path(stream, source)).notes
    return [note for note in found if datetime.fromisoformat(note.at) > now - SHOWN]
