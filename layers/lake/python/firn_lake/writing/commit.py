"""One commit to a table outside Spark: on exactly the version that was looked at, or not at all.

PyIceberg tries a refused commit again by itself, on a version that nobody has looked at. Here a refusal is told, and
who looked decides again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationException
from pyiceberg.types import TimestampNanoType, TimestamptzNanoType

from firn.config.catalogs import READ_ONLY, is_read_only
from firn.errors import ConfigError, TerminalError, TransientError, UnknownOutcome
from firn_lake.catalogs.metadata_writer import writes
from firn_lake.tables import TableNotFound, shown
from firn_lake.writing import lineage_snapshot

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction


_MOST: Final = lineage_snapshot.FORMAT
_CODECS: Final[dict[str, Any]] = {"uncompressed": "null"}
"""Of manifests, by write.avro.compression-codec, where PyIceberg knows Avro's word alone."""
_ENCRYPTED: Final = "encryption.key-id"
"""The property of tables whose files are encrypted (https://iceberg.apache.org/docs/latest/encryption/)."""


class MovedOn(TransientError):
    """Another commit came first, and nothing of this one was done: look again."""


class CannotWrite(TerminalError):
    """The table is of a kind that can't be written here, or not so; the text says what can be done."""


def writable(table: "Table") -> None:
    """Raises CannotWrite for a table whose format can't be written, whose files are encrypted, or whose partitions are
    nanoseconds, ConfigError for one in a Nessie."""
    if is_read_only(table.catalog.properties):
        raise ConfigError(READ_ONLY)
    _written_here(table)
    if _ENCRYPTED in table.metadata.properties:
        raise CannotWrite(f"{shown(table)} is encrypted ({_ENCRYPTED}), and files from here would not be: use Spark")
    for field in table.spec().partition_type(table.schema()).fields:
        if isinstance(field.field_type, TimestampNanoType | TimestamptzNanoType):
            raise CannotWrite(
                f"{shown(table)} is partitioned by {field.name}, nanoseconds as they are, whose manifests could not be "
                "read here again; partition it by hour(…), day(…), month(…), year(…) or bucket(n, …) of it"
            )


def land(table: "Table", stage: "Callable[[Transaction], None]") -> None:
    """Commits what `stage` puts into a transaction on the table as it was loaded. All of it is done, or nothing.

    Raises ConfigError (the catalog takes no commits), CannotWrite (PyIceberg can't write the metadata), MovedOn
    (another commit came first; nothing was done), TransientError (the catalog does not answer, and nothing was done),
    TableNotFound, UnknownOutcome (the catalog's answer is lost: files are left alone).
    """
    name = shown(table)
    _written_here(table)
    transaction = table.transaction()
    try:
        stage(transaction)
    except (CommitFailedException, ValidationException) as error:
        raise MovedOn(f"{name} moved on while this was prepared, look again: {error}") from error
    producers = list(transaction._snapshot_producers)
    transaction._snapshot_producers.clear()  # with them PyIceberg would try again on a newer version
    try:
        transaction.commit_transaction()
    except (CommitFailedException, ValidationException) as error:
        for one in producers:
            one._clean_all_uncommitted()
        raise MovedOn(f"{name} moved on, another commit came first; nothing was done, look again: {error}") from error
    except NoSuchTableError as error:
        raise TableNotFound(f"{name} is not in the lake any more") from error
    except (ConfigError, TransientError, UnknownOutcome):  # the catalog knows what became of it
        raise
    except Exception as error:
        raise UnknownOutcome(
            f"the catalog gave no clear answer to a commit to {name}: it may be in the table, or not. Look at its "
            f"newest snapshot (firn history {name}) before anything else; no file was removed. "
            f"{type(error).__name__}: {error}"
        ) from error


def _written_here(table: "Table") -> None:
    """Raises CannotWrite where PyIceberg would have to write metadata of a format that it only reads: it says so no
    sooner than in the middle of the commit."""
    version = table.metadata.format_version
    if version > _MOST:
        raise CannotWrite(
            f"{shown(table)} has Iceberg's format version {version}; here versions up to {_MOST} can be written"
        )
    if version == _MOST and not writes(table.catalog):
        raise CannotWrite(
            f"{shown(table)} has Iceberg's format version {version}, which a catalog of PyIceberg's own does not "
            "write; nothing was done. Open it by its address: firn_lake.connect('sqlite:///…', warehouse=…)"
        )


def land_files(
    table: "Table", removed: "Sequence[DataFile]", added: "Sequence[DataFile]", properties: Mapping[str, str]
) -> None:
    """Takes data files out of main and puts others in, as one snapshot with these properties. Raises as `land` does."""

    land(table, lambda transaction: stage_files(transaction, removed, added, properties))


def stage_files(
    transaction: "Transaction",
    removed: "Sequence[DataFile]",
    added: "Sequence[DataFile]",
    properties: Mapping[str, str],
) -> None:
    """Puts a snapshot of main into a transaction, as `land_files` says; without files it is one of nothing."""
    if transaction.table_metadata.format_version == lineage_snapshot.FORMAT:
        of_rows = lineage_snapshot.LineageSnapshot(transaction, removed, added, properties)
        of_rows._compression = _CODECS.get(of_rows._compression, of_rows._compression)
        of_rows.commit()
        return
    change = transaction.update_snapshot(snapshot_properties=dict(properties))
    with change.overwrite() if removed else change.fast_append() as update:
        update._compression = _CODECS.get(update._compression, update._compression)
        for file in removed:
            update.delete_data_file(file)
        for file in added:
            update.append_data_file(file)
