"""The tables of read_matrix.py: one of each type, in Iceberg's format 2 or 3, one of whose rows was deleted on read: by
a file of positions in format 2, by a deletion vector in format 3, both as Firn's commits write them."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg import types as t
from pyiceberg.schema import Schema

from firn.config.names import TableName
from firn_spark.files import values, write
from firn_spark.tables.evolve import FORMAT_VERSION, Table, Tables, set_all
from firn_spark.tables.java import java_class
from firn_spark.tables.removals import removal_of
from tests.integration.spark.read_matrix import ADDED, GONE, ONLY_3, WHOLE, values_of
from tests.integration.spark.spark_lake import Lake

_ICEBERG = "org.apache.iceberg"
_BEFORE = 2  # rows that were there before a column with a default


def make_tables(lake: Lake, form: int, kinds: Iterable[str]) -> dict[str, str]:
    """A table of each type in the namespace `matrix`, of columns `id` and `v`. -> the name of each, by type."""
    lake.catalog.create_namespace_if_not_exists("matrix")
    names = {}
    for number, kind in enumerate(kinds):
        iceberg, held = values_of(form)[kind]
        names[kind] = f"matrix.t{number}_{form}"
        if iceberg is None:
            _variants(lake, names[kind], held)
        else:
            _Maker(lake, names[kind], form).make(kind, iceberg, held)
    return names


class _Maker:
    """Makes one table. All but its first metadata is Iceberg's own Java's: PyIceberg 0.12 writes none of format 3."""

    def __init__(self, lake: Lake, name: str, form: int) -> None:
        self._spark, self._catalog = lake.spark, lake.catalog
        self._name, self._form = TableName.parse(name), form

    def make(self, kind: str, iceberg: t.IcebergType, held: Sequence[Any]) -> None:
        rows = [{"id": n, "v": value} for n, value in enumerate(held)]
        default = kind.partition(ADDED)[2]
        first = _BEFORE if default else len(rows)
        late = default or kind == "unknown"  # a column of nothing is in no file
        self._create([] if kind in ONLY_3 else [t.NestedField(2, "v", iceberg)])
        if kind in ONLY_3 and not late:
            self._add_column(iceberg)
        gone = [] if kind == WHOLE else [{"id": GONE, "v": held[0]}]
        path = self._append([*rows[:first], *gone])
        if gone:
            self._delete(path, first)
        if late:
            self._add_column(iceberg, default)
        if default:
            self._append(rows[first:])

    def _create(self, more: Sequence[t.NestedField]) -> None:
        self._catalog.create_table(self._name.identifier, Schema(t.NestedField(1, "id", t.LongType()), *more))
        if self._form > 2:
            set_all(self._loaded().java.updateProperties(), {FORMAT_VERSION: str(self._form)})

    def _loaded(self) -> Table:
        found = Tables(self._spark).load(self._name)
        assert found is not None
        return found

    def _add_column(self, iceberg: t.IcebergType, default: str = "") -> None:
        schema = Schema(t.NestedField(1, "v", iceberg)).model_dump_json()
        kind = java_class(self._spark, f"{_ICEBERG}.SchemaParser").fromJson(schema).findType("v")
        update = self._loaded().java.updateSchema()
        if not default:
            update.addColumn("v", kind).commit()
            return
        of = java_class(self._spark, f"{_ICEBERG}.expressions.Literal").of
        update.addColumn("v", kind, of(int(default)) if iceberg == t.IntegerType() else of(default).to(kind)).commit()

    def _append(self, rows: Sequence[dict[str, Any]]) -> str:
        """In one file. -> its path."""
        table = self._loaded()
        fields = [values.file_field(field) for field in table.state.fields]
        (file,) = write.write_arrays(self._spark, table, pa.Table.from_pylist(list(rows), pa.schema(fields)))
        table.java.newAppend().appendFile(file).commit()
        return str(file.location())

    def _delete(self, path: str, place: int) -> None:
        table = self._loaded()
        removal = removal_of(self._spark, table, {path: pa.array([place], pa.int64())})
        update = table.java.newRowDelta()
        for file in removal.added:
            update = update.addDeletes(file)
        update.commit()


def _variants(lake: Lake, name: str, held: Sequence[Any]) -> None:
    """By Spark, which alone writes variants."""
    said = "'format-version' = '3', 'write.delete.mode' = 'merge-on-read'"
    lake.spark.sql(f"CREATE TABLE firn.{name} (id BIGINT, v VARIANT) USING iceberg TBLPROPERTIES ({said})")
    texts = [*enumerate(held), (GONE, held[0])]
    rows = lake.spark.createDataFrame(texts, "id BIGINT, v STRING").coalesce(1)
    rows.selectExpr("id", "parse_json(v) AS v").writeTo(f"firn.{name}").append()
    lake.spark.sql(f"DELETE FROM firn.{name} WHERE id = {GONE}")
