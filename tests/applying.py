"""Changes applied to rows: what a consumer does with them, and what they have to lead to."""

from collections import Counter

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from firn_lake.changes.row_changes import Changes
from firn_lake.reading.rows import Rows
from firn_lake.reading.versions import version_of


def rows_of(table: Table | None, snapshot: Snapshot | None, schema: Schema | None = None) -> Counter[str]:
    """The rows at a snapshot (None: of the empty table), without `_firn_…`, as `schema` has them: how often each is."""
    if table is None or snapshot is None:
        return Counter()
    version = version_of(table, snapshot, schema)
    return Counter(map(repr, Rows(version, version.select(None, metadata=False)).pylist()))


def applied(rows: Counter[str], changes: Changes) -> Counter[str]:
    """The rows after the changes. Fails if one takes away what is not there, or changes nothing."""
    after = rows.copy()
    for change in changes.pylist():
        kind, before = change.pop("_change"), change.pop("_before")
        row = {name: value for name, value in change.items() if name not in ("_snapshot", "_committed_at")}
        assert (before is None) == (kind == "insert")
        if kind == "delete":
            assert repr(before) == repr(row)
        if before is not None:
            assert after[repr(before)] > 0, f"{kind} of a row that is not there: {before}"
            after[repr(before)] -= 1
        if kind != "delete":
            assert repr(row) != repr(before)
            after[repr(row)] += 1
    return +after
