"""What `firn doctor --catalog` does: a table of its own is made in the catalog, committed to by several clients at
once, and dropped again. What is there already is neither read nor touched.

It asks for what Firn rests on (docs/guarantees.md): a commit that was answered stays, the snapshots of a table are
kept, a commit that has not seen another one is refused, and columns may get other types.
"""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from firn.config.catalog_products import TRIED, product_of
from firn.config.catalogs import CREDENTIALS, READ_ONLY, TYPES_ALLOWED, is_read_only, read_address, shown
from firn.errors import ConfigError, FirnError, StorageUnavailable, TerminalError, TransientError, UnknownOutcome
from firn_cli.check_parts import Check, Part, Report, Trial, is_abandoned, scratch_name

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_WRITERS: Final = 3
_REACH: Final = "see that the address is right, that the server runs, and that this machine reaches its host and port"
_ENTER: Final = f"look at {CREDENTIALS}"
_STORE: Final = "the catalog answers; see that the warehouse's bucket or folder is there and its credentials may write"
_OTHER: Final = "let Firn write to another catalog: with this one changes can be lost (docs/catalogs.md)"


class _Failed(TerminalError):
    """The catalog does not do what Firn needs of it."""


class CatalogCheck:
    """One run of it. `namespace`: where the scratch table is made, and made itself if it is not there."""

    def __init__(
        self, address: str, warehouse: str, env: Mapping[str, str], namespace: str, report: Report = lambda _part: None
    ) -> None:
        self._address, self._warehouse, self._env = address, warehouse, env
        self._trial = Trial(report, lambda _part, error: (str(error) or type(error).__name__, _advice(error)))
        self._namespace = namespace
        self._table = (namespace, scratch_name())
        self._asked_to_make = self._made_namespace = False
        self._location = ""
        self._held: Catalog | None = None

    def checks(self) -> Iterator[Check]:
        """What the catalog is, and each part as it was found. After the first that is wrong the others are not tried;
        what was made is removed whatever happens. Raises ConfigError for what is not an address."""
        product = product_of(read_address(self._address))
        is_tried = True if product.state == TRIED else None
        yield Check("catalog", is_tried, f"{product.name} at {shown(self._address)}: {product.state}, {product.how}")
        parts: list[tuple[str, Part]] = [
            ("reach", self._reach),
            ("create", self._create),
            ("writers", self._writers),
            ("conflict", self._conflict),
            ("types", self._types),
        ]
        try:
            yield from self._trial.each(parts)
        finally:
            dropped = self._trial.one("drop", self._drop) if self._asked_to_make else Check("drop", None, "not tried")
            if self._held is not None:
                self._held.close()
        yield dropped

    def _open(self) -> "Catalog":
        from firn_lake.catalogs.catalog import open_catalog

        return open_catalog(self._address, self._warehouse, self._env)

    @property
    def _catalog(self) -> "Catalog":
        if self._held is None:
            self._held = self._open()
        return self._held

    def _reach(self) -> str:
        return f"it answers: {len(self._catalog.list_namespaces())} namespaces"

    def _create(self) -> str:
        import pyarrow as pa

        catalog = self._catalog
        if is_read_only(catalog.properties):
            raise ConfigError(READ_ONLY)
        self._asked_to_make = True
        if not catalog.namespace_exists(self._namespace):
            self._made_namespace = True  # before: it may be made though no answer comes
            catalog.create_namespace(self._namespace)
        self._drop_abandoned(catalog)
        table = catalog.create_table(self._table, pa.schema([("id", pa.int64())]))
        self._location = table.location()
        return f"{'.'.join(self._table)} is made, at {self._location}"

    def _writers(self) -> str:
        """All have seen the table without a snapshot: of two first commits one may be lost where nothing compares."""
        tables = [self._open().load_table(self._table) for _ in range(_WRITERS)]
        with ThreadPoolExecutor(_WRITERS) as pool:
            tries = list(pool.map(_append, tables, range(1, _WRITERS + 1)))
        for table in tables:
            table.catalog.close()
        done = {number for number, (error, _) in enumerate(tries, 1) if error is None}
        errors = [error for error, _ in tries if error is not None]
        if not done:
            raise errors[0]
        read = self._catalog.load_table(self._table)
        found = set(read.scan().to_arrow()["id"].to_pylist())
        if lost := done - found:
            raise _Failed(f"{len(lost)} of {len(done)} commits that were answered ok are not in the table")
        kept = len(read.metadata.snapshots)
        if kept < len(done):
            raise _Failed(f"{len(done)} commits were made and the table shows {kept} snapshots: Firn can't tell "
                          "whether another job has committed")  # fmt: skip
        refused = f", {len(errors)} refused" if errors else ""
        return (
            f"{len(done)} of {_WRITERS} commits at once are in the table{refused}, the slowest took {_slowest(tries)}"
        )

    def _conflict(self) -> str:
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate

        catalog = self._catalog
        table = catalog.load_table(self._table)
        now = table.metadata.current_snapshot_id
        older = [one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id != now]
        for seen in (None, *older[:1]):
            with suppress(CommitFailedException):
                rule = AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": seen})
                catalog.commit_table(table, (rule,), (SetPropertiesUpdate(updates={"firn.late": "yes"}),))
                raise _Failed(f"a commit was taken that had seen {_snapshot(seen)}, while {_snapshot(now)} is there")
        return "a commit that has not seen the newest one is refused"

    def _types(self) -> str:
        """As a job does for a stream whose later values need it: a column of another type takes over a name. Places
        change with it, and a Hive Metastore compares what is at each place."""
        from pyiceberg.types import LongType, StringType

        table = self._catalog.load_table(self._table)
        with table.update_schema() as update:
            update.add_column("n", LongType()).add_column("n_text", StringType()).move_first("n_text")
        with table.update_schema() as update:
            update.delete_column("n").rename_column("n_text", "n").move_after("n_text", "id")
        return "a column may get another type, and another place"

    def _drop(self) -> str:
        from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchNamespaceError, NoSuchTableError

        catalog = self._catalog
        with suppress(NoSuchTableError, NoSuchNamespaceError):
            catalog.purge_table(self._table)
        if catalog.table_exists(self._table):
            raise _Failed(f"{'.'.join(self._table)} was dropped and is there")
        if self._made_namespace:
            with suppress(NoSuchNamespaceError, NamespaceNotEmptyError):
                catalog.drop_namespace(self._namespace)
        return f"the table is gone{self._remove_files()}"

    def _remove_files(self) -> str:
        """What commits that were refused wrote, and no table names. -> a note for people where that can't be done."""
        from firn.log.store import open_store, paths, remove

        if not self._location:
            return ""
        try:
            store = open_store(self._location)
            remove(store, paths(store, ""))
        except (ConfigError, StorageUnavailable):  # the catalog gave keys out with the table, and with it they went
            return f"; files of refused commits may be left at {self._location}"
        return ""

    def _drop_abandoned(self, catalog: "Catalog") -> None:
        """What checks left that were killed."""
        for name in catalog.list_tables(self._namespace):
            if is_abandoned(name[-1]):
                catalog.purge_table(name)


