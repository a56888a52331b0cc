"""Which files a filter reads, and why the others are left out: `LakeTable.prune`.

The verdicts are those of the reading itself: PyIceberg's tests of partitions and of files' bounds, then the statistics
and Bloom filters in the footers of the files that these leave (`row_groups`).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import rewrite_not
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent
from pyiceberg.table import ManifestGroupPlanner

from firn_lake.reading.manifests import KNOWN, Asked
from firn_lake.reading.prune_reasons import bloom_reason, bounds_reason, partition_reason
from firn_lake.reading.row_groups import Groups, chosen
from firn_lake.reading.unreadable import reading
from firn_lake.reading.versions import Version, at_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table.metadata import TableMetadata

Verdict = Literal["read", "partition", "bounds", "row groups", "bloom"]
"""What leaves a file out: its partition, the bounds in its manifest, the statistics or the Bloom filters inside."""

VERDICTS: Final[tuple[Verdict, ...]] = ("read", "partition", "bounds", "row groups", "bloom")
_AT_ONCE: Final = 8  # footers


class Count(NamedTuple):
    """So many files, of so many bytes."""

    files: int
    bytes: int


@dataclass(frozen=True, eq=False)
class PrunedFile:
    """One data file. `row_groups`, `row_groups_read`: None if its footer was not looked at."""

    verdict: Verdict
    row_groups: int | None
    row_groups_read: int | None
    _file: DataFile = field(repr=False)
    _about: "_About" = field(repr=False)
    _groups: Groups | None = field(default=None, repr=False)

    @property
    def path(self) -> str:
        """Its URL."""
        return str(self._file.file_path)

    @property
    def rows(self) -> int:
        """In the file, deleted ones among them."""
        return int(self._file.record_count)

    @property
    def bytes(self) -> int:
        """Of the file."""
        return int(self._file.file_size_in_bytes)

    @cached_property
    def partition(self) -> str:
        """As Iceberg writes it into paths: `created_at_day=2026-01-31`; "" in an unpartitioned spec."""
        spec = self._about.metadata.specs()[self._file.spec_id]
        return str(spec.partition_to_path(self._file.partition, self._about.metadata.schema()))

    @cached_property
    def reason(self) -> str:
        """Why it is left out: `status: 'a'..'c' does not hold 'z'`; "" if it is read."""
        about = self._about
        if self.verdict == "partition":
            return partition_reason(about.metadata, self._file, about.asked.projected(self._file.spec_id))
        if self.verdict == "bounds":
            return bounds_reason(self._file, about.where)
        if self.verdict == "bloom" and self._groups is not None:
            return bloom_reason(self._groups.bloomed)
        return "the statistics of its row groups" if self.verdict == "row groups" else ""

    def plain(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        names = ("path", "partition", "verdict", "reason", "rows", "bytes", "row_groups", "row_groups_read")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class _About:
    metadata: "TableMetadata"
    where: BooleanExpression
    asked: Asked


@dataclass(frozen=True)
class Pruned:
    """What a filter leaves of a table at one snapshot (None: it has none yet)."""

    table: str
    snapshot: int | None
    filter: str
    files: Sequence[PrunedFile] = field(repr=False)

    @cached_property
    def counts(self) -> dict[Verdict, Count]:
        """Files and bytes by verdict; all verdicts are there."""
        found = {verdict: [0, 0] for verdict in VERDICTS}
        for one in self.files:
            found[one.verdict][0] += 1
            found[one.verdict][1] += one.bytes
        return {verdict: Count(*found[verdict]) for verdict in VERDICTS}

    @property
    def total(self) -> Count:
        """All files of the snapshot."""
        return Count(sum(one.files for one in self.counts.values()), sum(one.bytes for one in self.counts.values()))

    @property
    def read(self) -> tuple[PrunedFile, ...]:
        """The files that are read."""
        return tuple(one for one in self.files if one.verdict == "read")

    @property
    def skipped(self) -> tuple[PrunedFile, ...]:
        """The files that are left out."""
        return tuple(one for one in self.files if one.verdict != "read")

    @property
    def row_groups_skipped(self) -> int:
        """In the files that are read; those whose footers were not looked at count none."""
        return sum((one.row_groups or 0) - (one.row_groups_read or 0) for one in self.read)

    def plain(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {
            "table": self.table,
            "snapshot": self.snapshot,
            "filter": self.filter,
            "counts": {verdict: count._asdict() for verdict, count in self.counts.items()},
            "row_groups_skipped": self.row_groups_skipped,
            "files": [one.plain() for one in self.files],
        }

    def json(self) -> str:
        """All of it as one JSON object."""
        return json.dumps(self.plain(), ensure_ascii=False)

    def arrow(self) -> "pa.Table":
        """A row for each file, to filter and to count."""
        import pyarrow as pa

        return pa.Table.from_pylist([one.plain() for one in self.files])

    def __str__(self) -> str:
        kept, total = self.counts["read"], self.total
        left = [
            f"{one.files:,} by {verdict}" for verdict, one in self.counts.items() if verdict != "read" and one.files
        ]
        groups = self.row_groups_skipped
        inside = f", without {groups:,} of their row groups" if groups else ""
        out = f"; left out: {', '.join(left)}" if left else ""
        noun, verb = ("file", "is") if total.files == 1 else ("files", "are")
        sizes = f"({kept.bytes:,} of {total.bytes:,} bytes)"
        return f"{kept.files:,} of {total.files:,} {noun} {sizes} {verb} read{inside}{out}"

    def __repr__(self) -> str:
        return f"<{self.table} at snapshot {self.snapshot} where {self.filter}: {self}>"


def prune(version: Version, text: "str | BooleanExpression", *, footers: bool = True) -> Pruned:
    """What the filter leaves of the version's files.

    footers  look into the files that partitions and bounds leave: row groups and Bloom filters. It reads the footer of
             each; without, only metadata is read

    Raises BadFilter, UnreadableFile, StorageUnavailable.
    """
    expression = version.parsed(text)  # once: it takes as long as to ask a thousand files
    where = rewrite_not(version.bound(expression))
    planned = _planned(version, expression, where)
    files = tuple(_looked_into(planned, version, where) if footers else planned)
    return Pruned(version.name, version.id, str(text), files)


def _planned(version: Version, expression: BooleanExpression, where: BooleanExpression) -> Iterator[PrunedFile]:
    """By metadata alone. Warm, this is all the work: reasons and partitions' names are made when they are asked for."""
    if version.snapshot is None:
        return
    metadata, io = at_schema(version.source.metadata, version.schema), version.source.io
    planner = ManifestGroupPlanner(metadata, io, expression)
    about = _About(metadata, where, Asked(planner))
    asked = about.asked
    with reading(version.snapshot.manifest_list, version.name, version.id):
        manifests = KNOWN.listed(io, version.snapshot)
    for manifest in manifests:
        if manifest.content != ManifestContent.DATA:
            continue
        with reading(manifest.manifest_path, version.name, version.id):
            entries = KNOWN.entries(io, manifest)
        spec, left = manifest.partition_spec_id, asked.manifest(manifest)
        for entry in entries:
            file = entry.data_file
            if not left or not asked.partition(spec, file):
                yield PrunedFile("partition", None, None, file, about)
            elif not asked.bounds(file):
                yield PrunedFile("bounds", None, None, file, about)
            else:
                yield PrunedFile("read", None, None, file, about)


def _looked_into(planned: Iterable[PrunedFile], version: Version, where: BooleanExpression) -> Iterator[PrunedFile]:
    files = list(planned)
    left = [one for one in files if one.verdict == "read" and one._file.file_format == FileFormat.PARQUET]
    if isinstance(where, AlwaysTrue) or not left:
        return iter(files)

    def look(one: PrunedFile) -> PrunedFile:
        source = version.source
        with reading(one.path, source.table, source.snapshot), source.io.new_input(one.path).open() as opened:
            groups = chosen(opened, where, source.metadata)
        verdict: Verdict = "read" if groups.kept else "bloom" if groups.by_bloom else "row groups"
        return PrunedFile(verdict, groups.footer.num_row_groups, len(groups.kept), one._file, one._about, groups)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        seen = {id(one): found for one, found in zip(left, pool.map(look, left), strict=True)}
    return (seen.get(id(one), one) for one in files)
