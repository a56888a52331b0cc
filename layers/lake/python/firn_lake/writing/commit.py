"""One commit to a table outside Spark: on exactly the version that was looked at, or not at all.

PyIceberg tries a refused commit again by itself, on a version that nobody has looked at. Here a refusal is told, and
who looked decides again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationException

from firn.config.catalogs import READ_ONLY, is_read_only
from firn.errors import ConfigError, TerminalError, TransientError, UnknownOutcome
from firn_lake.tables import TableNotFound, shown

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction


WRITTEN_FORMAT: Final = 2


class MovedOn(TransientError):
    """Another commit came first, and nothing of this one was done: look again."""


class CannotWrite(TerminalError):
    """The table is of a kind that can't be written here, or not so; the text says what can be done."""


def writable(table: "Table") -> None:
    """Raises CannotWrite for a table whose format PyIceberg does not write, ConfigError for one in a Nessie."""
    if is_read_only(table.catalog.properties):
        raise ConfigError(READ_ONLY)
    version = table.metadata.format_version
    if version > WRITTEN_FORMAT:
        raise CannotWrite(
            f"{shown(table)} has Iceberg's format version {version}, which only Spark writes; here "
            f"versions up to {WRITTEN_FORMAT} can be written"
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
    sooner than in the middle of the commit. A REST catalog's server writes it itself."""
    from pyiceberg.catalog.rest import RestCatalog

    version = table.metadata.format_version
    if version > WRITTEN_FORMAT and not isinstance(table.catalog, RestCatalog):
        raise CannotWrite(
            f"{shown(table)} has Iceberg's format version {version}, whose metadata PyIceberg doesn't write; nothing "
            "was done. Name or move its snapshots with Spark: ALTER TABLE … CREATE TAG, CREATE BRANCH, "
            "CALL firn.system.rollback_to_snapshot(…)"
        )


def land_files(
    table: "Table", removed: "Sequence[DataFile]", added: "Sequence[DataFile]", properties: Mapping[str, str]
) -> None:
    """Takes data files out of main and puts others in, as one snapshot with these properties. Raises as `land` does."""

    def stage(transaction: "Transaction") -> None:
        change = transaction.update_snapshot(snapshot_properties=dict(properties))
        with change.overwrite() if removed else change.fast_append() as update:
            for file in removed:
                update.delete_data_file(file)
            for file in added:
                update.append_data_file(file)

    land(table, stage)
