"""The metadata of a table with very many snapshots, for whoever only reads: the snapshots as columns, and a model of
PyIceberg's only of those that are asked for, read from where they lie in the file.

PyIceberg makes an object of each snapshot: 3 s of a processor for 100,000. Here they take 0.4 s.
"""

import gzip
import sys
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, overload

import msgspec
from pydantic import ValidationError
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV2, TableMetadataV3
from pyiceberg.table.snapshots import Snapshot, SnapshotLogEntry

from firn.errors import StorageUnavailable
from firn.tables.type_changes import TYPES
from firn_lake.snapshot_columns import SnapshotColumns, of_models

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

MARK: Final = "firn.reading.snapshots"
"""A property of metadata whose snapshots were taken out: how many."""

_RANGES: Final = 16
"""Snapshots that are read one by one; for more the file is read once."""

_MODELS: Final = 64
"""Models that are kept."""


class _Summary(msgspec.Struct, gc=False, rename="kebab"):
    operation: str = "overwrite"  # as PyIceberg takes one that is missing
    added_records: str = ""
    deleted_records: str = ""
    added_position_deletes: str = ""
    total_records: str = ""
    total_position_deletes: str = ""
    total_equality_deletes: str = ""
    removed_position_deletes: str = ""
    types: str = msgspec.field(default="", name=TYPES)


class _Snapshot(msgspec.Struct, gc=False, rename="kebab"):
    snapshot_id: int
    timestamp_ms: int
    parent_snapshot_id: int | None = None
    sequence_number: int | None = 0
    schema_id: int | None = None
    summary: _Summary | None = None


class _LogEntry(msgspec.Struct, gc=False, rename="kebab"):
    snapshot_id: int
    timestamp_ms: int


class _WithSummary(msgspec.Struct, gc=False):
    summary: dict[str, Any] | None = None


class _WithSnapshots(msgspec.Struct):
    snapshots: list[msgspec.Raw] | None = None


@dataclass(frozen=True)
class Split:
    """A metadata file in two: `rest`, all but the snapshots and their log, as JSON; and these as columns.

    starts, lengths       where in the file, inflated, the JSON of each snapshot lies (bytes)
    log_times, log_ids    when (ms since 1970) which snapshot became the current one, oldest first
    """

    rest: bytes
    columns: SnapshotColumns
    starts: "array[int]"
    lengths: "array[int]"
    log_times: "array[int]"
    log_ids: "array[int]"

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        types = sum(len(one) for one in self.columns.types.values())
        return len(self.rest) + 96 * len(self.columns) + 16 * len(self.log_ids) + types


def split(content: bytes) -> Split | None:
    """The metadata file with this content; None if it is not as the spec says: whoever reads it whole says how."""
    try:
        top = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        raws = msgspec.json.decode(top.pop("snapshots", msgspec.Raw(b"[]")), type=list[msgspec.Raw] | None) or []
        log = msgspec.json.decode(top.pop("snapshot-log", msgspec.Raw(b"[]")), type=list[_LogEntry] | None) or []
        properties = msgspec.json.decode(top.get("properties", msgspec.Raw(b"{}")), type=dict[str, Any] | None) or {}
        top["properties"] = msgspec.Raw(msgspec.json.encode({**properties, MARK: str(len(raws))}))
        columns = _columns(raws)
        starts, lengths = array("q"), array("q")
        at = content.index(raws[0]) if raws else 0
        for raw in raws:
            at = content.index(b"{", at)  # between two stands nothing but a comma and white space
            if not content.startswith(bytes(raw), at):  # the first one is somewhere else too
                return None
            starts.append(at)
            lengths.append(len(raw))
            at += len(raw)
        log_times = array("q", (one.timestamp_ms for one in log))
        log_ids = array("q", (one.snapshot_id for one in log))
        return Split(msgspec.json.encode(top), columns, starts, lengths, log_times, log_ids)
    except (msgspec.DecodeError, OverflowError, UnicodeDecodeError, RecursionError):
        return None


