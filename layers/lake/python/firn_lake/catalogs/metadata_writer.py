"""Metadata files of tables in Iceberg's format 3, which PyIceberg 0.12 reads, changes in memory, and refuses to write.

PyIceberg leaves out what it has no name for (encryption keys, key ids, what comes with later releases). So a file is
not written from what it has in memory: what a commit changed there is put into the file that the table had before, and
all else stays in it as it was (https://iceberg.apache.org/spec/#table-metadata-fields, "Table Metadata Fields";
docs/adr/0084-format-3-outside-spark.md).
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyiceberg.exceptions import CommitFailedException

from firn.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import StagedTable, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    Opened = TypeVar("Opened", bound=Catalog)

_FORMAT: Final = 3
_WRITES: Final = ("_write_metadata", "_write_metadata_no_exist_check")
"""Where PyIceberg's catalogs write a metadata file; the second one is Glue's, for S3 Tables."""

_SKEW: Final = 60_000
"""Milliseconds that clocks may differ by: Iceberg refuses a table whose last change is earlier than others by more."""

_IDS: Final = ("snapshot-id", "schema-id", "spec-id", "order-id", "id", "field-id")
"""What tells the parts of a list apart; of each, the first that it has."""


def with_writer(catalog: "Opened") -> "Opened":
    """The catalog, which from here on writes metadata of format 3 too. One whose server writes it stays as it is."""
    from pyiceberg.catalog import MetastoreCatalog

    if isinstance(catalog, MetastoreCatalog):
        stage = catalog._update_and_stage_table
        setattr(catalog, stage.__name__, partial(_staged, stage))
        for name in _WRITES:
            if hasattr(catalog, name):
                setattr(catalog, name, partial(_write, getattr(catalog, name), name != _WRITES[0]))
    return catalog


def writes(catalog: "Catalog") -> bool:
    """Whether tables of format 3 can be changed by the catalog."""
    from pyiceberg.catalog.rest import RestCatalog

    return isinstance(catalog, RestCatalog) or isinstance(getattr(catalog, _WRITES[0], None), partial)


def _staged(stage: Any, current: "Table | None", identifier: Any, requirements: Any, updates: Any) -> "StagedTable":
    """What PyIceberg makes of a commit, as the specification has it.

    Raises CommitFailedException where a snapshot of another branch came first, or a tag on what was to go: sequence
    numbers and row ids are the table's, and a commit names the refs that it knew. Raises ConfigError where the clock of
    this machine is behind.
    """
    if current is not None:
        for requirement in requirements:
            requirement.validate(current.metadata)
        _came_first(current.metadata, updates)
    staged: StagedTable = stage(current, identifier, requirements, updates)
    if current is not None:
        _in_time(current.metadata, staged.metadata)
        staged.metadata = _without_what_went(current.metadata, staged.metadata)
    return staged


def _came_first(there: "TableMetadata", updates: "Sequence[TableUpdate]") -> None:
    snapshots = [one.snapshot for one in updates if one.action == "add-snapshot"]
    if any((one.sequence_number or 0) < there.next_sequence_number() for one in snapshots):
        raise CommitFailedException("another snapshot came first, whose number and row ids this one has")
    if there.format_version == _FORMAT:
        rows = there.next_row_id or 0
        if any(one.first_row_id is None or one.first_row_id < rows for one in snapshots):
            raise CommitFailedException("the table became one of format 3, or another snapshot has these row ids")
    gone = {number for one in updates if one.action == "remove-snapshots" for number in one.snapshot_ids}
    dropped = {one.ref_name for one in updates if one.action == "remove-snapshot-ref"}
    for name, ref in there.refs.items():
        if ref.snapshot_id in gone and name not in dropped:  # PyIceberg would drop it
            raise CommitFailedException(f"{name} was set on snapshot {ref.snapshot_id}, which was to go")


def _in_time(there: "TableMetadata", after: "TableMetadata") -> None:
    """Raises ConfigError where PyIceberg would write what Iceberg reads no more (TableMetadata of Iceberg 1.11.0)."""
    last = max((there.last_updated_ms, *(one.timestamp_ms for one in there.snapshot_log[-1:])))
    if after.last_updated_ms < last - _SKEW:
        behind = (last - after.last_updated_ms) // 1000
        raise ConfigError(
            f"the last change of the table is {behind} seconds in the future by the clock of this machine, and Spark "
            "could not read the table after another one from here; nothing was done. Set this clock, or that of the "
            "machine that made the last change and wait so long"
        )


def _without_what_went(there: "TableMetadata", after: "TableMetadata") -> "TableMetadata":
    """What PyIceberg leaves of snapshots that expire: their statistics of partitions, and in the log of what main was
    all from before them, by which a time after them would mean an older snapshot."""
    kept = {one.snapshot_id for one in after.snapshots}
    gone = {one.snapshot_id for one in there.snapshots} - kept
    if not gone:
        return after
    log = [one.snapshot_id in kept for one in there.snapshot_log]
    before = sum(log[: max((place for place, stays in enumerate(log) if not stays), default=0)])
    statistics = [one for one in after.partition_statistics if one.snapshot_id not in gone]
    return after.model_copy(update={"snapshot_log": after.snapshot_log[before:], "partition_statistics": statistics})


def _write(other: Any, overwrite: bool, metadata: "TableMetadata", io: "FileIO", metadata_path: str) -> None:
    """Writes a metadata file. Raises CommitFailedException if the one before it is gone, and what the FileIO raises."""
    if metadata.format_version != _FORMAT:
        other(metadata, io, metadata_path)
        return
    from pyiceberg.serializers import Compressor
    from pyiceberg.table.metadata import TableMetadataUtil

    after = dumped(metadata)
    if metadata.metadata_log:
        text = _before(io, metadata.metadata_log[-1].metadata_file)
        after = merged(json.loads(text), dumped(TableMetadataUtil.parse_raw(text)), after)
    ids = (one.get("first-row-id", 0) + one.get("added-rows", 0) for one in after.get("snapshots", ()))
    after.setdefault("next-row-id", max(ids, default=0))  # of a new table
    packed = Compressor.get_compressor(metadata_path).bytes_compressor()(json.dumps(after).encode())
    with io.new_output(metadata_path).create(overwrite=overwrite) as stream:
        stream.write(packed)


def _before(io: "FileIO", location: str) -> str:
    from pyiceberg.serializers import Compressor

    try:
        with (
            io.new_input(location).open() as packed,
            Compressor.get_compressor(location).stream_decompressor(packed) as stream,
        ):
            return stream.read().decode()
    except FileNotFoundError as error:
        raise CommitFailedException(f"{location} is gone: other commits came first") from error


def dumped(metadata: "TableMetadata") -> dict[str, Any]:
    """What PyIceberg knows of a table, as its metadata file would say it."""
    from pyiceberg.typedef import IcebergBaseModel

    found: dict[str, Any] = json.loads(IcebergBaseModel.model_dump_json(metadata))
    return found


def merged(file: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """A metadata file with what a commit changed of it.

    file           of the table before the commit, as it is stored
    before, after  what PyIceberg knows of it, before the commit and after it

    A new schema begins as the one that the table had: its columns keep what PyIceberg does not know of them.
    """
    file, before = dict(file), dict(before)
    kept = {one["schema-id"] for one in before["schemas"]}
    at = next(n for n, one in enumerate(before["schemas"]) if one["schema-id"] == before["current-schema-id"])
    for one in after["schemas"]:
        if one["schema-id"] not in kept:
            for schemas in (file, before):
                begun = {**schemas["schemas"][at], "schema-id": one["schema-id"]}
                schemas["schemas"] = [*schemas["schemas"], begun]
    found: dict[str, Any] = _merged(file, before, after)
    return found


def _merged(file: Any, before: Any, after: Any) -> Any:
    if before == after:
        return file
    if isinstance(file, dict) and isinstance(before, dict) and isinstance(after, dict):
        kept = {name: value for name, value in file.items() if name in after or name not in before}
        return kept | {
            name: _merged(file[name], before.get(name), value) if name in file else value
            for name, value in after.items()
            if name in file or before.get(name) != value
        }
    if isinstance(file, list) and isinstance(before, list) and isinstance(after, list) and len(file) == len(before):
        return _list(file, before, after)
    return after


def _list(file: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    same = {_text(known): one for one, known in zip(file, before, strict=True)}
    # What is there twice, as in the log of snapshots, is known by all that it says.
    pairs = {_id(known): (one, known) for one, known in zip(file, before, strict=True) if _id(known) is not None}
    found = []
    for one in after:
        if (text := _text(one)) in same:
            found.append(same[text])
        elif _id(one) in pairs and len(pairs) == len(before):
            found.append(_merged(*pairs[_id(one)], one))
        else:
            found.append(one)
    return found


def _text(part: Any) -> str:
    return json.dumps(part, sort_keys=True)


def _id(part: Any) -> tuple[str, int] | None:
    if not isinstance(part, dict):
        return None
    return next(((name, part[name]) for name in _IDS if isinstance(part.get(name), int)), None)
