"""Iceberg tables through Iceberg's own Java API: look, create, evolve. Names with dots never meet a SQL parser here."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from firn.changes.decode.column_defaults import default_json, defaults_json
from firn.changes.decode.iceberg_fields import typed_json
from firn.changes.decode.types import Column, Type, storable
from firn.changes.metadata_columns import POSITION
from firn.config.catalogs import READ_ONLY, is_read_only
from firn.config.file_writing import DEFAULTS_FORMAT, OLDEST_FORMAT
from firn.config.names import TableName, quoted
from firn.config.partitions import Partition, in_words
from firn.errors import ConfigError
from firn.maintenance.unfed import unreadable
from firn.tables import file_properties, partition_policy, table_state
from firn.tables.planning import ColumnPlan
from firn_spark import vended_keys
from firn_spark.session import CATALOG
from firn_spark.tables import bucket_endpoints
from firn_spark.tables.columns import iceberg_type
from firn_spark.tables.hive_locks import is_hive, release_abandoned
from firn_spark.tables.java import java_class
from firn_spark.tables.locations import Place, places
from firn_spark.tables.metadata_cache import KNOWN, json_of
from firn_spark.tables.planned_files import PlannedFiles

_ICEBERG = "org.apache.iceberg"
_REST = f"{_ICEBERG}.rest.RESTCatalog"
_NO_TABLE = f"{_ICEBERG}.exceptions.NoSuchTableException"
FORMAT_VERSION = "format-version"  # as if it were a property: Iceberg takes it for what it is
_PROPERTIES = {
    FORMAT_VERSION: str(OLDEST_FORMAT),
    "write.delete.granularity": "partition",  # many small epochs: a delete file per data file would be thousands
    # Each commit writes the metadata again, some kilobyte for each snapshot in it. Of the versions before, the last
    # hundred stay (Iceberg's default), for readers that have just asked where it is.
    "write.metadata.delete-after-commit.enabled": "true",
    **file_properties.OWN,
    "firn.format": "1",
}
# Bounds cut to Iceberg's 16 bytes would tell next to nothing of a position.
_WITH_POSITIONS = {f"write.metadata.metrics.column.{POSITION}": "full"}


class Table:
    """One Iceberg table as it is now. `java` is its org.apache.iceberg.Table, `state` its metadata as values; `branch`
    is the branch that is read, committed to and told of in `state`, None for main (firn_spark.rebuild); `planned`: what
    look-ups were told of its data files."""

    def __init__(self, name: TableName, java: Any, state: table_state.TableState, branch: str | None = None) -> None:
        self.name = name
        self.java = java
        self.state = state
        self.branch = branch
        self.planned = PlannedFiles()

    @property
    def sql(self) -> str:
        """The table's name for Spark SQL, to read it."""
        return self.files_sql if self.branch is None else f"{self.files_sql}.{quoted(f'branch_{self.branch}')}"

    @property
    def files_sql(self) -> str:
        """The same to write files, which belong to no branch before they are committed."""
        return f"{CATALOG}.{self.name.quoted}"

    @property
    def unreadable(self) -> str | None:
        """Why Spark does not open it, None if it does: a column of a type that Spark lacks."""
        return unreadable(self.state.fields)

    def head(self) -> Any:
        """The newest org.apache.iceberg.Snapshot, None if there is none."""
        return self.java.currentSnapshot() if self.branch is None else self.java.snapshot(self.branch)

    def columns(self) -> tuple[tuple[Column, ...], frozenset[str]]:
        """As TableState says."""
        return self.state.columns

    @property
    def partitions(self) -> Mapping[str, str]:
        """What new files are partitioned by, in the words of firn.yaml, with the names of the spec's fields."""
        names = {int(field["id"]): str(field["name"]) for field in self.state.fields}
        fields = [(str(one.transform().toString()), int(one.sourceId()), str(one.name())) for one in
                  self.java.spec().fields()]  # fmt: skip
        # Version 1 keeps what a spec had, as void.
        return {in_words(how, names.get(source, "?")): name for how, source, name in fields if how != "void"}

    def is_partitioned_anew(self, wanted: Sequence[Partition]) -> bool:
        """Whether `partition_by` of firn.yaml changes a table that Firn made."""
        return self.key() is not None and partition_policy.differs(
            wanted, self.state.properties, lambda: tuple(self.partitions)
        )

    def key(self) -> tuple[str, ...] | None:
        """As TableState says."""
        return self.state.key()