def _columns(raws: Sequence[msgspec.Raw]) -> SnapshotColumns:
    columns, decoder = SnapshotColumns(), msgspec.json.Decoder(_Snapshot)
    for raw in raws:
        one = decoder.decode(raw)
        told = one.summary or _Summary("unknown")
        counts = (
            told.added_records,
            told.deleted_records,
            told.added_position_deletes,
            told.total_records,
            told.total_position_deletes,
            told.total_equality_deletes,
            told.removed_position_deletes,
        )
        about = one.snapshot_id, one.parent_snapshot_id, one.timestamp_ms, one.sequence_number, one.schema_id
        columns.add(*about, sys.intern(told.operation), counts, told.types)
    return columns


def inflated(content: bytes, location: str) -> bytes:
    """The text of a metadata file: names say, as PyIceberg has it, whether it is compressed."""
    return gzip.decompress(content) if location.endswith(".gz.metadata.json") else content


class LongHistory(Sequence[Snapshot]):
    """The snapshots of a table, in the place of PyIceberg's list of them. Each is read when it is asked for: that
    raises what the storage raises, and StorageUnavailable where the file is another one by now."""

    def __init__(self, io: "FileIO", location: str, parts: Split) -> None:
        self._io, self._location, self._parts = io, location, parts
        self._models: dict[int, Snapshot] = {}

    @property
    def columns(self) -> SnapshotColumns:
        """What they say, without a look at the storage."""
        return self._parts.columns

    def __len__(self) -> int:
        return len(self._parts.columns)

    @overload
    def __getitem__(self, place: int) -> Snapshot: ...
    @overload
    def __getitem__(self, place: slice) -> list[Snapshot]: ...
    def __getitem__(self, place: int | slice) -> Snapshot | list[Snapshot]:
        if isinstance(place, slice):
            return self.at(range(len(self))[place])
        return self.at([range(len(self))[place]])[0]

    def __iter__(self) -> Iterator[Snapshot]:
        for place, raw in enumerate(self._all()):
            yield self._model(place, bytes(raw))

    def at(self, places: Collection[int]) -> list[Snapshot]:
        """Those at these places, in their order."""
        wanted = [one for one in places if one not in self._models]
        found = {one: self._models[one] for one in places if one in self._models}
        if len(wanted) > _RANGES or (wanted and self._location.endswith(".gz.metadata.json")):
            raws = self._all()
            found |= {one: self._model(one, bytes(raws[one])) for one in wanted}
        elif wanted:
            with self._io.new_input(self._location).open() as stream:
                for one in wanted:
                    stream.seek(self._parts.starts[one])
                    found[one] = self._model(one, stream.read(self._parts.lengths[one]))
        if len(self._models) + len(wanted) > _MODELS:
            self._models.clear()
        self._models |= {one: found[one] for one in wanted[:_MODELS]}
        return [found[one] for one in places]

    def by_id(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot with this id."""
        ids = self._parts.columns.ids
        return self[ids.index(snapshot_id)] if snapshot_id in ids else None

    def summaries(self) -> Iterator[dict[str, str]]:
        """The summary of each, in their order, but for the operation; {} where there is none."""
        decoder = msgspec.json.Decoder(_WithSummary)
        for raw in self._all():
            told = decoder.decode(raw).summary or {}
            yield {name: value for name, value in told.items() if name != "operation" and isinstance(value, str)}

    def _all(self) -> list[msgspec.Raw]:
        with self._io.new_input(self._location).open(seekable=False) as stream:
            content = inflated(stream.read(), self._location)
        found = msgspec.json.decode(content, type=_WithSnapshots).snapshots or []
        if len(found) != len(self):
            raise self._replaced()
        return found

    def _model(self, place: int, raw: bytes) -> Snapshot:
        try:
            found = Snapshot.model_validate_json(raw)
        except ValidationError as error:
            raise self._replaced() from error
        if found.snapshot_id != self._parts.columns.ids[place]:
            raise self._replaced()
        return found

    def _replaced(self) -> StorageUnavailable:
        return StorageUnavailable(f"{self._location} was replaced since it was read: load the table again")


class LongLog(Sequence[SnapshotLogEntry]):
    """The log of a table's snapshots, in the place of PyIceberg's list."""

    def __init__(self, parts: Split) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return len(self._parts.log_ids)

    @overload
    def __getitem__(self, place: int) -> SnapshotLogEntry: ...
    @overload
    def __getitem__(self, place: slice) -> list[SnapshotLogEntry]: ...
    def __getitem__(self, place: int | slice) -> SnapshotLogEntry | list[SnapshotLogEntry]:
        if isinstance(place, slice):
            return [self[one] for one in range(len(self))[place]]
        parts = self._parts
        return SnapshotLogEntry.model_construct(snapshot_id=parts.log_ids[place], timestamp_ms=parts.log_times[place])

    def pairs(self) -> Sequence[tuple[int, int]]:
        """(ms since 1970, snapshot), oldest first."""
        return list(zip(self._parts.log_times, self._parts.log_ids, strict=True))


class _ById:
    snapshots: Any

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot with this id."""
        found: Snapshot | None = self.snapshots.by_id(snapshot_id)
        return found


class _LongV1(_ById, TableMetadataV1): ...


class _LongV2(_ById, TableMetadataV2): ...


class _LongV3(_ById, TableMetadataV3): ...


_LONG: Final[dict[type, Callable[..., TableMetadata]]] = {
    TableMetadataV1: _LongV1.model_construct,
    TableMetadataV2: _LongV2.model_construct,
    TableMetadataV3: _LongV3.model_construct,
}


def with_history(metadata: TableMetadata, history: LongHistory, log: LongLog) -> TableMetadata:
    """PyIceberg's metadata of a file without its snapshots, with them: to read by. It can't be written: PyIceberg knows
    how to write lists."""
    fields = {name: getattr(metadata, name) for name in type(metadata).model_fields}
    properties = {name: value for name, value in metadata.properties.items() if name != MARK}
    given = {**fields, "properties": properties, "snapshots": history, "snapshot_log": log}
    return _LONG[type(metadata)](set(fields), **given)


def columns_of(metadata: TableMetadata) -> SnapshotColumns:
    """What the snapshots of a table say of themselves."""
    snapshots: Any = metadata.snapshots
    return snapshots.columns if isinstance(snapshots, LongHistory) else of_models(snapshots)


def summaries_of(metadata: TableMetadata) -> Iterator[dict[str, str]]:
    """The summary of each snapshot without its operation, in the order of the columns; {} where there is none."""
    snapshots: Any = metadata.snapshots
    if isinstance(snapshots, LongHistory):
        return snapshots.summaries()
    return (dict(one.summary.additional_properties) if one.summary else {} for one in snapshots)


def parents_of(metadata: TableMetadata) -> dict[int, int | None]:
    """Snapshot -> its parent, which need not be kept any more."""
    snapshots: Any = metadata.snapshots
    if isinstance(snapshots, LongHistory):
        return snapshots.columns.parent_of()
    return {one.snapshot_id: one.parent_snapshot_id for one in snapshots}


def told_on_main(metadata: TableMetadata) -> list[tuple[int, dict[str, str]]]:
    """The ids of the schemas, and the summaries, of the current snapshot and of its ancestors as far as they are kept,
    newest first. The file is read once for all of them."""
    columns = columns_of(metadata)
    schemas = dict(zip(columns.ids, columns.schemas, strict=True))
    return [(schemas[snapshot], summary) for snapshot, summary in main_of(metadata)]


def main_of(metadata: TableMetadata) -> list[tuple[int, dict[str, str]]]:
    """The ids and the summaries of the current snapshot and of its ancestors as far as they are kept, newest first."""
    told = dict(zip(columns_of(metadata).ids, summaries_of(metadata), strict=True))
    parents, at = parents_of(metadata), metadata.current_snapshot_id
    found = list[tuple[int, dict[str, str]]]()
    while at is not None and at in told:
        found.append((at, told.pop(at)))
        at = parents[at]
    return found


def snapshots_of(metadata: TableMetadata, ids: Collection[int]) -> list[Snapshot]:
    """The snapshots with these ids, which it has, in their order."""
    snapshots: Any = metadata.snapshots
    if isinstance(snapshots, LongHistory):
        places = {one: place for place, one in enumerate(snapshots.columns.ids)}
        return snapshots.at([places[one] for one in ids])
    by_id = {one.snapshot_id: one for one in snapshots}
    return [by_id[one] for one in ids]


def log_of(metadata: TableMetadata) -> Sequence[tuple[int, int]]:
    """When (ms since 1970) which snapshot became the current one, oldest first."""
    log: Any = metadata.snapshot_log
    return log.pairs() if isinstance(log, LongLog) else [(one.timestamp_ms, one.snapshot_id) for one in log]
