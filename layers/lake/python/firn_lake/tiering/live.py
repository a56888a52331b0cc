"""The live files of a table, as its metadata and the storage tell them: what tiering decides by.

By PyIceberg's manifests alone, without pyarrow: this runs in a Lambda. When a file was written, and its class, only the
storage knows (the snapshot that added it expires within days): a listing of the table's data tells both, a thousand
files a request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, MonthTransform, YearTransform
from pyiceberg.types import DateType, StringType

from firn.maintenance.tiering import LiveDeletes, LiveFile, TimeTransform, upper_end
from firn_lake.tiering.class_port import Classes, Listed, NoClasses, Place, each

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

_TIMES: Final[Sequence[tuple[type[Any], TimeTransform]]] = (
    (YearTransform, "year"),
    (MonthTransform, "month"),
    (DayTransform, "day"),
    (HourTransform, "hour"),
)
_FILE_PATH: Final = 2147483546  # the field of a position delete file that names the data file (Iceberg spec)
_AT_THE_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Live:
    """What is live in a snapshot. `missing`: data files that the storage does not have."""

    files: tuple[LiveFile, ...] = ()
    deletes: tuple[LiveDeletes, ...] = ()
    missing: int = 0


def live(table: "Table", classes: Classes) -> Live:
    """All live files of the current snapshot. `classes`: those of its storage. Raises what they raise, and what
    PyIceberg's FileIO raises."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return Live()
    manifests = snapshot.manifests(table.io)
    entries = [entry for found in each(lambda one: one.fetch_manifest_entry(table.io), manifests) for entry in found]
    stored = _stored(classes, table.location(), [entry.data_file.file_path for entry in entries])
    files, deletes, missing = [], [], 0
    schema, specs = table.schema(), table.specs()
    for entry in entries:
        data = entry.data_file
        spec = specs[data.spec_id]
        partition = _path(spec, data, schema)
        known = stored.get(data.file_path)
        if data.content != DataFileContent.DATA:
            deletes.append(deletes_of(entry, partition, known))
        elif known is None:
            missing += 1
        else:
            files.append(
                LiveFile(
                    data.file_path, data.file_size_in_bytes, data.record_count, partition, known.modified,
                    _until(spec, data, schema), known.kind, entry.sequence_number or 0,
                )
            )  # fmt: skip
    return Live(tuple(files), tuple(deletes), missing)


def _stored(classes: Classes, location: str, paths: Sequence[str]) -> Mapping[str, Listed]:
    """What the storage says of the files: by a listing of the table's folder, else one by one."""
    base = classes.place(location)
    if base is None:
        raise NoClasses(f"{location} names no place in {classes.table.storage}")
    wanted = {path: where for path in set(paths) if (where := classes.place(path)) is not None}
    below = base.key.rstrip("/") + "/"
    inside = {path for path, where in wanted.items() if where.bucket == base.bucket and where.key.startswith(below)}
    # Metadata lies beside the data: not all of it has to be listed, but where files lie right in the table's folder.
    parts = {wanted[path].key.removeprefix(below).partition("/")[:2] for path in inside}
    folders = {f"{below}{name}/" for name, _ in parts} if all(deeper for _, deeper in parts) else {below}
    found: dict[str, Listed] = {}
    for folder in sorted(folders):
        listed = classes.listing(Place(base.bucket, folder))
        found.update((path, listed[wanted[path].key]) for path in inside if wanted[path].key in listed)
    outside = sorted(set(wanted) - inside)
    told = each(lambda path: classes.look(wanted[path]), outside)
    return found | {path: one for path, one in zip(outside, told, strict=True) if one is not None}


def deletes_of(entry: ManifestEntry, partition: str, known: Listed | None) -> LiveDeletes:
    """A delete file by its entry in a manifest. `known`: what the storage says of it."""
    data = entry.data_file
    first = (data.lower_bounds or {}).get(_FILE_PATH)
    last = (data.upper_bounds or {}).get(_FILE_PATH)
    named = data.content == DataFileContent.POSITION_DELETES and first is not None and last is not None
    # A bound may be cut short: the lower one is less then, and Iceberg rounds the upper one up.
    return LiveDeletes(
        partition,
        known.modified if known else _AT_THE_BEGINNING,
        _text(first) if named and first is not None else None,
        _text(last) if named and last is not None else None,
        entry.sequence_number or 0,
    )


def _text(bound: bytes) -> str:
    return str(from_bytes(StringType(), bound))


def _path(spec: "PartitionSpec", data: DataFile, schema: "Schema") -> str:
    """Iceberg's path of the partition; "" without one."""
    return spec.partition_to_path(data.partition, schema) if spec.fields else ""


def _until(spec: "PartitionSpec", data: DataFile, schema: "Schema") -> datetime | None:
    """The end of the partition's time: the earliest that a field of it names; None if none does."""
    ends = []
    for number, field in enumerate(spec.fields):
        kind, value = _time_of(field, schema), data.partition[number]
        if kind is not None and value is not None:
            ends.append(upper_end(kind, _ordinal(value)))
    return min(ends, default=None)


def _time_of(field: "PartitionField", schema: "Schema") -> TimeTransform | None:
    for transform, name in _TIMES:
        if isinstance(field.transform, transform):
            return name
    if isinstance(field.transform, IdentityTransform):
        try:
            return "day" if isinstance(schema.find_type(field.source_id), DateType) else None
        except ValueError:  # a column that is no longer there
            return None
    return None


def _ordinal(value: Any) -> int:
    """Iceberg's number; PyIceberg may make a date of days."""
    return int(value) if isinstance(value, int) else cast(int, (value - _AT_THE_BEGINNING.date()).days)