class Tables:
    """The catalog `firn` of a Spark session. `read_only`: nothing is committed by it. Without that, ConfigError for a
    Nessie."""

    def __init__(self, spark: SparkSession, *, read_only: bool = False) -> None:
        self._spark = spark
        # Spark makes a catalog, once a session, from the settings of whichever session is active in this thread.
        sessions = java_class(spark, "org.apache.spark.sql.classic.SparkSession")
        sessions.setActiveSession(spark._jsparkSession)
        catalogs = spark._jsparkSession.sessionState().catalogManager()
        self._catalog: Any = catalogs.catalog(CATALOG).icebergCatalog()
        bucket_endpoints.tell(spark, self._catalog)
        self._read_only = read_only
        self._vends = str(self._catalog.getClass().getName()) == _REST
        self._locks = is_hive(self._catalog)
        self._identifiers: dict[TableName, Any] = {}
        self._there: set[TableName] = set()
        if not read_only:
            _check_writable(self._catalog)

    def load(self, name: TableName) -> Table | None:
        """The table as the catalog has it now; None if there is none. What a killed committer locked is free again."""
        if not self._read_only and self._locks:
            release_abandoned(self._spark, self._catalog, name.namespace, name.table)
        identifier = self._identifier(name)
        # Of one that was there last time it is not asked first: some catalogs load it to answer.
        if name not in self._there and not self._catalog.tableExists(identifier):
            return None
        try:
            found = self._catalog.loadTable(identifier)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != _NO_TABLE:
                raise
            self._there.discard(name)
            return None
        self._there.add(name)
        return self._look(name, found)

    def create(
        self,
        name: TableName,
        warehouse: str,
        columns: Sequence[Column],
        metadata: Sequence[Column],
        partition_by: Sequence[Partition],
        properties: Mapping[str, str],
    ) -> Table:
        """Creates the table. Raises ValueError for a partition column that the table does not have, and what Iceberg
        raises if a twin was quicker: its table may have another key, and other columns."""
        self._create_namespace(name.namespace)
        defaults = int(properties.get(FORMAT_VERSION, OLDEST_FORMAT)) >= DEFAULTS_FORMAT
        schema = self._schema([*columns, *metadata], defaults=defaults)
        spec = self._partition_spec(name, schema, columns, partition_by)
        location = f"{warehouse.rstrip('/')}/{name.slug}"
        settings = java_class(self._spark, "java.util.HashMap")()
        positions = _WITH_POSITIONS if POSITION in {one.name for one in metadata} else {}
        for key, value in {**_PROPERTIES, **positions, **properties}.items():
            settings.put(key, value)
        return self._look(name, self._catalog.createTable(self._identifier(name), schema, spec, location, settings))

    def names(self, namespace: str) -> list[str]:
        """The tables of a namespace, sorted; none if there is none. Raises what the catalog raises."""
        levels = java_class(self._spark, f"{_ICEBERG}.catalog.Namespace").of(self._levels(namespace))
        if not self._catalog.namespaceExists(levels):
            return []
        return sorted(str(one.name()) for one in self._catalog.listTables(levels))

    def places(self, own: str, is_ours: Callable[[str], bool]) -> Iterator[Place]:
        """As locations.places says."""
        return places(self._spark, self._catalog, own, is_ours)

    def builder(self, table: Table) -> Any:
        """Iceberg's Catalog.TableBuilder for a table of the same name and columns."""
        return self._catalog.buildTable(self._identifier(table.name), table.java.schema())

    def evolve(self, table: Table, plan: ColumnPlan, metadata: Sequence[Column], relaxed: Sequence[str] = ()) -> Table:
        """Adds the plan's new columns (optional), widens, and makes the columns `relaxed` optional, in one commit, with
        the defaults that are due."""
        there = {field["name"] for field in table.state.fields}
        added = [column for column in (*plan.added, *metadata) if column.name not in there]
        # The branch of a rebuild may be of a table that is yet to be upgraded: its rows are all written.
        defaults = table.state.version >= DEFAULTS_FORMAT
        defaulted = plan.defaulted if defaults else ()
        if not (added or plan.widened or relaxed or defaulted):
            return table
        update = table.java.updateSchema()
        for column in added:
            # Without a parent a dot in the name is part of the name, not a path.
            told = [None, column.name, iceberg_type(self._spark, column.type)]
            if defaults and column.default is not None:
                told.append(default_literal(self._spark, column))
            update = update.addColumn(*told)
        was = {column.name: column.type for column in table.columns()[0]}
        for column in plan.widened:
            update = self._widen(update, column.name, column.type, storable(was[column.name]))
        for name in relaxed:
            update = update.makeColumnOptional(name)
        for column in defaulted:
            update = update.updateColumnDefault(column.name, default_literal(self._spark, column))
        update.commit()
        return self.look_again(table)

    def set_properties(self, table: Table, properties: Mapping[str, str | None]) -> Table:
        """Sets those that differ, and takes away those that are to be None, in one commit."""
        new = {name: value for name, value in properties.items() if table.state.properties.get(name) != value}
        if not new:
            return table
        set_all(table.java.updateProperties(), new)
        return self.look_again(table)

    def look_again(self, table: Table) -> Table:
        """The same table as it is now."""
        table.java.refresh()
        now = self._look(table.name, table.java)
        now.planned = table.planned
        return now

    def metadata(self, table: Table) -> str:
        """The table's metadata as JSON, as it was last loaded or committed."""
        return json_of(self._spark, table.java.operations().current())

    def _widen(self, update: Any, name: str, kind: Type, was: Type) -> Any:
        """Lists and structs are widened by their parts; a struct may get some."""
        if kind == was:
            return update
        if kind.element is not None and was.element is not None:
            return self._widen(update, f"{name}.element", kind.element, was.element)
        if kind.entry is not None and was.entry is not None:
            return self._widen(update, f"{name}.value", kind.entry[1], was.entry[1])
        if kind.fields:
            before = dict(was.fields)
            for part, inner in kind.fields:
                if part in before:
                    update = self._widen(update, f"{name}.{part}", inner, before[part])
                else:
                    update = update.addColumn(name, part, iceberg_type(self._spark, inner))
            return update
        return update.updateColumn(name, iceberg_type(self._spark, kind))

    def _look(self, name: TableName, java: Any) -> Table:
        state = KNOWN.state_of(self._spark, java)
        if self._vends:
            vended_keys.remember(java, str(name), state.location, state.properties)
        return Table(name, java, state)

    def _identifier(self, name: TableName) -> Any:
        known = self._identifiers.get(name)
        if known is None:
            parser = java_class(self._spark, f"{_ICEBERG}.catalog.TableIdentifierParser")
            namespace, table = name.identifier
            known = parser.fromJson(json.dumps({"namespace": [namespace], "name": table}))
            self._identifiers[name] = known
        return known

    def _levels(self, namespace: str) -> Any:
        gateway: Any = self._spark.sparkContext._gateway
        parts = gateway.new_array(java_class(self._spark, "java.lang.String"), 1)
        parts[0] = namespace
        return parts

    def _create_namespace(self, namespace: str) -> None:
        parts = self._levels(namespace)
        of = java_class(self._spark, f"{_ICEBERG}.catalog.Namespace").of(parts)
        if self._catalog.namespaceExists(of):
            return
        try:
            self._catalog.createNamespace(of)
        except Py4JJavaError:
            # A twin was quicker: the JDBC catalog then fails with its database's own words.
            if not self._catalog.namespaceExists(of):
                raise

    def _schema(self, columns: Sequence[Column], *, defaults: bool = False) -> Any:
        # Ids only have to differ here: the catalog assigns fresh ones. Parts take theirs from above the fields.
        parts = count(len(columns) + 1)
        fields = [
            {"id": place, "name": column.name, "required": column.required, "type": typed_json(column.type, parts)}
            | (defaults_json(column) if defaults else {})
            for place, column in enumerate(columns, start=1)
        ]
        parser = java_class(self._spark, f"{_ICEBERG}.SchemaParser")
        return parser.fromJson(json.dumps({"type": "struct", "schema-id": 0, "fields": fields}))

    def _partition_spec(
        self, name: TableName, schema: Any, columns: Sequence[Column], partition_by: Sequence[Partition]
    ) -> Any:
        spec = java_class(self._spark, f"{_ICEBERG}.PartitionSpec")
        if not partition_by:
            return spec.unpartitioned()
        builder = spec.builderFor(schema)
        there = {column.name for column in columns}
        for partition in partition_by:
            if partition.column not in there:
                raise ValueError(no_column(name, partition))
            apply = getattr(builder, partition.transform)
            builder = apply(partition.column) if partition.size is None else apply(partition.column, partition.size)
        return builder.build()


