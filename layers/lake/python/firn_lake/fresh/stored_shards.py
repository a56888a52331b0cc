"""The rows of all shards of a table at the cut that its rest names, as fresh reads look them up by key."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from firn.changes.decode.types import Column
from firn.changes.merge.fold import OTHERS, Key, Row, RowChange
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.fresh.key_lookup import KeyColumns, RowsByKey
from firn_lake.fresh.pending import NotFresh
from firn_lake.schemas.arrow_types import arrow_schema
from firn_lake.sharded.whole_version import WholeVersion


class StoredShards:
    """As stored_rows.Stored."""

    def __init__(
        self,
        whole: WholeVersion,
        scanned: Collection[str],
        fits: Callable[[Any], bool],
        key: Sequence[Column],
        unnamed: str | None,
    ) -> None:
        """`whole`: with the columns that it will have; `scanned`: the shards that hold all rows that are asked for, as
        they are stored; `fits`: whether a row that has this value in the map's column is asked for."""
        self.version, self.key, self.unnamed = whole.version, key, unnamed
        self._whole, self._scanned, self._fits = whole, scanned, fits
        self._everywhere: Collection[Key] | None = None

    def expect(self, changes: Sequence[RowChange]) -> None:
        """As Stored says. A key whose changes make no row that is asked for, nor leave one without the value that it is
        placed by, has one only where such rows are stored; any other key may have a newer row in any shard."""
        self._everywhere = {change.key for change in changes if self._may_fit(change)}

    def _may_fit(self, change: RowChange) -> bool:
        column, values = self._whole.cut.map.column, change.values
        if column in change.stepped:
            return True
        if values is None:  # what a row has from before a late delete it loses
            return self._fits(None)
        left_out = column in change.unavailable or (OTHERS in change.unavailable and column not in values)
        return left_out or self._fits(values.get(column))

    def rows(
        self, columns: Sequence[Column], keys: Collection[Key] | None, at: int | None = None
    ) -> Iterator[tuple[Key, Row]]:
        """As Stored says. Raises NotFresh for a key that has two rows at the cut."""
        whole = self._whole if at is None else self._then(at)
        if whole is None:
            return
        found: dict[Key, str] = {}
        types = arrow_schema(whole.version.select([column.name for column in self.key], metadata=True))
        known: dict[int, KeyColumns] = {}  # most shards are asked for the same keys
        by_shard = self._wanted(whole, keys, now=at is None)
        for shard, wanted in by_shard.items():
            if wanted is not None and not wanted:
                continue
            if wanted is not None and id(wanted) not in known:
                known[id(wanted)] = KeyColumns(self.key, wanted, types)
            with suppress(*(() if at is None else (NoSuchMoment,))):  # what has expired since is not there any more
                for one, row in self._of_shard(whole, shard, columns, None if wanted is None else known[id(wanted)]):
                    if at is None and found.setdefault(one, shard) != shard:
                        raise NotFresh(
                            f"the row {one!r:.100} of {self.version.name} is in the shards {found[one]} and {shard} at "
                            "one cut, which no commit leaves: take one of them away"
                        )
                    yield one, row

    def _of_shard(
        self, whole: WholeVersion, shard: str, columns: Sequence[Column], keys: KeyColumns | None
    ) -> Iterator[tuple[Key, Row]]:
        version, read = whole.in_its_columns(shard)
        rows = RowsByKey(version, self.key, [column.name for column in columns], rows=True, read=read)
        yield from rows.rows(columns, keys, self.unnamed)

    def _wanted(
        self, whole: WholeVersion, keys: Collection[Key] | None, *, now: bool
    ) -> Mapping[str, Collection[Key] | None]:
        """Which keys are looked for in which shard; None: all."""
        shards, names = whole.cut.map, tuple(column.name for column in self.key)
        if keys is None:
            return dict.fromkeys(whole.made)
        if shards.column in names:
            found: dict[str, list[Key]] = {}
            for one in keys:
                found.setdefault(shards.of_key(names, one) or shards.rest, []).append(one)
            return {shard: found.get(shard, []) for shard in whole.made}
        if self._everywhere is None or not now:
            return dict.fromkeys(whole.made, keys)
        elsewhere = [one for one in keys if one in self._everywhere]
        return {shard: keys if shard in self._scanned else elsewhere for shard in whole.made}

    def _then(self, at: int) -> WholeVersion | None:
        """All shards as they were at a snapshot of the rest's; None if it has expired, or the map of then."""
        rest = self._whole.shards.rest
        snapshot = rest.snapshot_by_id(at)
        if snapshot is None:
            return None
        then = replace(self.version, snapshot=snapshot, source=replace(self.version.source, snapshot=at))
        try:
            return WholeVersion(self._whole.shards, then).reading_as(then)
        except NoSuchMoment:
            return None
