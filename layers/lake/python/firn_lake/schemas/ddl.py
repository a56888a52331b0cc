"""A table as the SQL that would create another one like it, for Spark and for Trino: pure.

What the engine has no words for is said in comments before the statement: the created table differs there.
"""

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform, TruncateTransform
from pyiceberg.types import StructType

from firn.errors import TerminalError
from firn_lake.schemas.ddl_writer import Described, Writer, period

if TYPE_CHECKING:
    from pyiceberg.table import Table

_SPARK: Final = {
    "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP", "string": "STRING", "binary": "BINARY",
}  # fmt: skip
_TRINO: Final = {
    "boolean": "BOOLEAN", "int": "INTEGER", "long": "BIGINT", "float": "REAL", "double": "DOUBLE", "date": "DATE",
    "time": "TIME(6)", "timestamp": "TIMESTAMP(6)", "timestamptz": "TIMESTAMP(6) WITH TIME ZONE", "string": "VARCHAR",
    "binary": "VARBINARY", "uuid": "UUID",
}  # fmt: skip


class NoSuchDialect(TerminalError):
    """There is no SQL of that name here."""


def described(table: "Table") -> Described:
    """What the SQL of a table needs to know of it."""
    metadata = table.metadata
    name = tuple(table.name())
    return Described(
        name, table.schema(), table.spec(), table.sort_order(), metadata.properties, metadata.format_version
    )


def statements(table: Described, dialect: str = "spark", *, metadata: bool = False) -> list[str]:
    """The statements that create such a table, the first of them CREATE TABLE. Raises NoSuchDialect, NotInDialect.

    metadata  with Firn's own `_firn_…` columns

    Spark gets what CREATE TABLE can't say (sort order, identifier fields) by ALTER TABLE statements of Iceberg's SQL
    extensions.
    """
    return writer(table, dialect, metadata=metadata).statements()


def writer(table: Described, dialect: str, *, metadata: bool = True) -> "_Spark | _Trino":
    """What writes the words of a dialect. Raises NoSuchDialect."""
    if dialect == "spark":
        return _Spark(table, metadata)
    if dialect == "trino":
        return _Trino(table, metadata)
    raise NoSuchDialect(f"no dialect {dialect!r}: write spark or trino")


class _Spark(Writer):
    dialect = "spark"
    types = _SPARK

    def statements(self) -> list[str]:
        parts = [f"CREATE TABLE {self.name} {self.columns()}", "USING iceberg"]
        if partitions := [self._transform(how, path) for how, path in self.partitions()]:
            parts.append(f"PARTITIONED BY ({', '.join(partitions)})")
        if comment := self.table.properties.get("comment"):
            parts.append(f"COMMENT {self.text(comment)}")
        properties = {"format-version": str(self.table.format_version), **self.kept_properties()}
        pairs = (f"  {self.text(name)} = {self.text(value)}" for name, value in properties.items())
        parts.append("TBLPROPERTIES (\n" + ",\n".join(pairs) + "\n)")
        found = [self.noted("\n".join(parts))]
        if order := list(self.sorted_by(self._transform)):
            found.append(f"ALTER TABLE {self.name} WRITE ORDERED BY {', '.join(order)}")
        if self.table.schema.identifier_field_ids:
            keys = (self._column(self.path(one)) for one in sorted(self.table.schema.identifier_field_ids))
            found.append(f"ALTER TABLE {self.name} SET IDENTIFIER FIELDS {', '.join(keys)}")
        return found

    def struct(self, kind: StructType, path: str) -> str:
        fields = []
        for one in kind.fields:
            comment = f" COMMENT {self.text(one.doc)}" if one.doc else ""
            inner = self.type(one.field_type, f"{path}.{one.name}")
            fields.append(f"{self.quoted(one.name)}: {inner}{' NOT NULL' * one.required}{comment}")
        return f"STRUCT<{', '.join(fields)}>"

    def array(self, element: str) -> str:
        return f"ARRAY<{element}>"

    def mapping(self, key: str, value: str) -> str:
        return f"MAP<{key}, {value}>"

    def _transform(self, how: Transform[Any, Any], path: list[str]) -> str:
        column = self._column(path)
        if isinstance(how, BucketTransform):
            return f"bucket({how.num_buckets}, {column})"
        if isinstance(how, TruncateTransform):
            return f"truncate({how.width}, {column})"
        return column if isinstance(how, IdentityTransform) else f"{period(how)}s({column})"

    def _column(self, path: list[str]) -> str:
        return ".".join(map(self.quoted, path))


class _Trino(Writer):
    dialect = "trino"
    types = _TRINO

    def statements(self) -> list[str]:
        settings = ["format = 'PARQUET'", f"format_version = {self.table.format_version}"]
        if partitions := [self.text(self._transform(how, path)) for how, path in self.partitions()]:
            settings.append(f"partitioning = ARRAY[{', '.join(partitions)}]")
        if order := [self.text(one) for one in self.sorted_by(self._transform)]:
            settings.append(f"sorted_by = ARRAY[{', '.join(order)}]")
        create = f"CREATE TABLE {self.name} {self.columns()}"
        if comment := self.table.properties.get("comment"):
            create += f"\nCOMMENT {self.text(comment)}"
        if self.table.schema.identifier_field_ids:
            keys = (".".join(self.path(one)) for one in sorted(self.table.schema.identifier_field_ids))
            self.notes.append(f"the identifier fields are {', '.join(keys)}, which trino can't say")
        self.notes += [f"without the property {one}, which trino can't set" for one in self.kept_properties()]
        for one in self.fields:
            if one.name != one.name.lower():
                self.notes.append(f"{one.name} will be called {one.name.lower()}: trino's names are lower case")
        return [self.noted(f"{create}\nWITH (\n  " + ",\n  ".join(settings) + "\n)")]

    def struct(self, kind: StructType, path: str) -> str:
        for one in kind.fields:
            self.note_required(one.required, f"{path}.{one.name}")
            if one.doc:
                self.notes.append(f"{path}.{one.name}: {one.doc}")
        fields = (f"{self.quoted(one.name)} {self.type(one.field_type, f'{path}.{one.name}')}" for one in kind.fields)
        return f"ROW({', '.join(fields)})"

    def array(self, element: str) -> str:
        return f"ARRAY({element})"

    def mapping(self, key: str, value: str) -> str:
        return f"MAP({key}, {value})"

    def _transform(self, how: Transform[Any, Any], path: list[str]) -> str:
        # A nested field is one name with dots in it, in quotes as every name that is not plain.
        name = ".".join(path)
        column = name if name.isidentifier() and name == name.lower() and name.isascii() else self.quoted(name)
        if isinstance(how, BucketTransform):
            return f"bucket({column}, {how.num_buckets})"
        if isinstance(how, TruncateTransform):
            return f"truncate({column}, {how.width})"
        return column if isinstance(how, IdentityTransform) else f"{period(how)}({column})"
