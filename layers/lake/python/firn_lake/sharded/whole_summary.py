"""What is in a lake, all shards of a table as one among it."""

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from firn.config.whole_tables import Whole
from firn.errors import TransientError
from firn.tables.shard_names import shard_in
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.reading.versions import Version, version_at
from firn_lake.sharded.whole_names import WholeNames
from firn_lake.sharded.whole_version import Shards, WholeVersion
from firn_lake.snapshot_columns import number, of_summary, row_counts
from firn_lake.tables import TableNotFound, TableSummary, summarize, table_identifiers

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

UNREADABLE: Final = (TableNotFound, NoSuchMoment, UnreadableFile)
"""What says that shards can't be read as one now: no commit has made them, or somebody took away what they need."""


def all_tables(catalog: "Catalog", wholes: WholeNames) -> list[TableSummary]:
    """All tables of a catalog, and what shards are read as, by name; not Firn's own memory of deletes beside each, and
    no shards that can't be read as one now."""
    identifiers = table_identifiers(catalog)
    named: dict[tuple[str, ...], Whole] = {}
    with suppress(TransientError):  # a list of tables does not rest on the staging store
        named = wholes.among(identifiers)
    loaded: dict[tuple[str, ...], Table] = {}

    def load(identifier: tuple[str, ...]) -> "Table":
        if identifier in loaded:
            return loaded[identifier]
        found = catalog.load_table(identifier)
        if named and shard_in(found.properties) is not None:
            loaded[identifier] = found
        return found

    found = {identifier: summarize(load(identifier)) for identifier in identifiers}
    for identifier, whole in named.items():
        rest = load(whole.rest.identifier)
        with suppress(*UNREADABLE):
            found[identifier] = summary_of(WholeVersion(Shards(whole, load, rest), version_at(rest, None)))
    return [one for _, one in sorted(found.items()) if one.mode != "deletes"]


def summary_of(whole: WholeVersion) -> TableSummary:
    """All shards as one: the snapshots are the rest's, what they hold is that of all at the moment. What can't be read
    is not counted, and nobody knows how many rows there are then."""
    versions = []
    for shard in whole.made:
        with suppress(UnreadableFile, NoSuchMoment):
            versions.append(whole.of_shard(shard))
    told = [_told(one) for one in versions]
    rows = [0 if one.snapshot is None else row_counts(*map(number, of_summary(_told(one))))[2] for one in versions]
    known = [one for one in rows if one is not None]
    return replace(
        summarize(whole.shards.rest),
        name=whole.shards.name,
        identifier=whole.shards.whole.name.identifier,
        rows=sum(known) if len(known) == len(whole.made) else None,
        size_bytes=sum(number(one.get("total-files-size", "")) or 0 for one in told),
        files=sum(number(one.get("total-data-files", "")) or 0 for one in told),
        shards=tuple(one.source.table for one in versions),
    )


def _told(version: Version) -> dict[str, str]:
    return version.snapshot.summary.additional_properties if version.snapshot and version.snapshot.summary else {}
