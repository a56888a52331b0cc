"""What a reader of `query.readers` may read: which tables, and of them which columns and rows. Pure.

The one place that says so. What opens tables for a request asks `Scope.grant` of each identifier, and a question to
whatever answers has a scope or is for `Everything`: none is understood without.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from firn.config.callers import caller_keys, caller_pattern, exact_caller
from firn.config.names import is_reserved

if TYPE_CHECKING:
    from firn.config.model import Auth

ALL_TABLES: Final = "*.*"
MOST_STARS: Final = 4
"""In a name of `tables`: each more makes it longer to say that a table does not fit."""
_PATTERN: Final = re.compile(r"[^.]+\..+", re.DOTALL)


class Everything(msgspec.Struct, frozen=True, tag="everything"):
    """All tables, with all columns and rows."""


@dataclass(frozen=True)
class TableGrant:
    """What may be read of one table. `columns`: those alone; None: all. `rows`: conditions that hold of each row."""

    columns: frozenset[str] | None = None
    rows: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all of the table may be read."""
        return self.columns is None and not self.rows


class Scope(msgspec.Struct, frozen=True, tag="scope"):
    """What a reader may read. `tables`: names (`namespace.table`) in which `*` stands for any characters, in a
    namespace but a dot; `columns`, `rows`: narrow the tables of such a name, and all that fit a table apply."""

    reader: str
    tables: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]] = {}
    rows: Mapping[str, str] = {}

    def grant(self, identifier: Sequence[str], shards: Sequence[Sequence[str]] = ()) -> TableGrant | None:
        """What may be read of the table of that identifier; None: it is not there for this reader. `shards`: the tables
        that it is read from, if it is several: what narrows one of them narrows all."""
        if len(identifier) != 2 or "." in identifier[0] or is_reserved(identifier[1]):
            return None  # Firn makes no table in a nested namespace, and those that it makes for itself are nobody's
        if not any(_fits(pattern, identifier) for pattern in self.tables):
            return None
        own = (identifier, *shards)
        lists = [frozenset(names) for pattern, names in self.columns.items() if _fits_any(pattern, own)]
        rows = tuple(dict.fromkeys(text for pattern, text in self.rows.items() if _fits_any(pattern, own)))
        return TableGrant(frozenset.intersection(*lists) if lists else None, rows)


@dataclass(frozen=True)
class ScopedReader:
    """One of `query.readers`: who it is, what it may read, and how many `seconds` of queries a day; None: any."""

    auth: "Auth"
    scope: Scope
    seconds: int | None = None


class ScopedReaders:
    """All of `query.readers`, found without looking at each."""

    def __init__(self, readers: Mapping[str, ScopedReader]) -> None:
        self._readers = readers

    def __len__(self) -> int:
        return len(self._readers)

    def named(self, name: str) -> ScopedReader | None:
        """The reader of this name."""
        return self._readers.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, in the file's order."""
        return tuple(self._readers)

    def of_key(self, key: str) -> ScopedReader | None:
        """The reader whose key this may be: a reader's key begins with its name and a point."""
        name, point, _ = key.partition(".")
        found = self._readers.get(name) if point else None
        return found if found is not None and found.auth.by == "api_key" else None

    def of_caller(self, caller: str) -> tuple[ScopedReader, ...]:
        """The readers that a caller of AWS fits; more than one is nobody's intent."""
        exact, patterns = self._callers
        names = {name for key in caller_keys(caller) for name in exact.get(key, ())}
        names |= {name for pattern, name in patterns if name not in names and pattern.fullmatch(caller)}
        return tuple(self._readers[name] for name in sorted(names))

    @cached_property
    def _callers(self) -> tuple[Mapping[str, list[str]], list[tuple[re.Pattern[str], str]]]:
        exact: dict[str, list[str]] = {}
        patterns = []
        for name, reader in self._readers.items():
            for text in reader.auth.callers if reader.auth.by == "iam" else ():
                if (key := exact_caller(text)) is not None:
                    exact.setdefault(key, []).append(name)
                else:
                    patterns.append((caller_pattern(text), name))
        return exact, patterns


def read_table_pattern(text: str) -> str:
    """A name of `tables`. Raises ValueError that says what to write."""
    if _PATTERN.fullmatch(text) is None:
        raise ValueError(
            f"{text[:60]!r} is no table; write such as shop.orders, shop.* for a namespace, or {ALL_TABLES!r} for all"
        )
    if len(re.findall(r"\*+", text)) > MOST_STARS:
        raise ValueError(f"{text[:60]!r} has more than {MOST_STARS} *; write several names instead")
    return text


def _fits(pattern: str, identifier: Sequence[str]) -> bool:
    if "*" not in pattern:
        return pattern == f"{identifier[0]}.{identifier[1]}"
    return _compiled(pattern).fullmatch(f"{identifier[0]}.{identifier[1]}") is not None


def _fits_any(pattern: str, identifiers: Sequence[Sequence[str]]) -> bool:
    return any(_fits(pattern, one) for one in identifiers)


@lru_cache(maxsize=1_000)
def _compiled(pattern: str) -> re.Pattern[str]:
    namespace, _, table = pattern.partition(".")
    parts = ("[^.]*".join(_escaped(namespace)), ".*".join(_escaped(table)))
    return re.compile(r"\.".join(parts), re.DOTALL)


def _escaped(part: str) -> list[str]:
    return [re.escape(one) for one in re.split(r"\*+", part)]