def default_literal(spark: SparkSession, column: Column) -> Any:
    """The default of a column, whose type has no parts, as an org.apache.iceberg.expressions.Literal."""
    told = default_json(column.type, column.default)
    if column.type.name in ("binary", "fixed"):
        told = bytes.fromhex(told)
    kind = iceberg_type(spark, column.type)
    return java_class(spark, f"{_ICEBERG}.expressions.Literal").of(told).to(kind)


def no_column(name: TableName, partition: Partition) -> str:
    """What is said of a partition column that the table does not have."""
    return (
        f"{name} is partitioned by {partition.column}, which no change and no declaration has named yet; "
        f"declare it under columns: in firn.yaml, or correct partition_by"
    )


def set_all(update: Any, properties: Mapping[str, str | None]) -> None:
    """Commits `update` (an org.apache.iceberg.UpdateProperties) with these properties; None takes one away."""
    for name, value in properties.items():
        update = update.remove(name) if value is None else update.set(name, value)
    update.commit()


def _check_writable(catalog: Any) -> None:
    """`catalog`: an org.apache.iceberg.catalog.Catalog. The properties of a REST one hold what its server says."""
    if catalog.getClass().getSimpleName() == "RESTCatalog" and is_read_only(dict(catalog.properties())):
        raise ConfigError(READ_ONLY)