def _append(table: "Table", number: int) -> tuple[Exception | None, float]:
    """What became of a row: an error if it was refused, or may not be in the table; and the seconds."""
    import pyarrow as pa

    began = time.monotonic()
    try:
        table.append(pa.table({"id": pa.array([number], pa.int64())}))
    except Exception as error:  # noqa: BLE001 (each library has its own)
        return error, time.monotonic() - began
    return None, time.monotonic() - began


def _slowest(tries: list[tuple[Exception | None, float]]) -> str:
    return f"{max(seconds for _, seconds in tries):.1f} s"


def _snapshot(seen: int | None) -> str:
    return "no snapshot" if seen is None else f"snapshot {seen}"


def _advice(error: Exception) -> str:
    match error:
        case _Failed():
            return _OTHER
        case ConfigError() if _is_refusal(error):
            return _ENTER
        case ConfigError() if TYPES_ALLOWED in str(error):
            return ""
        case UnknownOutcome():
            return f"see whether the server is healthy, then run this again. {_REACH}"
        case TransientError():
            return _REACH
        case ConfigError():
            return "change catalog: in firn.yaml, or its environment, as it says"
        case FirnError():
            return ""
    if _is_refusal(error):
        return _ENTER
    return _STORE if isinstance(error, OSError) else "the catalog's own log says more (docs/catalogs.md)"


def _is_refusal(error: Any) -> bool:
    said = f"{type(error).__name__} {error}".lower()
    return any(
        word in said
        for word in (
            "unauthorized",
            "forbidden",
            "oautherror",
            "accessdenied",
            "unrecognizedclient",
            "refuses this client",
        )
    )
