"""What DuckDB asks a table for, and that nothing else is read of it; and that the rows are the same."""

import itertools
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from duckdb._sources.nodes import Binary, Col, In, Lit, Postfix, Unary
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import AlwaysTrue, And, EqualTo, LessThan, Or
from pyiceberg.io.pyarrow import DataFileStatistics, parquet_file_to_data_file
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, Transform, TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import BooleanType, DecimalType, DoubleType, LongType, NestedField, StringType, StructType

from firn_lake.catalogs.catalog import open_catalog
from firn_lake.connection import connect
from firn_lake.reading import rows
from firn_lake.reading.versions import version_at
from firn_lake.sql.pushdown import columns_of, superset
from firn_lake.sql.query import query
from firn_lake.sql.table_scan import TableScan
from tests.soak import times

FILES = 100


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...]]]:
    """(path, columns) of each data file that is read."""
    seen: list[tuple[str, tuple[str, ...]]] = []
    read_file = rows.read_file

    def noting(source: Any, file: Any, schema: Schema, *more: Any, where: Any = None) -> Iterator[pa.RecordBatch]:
        seen.append((file.file_path, tuple(field.name for field in schema.fields)))
        return read_file(source, file, schema, *more, where=where)

    monkeypatch.setattr(rows, "read_file", noting)
    return seen


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    folder = tmp_path_factory.mktemp("lake")
    opened = open_catalog(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", {})
    opened.create_namespace("shop")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def hundred(catalog: Catalog) -> Table:
    """100 files of 10 rows: ids 0 to 999, one day each ten; amounts are id / 4, and names have the id's digits."""
    ids = range(FILES * 10)
    data = pa.table(
        {
            "id": ids,
            "name": [f"{n:04}" for n in ids],
            "amount": pa.array([Decimal(n) / 4 for n in ids], pa.decimal128(9, 2)),
            "ratio": [n / 8 for n in ids],
            "day": [date(1969, 12, 1) + timedelta(days=n // 10) for n in ids],
            "moment": pa.array(
                [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in ids], pa.timestamp("us", "UTC")
            ),
            "local": pa.array([datetime(1970, 1, 1) + timedelta(hours=n) for n in ids], pa.timestamp("us")),
            "late": pa.array([None if n < 990 else True for n in ids], pa.bool_()),
            "about": [{"id": n} for n in ids],
        }
    )
    a_row = data.nbytes // data.num_rows
    table = catalog.create_table(
        "shop.hundred", data.schema, properties={"write.target-file-size-bytes": str(a_row * 10 + 5)}
    )
    table.append(data)
    assert len(list(table.scan().plan_files())) == FILES
    return table


@pytest.fixture(scope="module")
def plain(hundred: Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the same rows in memory."""
    with duckdb.connect() as connection:
        connection.register("hundred", hundred.scan().to_arrow())
        yield connection


@pytest.mark.parametrize(
    ("where", "parameters", "files"),
    [
        ("id = 500", None, 1),
        ("id = ?", [500], 1),
        ("id = $key", {"key": "500"}, 1),  # text for a number is a number, as DuckDB says
        ("id IN (5, 6, 995)", None, 2),
        ("id BETWEEN 15 AND 34", None, 3),
        ("id < 20 OR id >= 980", None, 4),
        ("name = '0500'", None, 1),
        ("amount = 125.25", None, 1),
        ("ratio <= 1.0", None, 1),
        ("ratio > 124.0", None, FILES),  # NaN would be in it too, and no bounds tell of NaN
        ("day = DATE '1969-12-05'", None, 1),
        ("moment < '1970-01-01 10:00:00+00'", None, 1),
        ("moment < TIMESTAMPTZ '1970-01-01 12:00:00+02'", None, 1),
        ("local >= TIMESTAMP '1970-02-11 06:00:00'", None, 1),
        ("late IS NOT NULL", None, 1),
        ("late", None, FILES),
        ("id = 500 AND length(name) = 4", None, 1),
        ("about.id = 500", None, FILES),
        ("id % 1000 = 500", None, FILES),
    ],
)
def test_only_files_that_may_hold_such_rows_are_read(
    catalog: Catalog,
    plain: duckdb.DuckDBPyConnection,
    opened: list[Any],
    where: str,
    parameters: Any,
    files: int,
) -> None:
    found = query(catalog, f"SELECT id FROM shop.hundred WHERE {where}", parameters=parameters)
    assert len(opened) == files
    by_itself = plain.execute(f"SELECT id FROM hundred WHERE {where}", parameters).fetchall()
    assert sorted(found.column("id").to_pylist()) == sorted(one for (one,) in by_itself) != []


def test_each_use_of_a_table_reads_what_it_needs(catalog: Catalog, hundred: Table, opened: list[Any]) -> None:
    found = query(
        catalog,
        """WITH one AS (SELECT id, name FROM shop.hundred WHERE id = 500)
        SELECT one.name, count(later.id) AS n FROM one LEFT JOIN shop.hundred later ON later.id > 985 GROUP BY 1""",
    )
    assert found.to_pylist() == [{"name": "0500", "n": 14}]
    assert sorted(columns for _, columns in opened) == [("id",), ("id",), ("id", "name")]


def test_a_condition_of_an_outer_join_leaves_the_other_side_whole(catalog: Catalog, hundred: Table) -> None:
    sql = """SELECT count(*) AS n, count(b.id) AS found FROM shop.hundred a
    LEFT JOIN shop.hundred b ON a.id = b.id AND a.id < 10 WHERE b.id IS NULL OR b.id < 5"""
    assert query(catalog, sql).to_pylist() == [{"n": 995, "found": 5}]


def test_only_the_columns_that_are_used_are_read(catalog: Catalog, hundred: Table, opened: list[Any]) -> None:
    query(catalog, "SELECT max(name) FROM (SELECT * FROM shop.hundred) WHERE id = 7")
    query(catalog, "SELECT count(*) FROM shop.hundred WHERE id = 7")
    query(catalog, "SELECT name FROM (SELECT name, day FROM shop.hundred WHERE id = 7) hundred")
    assert [columns for _, columns in opened] == [("id", "name"), ("id",), ("id", "name")]


SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "s", StructType(NestedField(3, "x", LongType(), required=False)), required=False),
    NestedField(4, "dot.ted", LongType(), required=False),
    NestedField(5, "ratio", DoubleType(), required=False),
    NestedField(6, "price", DecimalType(9, 2), required=False),
    NestedField(7, "name", StringType(), required=False),
    NestedField(8, "on", BooleanType(), required=False),
)
ID, ONE = Col(("id",)), Lit(1, "BIGINT")


def test_what_is_certain_is_said_and_all_else_lets_everything_through() -> None:
    assert superset([], SCHEMA) == AlwaysTrue()
    assert superset([Binary("=", ID, ONE)], SCHEMA) == EqualTo("id", 1)
    assert superset([Binary("=", ID, ONE), Binary("<", Col(("name",)), Lit("b", "VARCHAR"))], SCHEMA) == And(
        EqualTo("id", 1), LessThan("name", "b")
    )
    either = Binary("OR", Binary("=", ID, ONE), Binary("<", Col(("ratio",)), Lit(1.0, "DOUBLE")))
    assert superset([either], SCHEMA) == Or(EqualTo("id", 1), LessThan("ratio", 1.0))
    assert superset([Binary("=", Col(("dot.ted",)), ONE)], SCHEMA) == EqualTo("dot.ted", 1)
    price = Binary("=", Col(("price",)), Lit(Decimal("5"), "DECIMAL(9,2)"))
    assert superset([price], SCHEMA) == EqualTo("price", Decimal("5.00"))


@pytest.mark.parametrize(
    "node",
    [
        Unary("NOT", Binary("=", ID, ONE)),
        Binary("!=", ID, ONE),
        Binary("=", Col(("s", "x")), ONE),
        Binary("=", Col(("s.x",)), ONE),
        Postfix("IS NULL", Col(("s",))),
        Binary("=", Col(("nowhere",)), ONE),
        Binary("=", ID, Lit("1", "VARCHAR")),
        Binary("=", Col(("name",)), ONE),
        Binary(">", Col(("ratio",)), Lit(1.0, "DOUBLE")),
        Binary("OR", Binary("=", ID, ONE), Binary("!=", ID, ONE)),
        In(ID, [ONE, Lit(None, "BIGINT")]),
        In(Col(("nowhere",)), [ONE]),
        Binary("=", Col(("price",)), Lit(Decimal(5), "DECIMAL(18,2)")),
        Lit(True, "BOOLEAN"),
    ],
    ids=lambda node: node.fragment(),
)
def test_a_predicate_that_iceberg_may_see_otherwise_chooses_no_files(node: Any) -> None:
    assert superset([node], SCHEMA) == AlwaysTrue()


def test_the_columns_of_predicates_are_top_level_ones() -> None:
    assert columns_of([Binary("AND", Binary("=", Col(("s", "x")), ONE), In(ID, [ONE]))]) == {"s", "id"}


# Random queries over a table of all kinds of values, in files that hold few of them each.
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "n": (pa.int64(), [None, -(2**63), -1, 0, 1, 2, 2**63 - 1]),
    "small": (pa.int32(), [None, -5, 0, 5]),
    "x": (pa.float64(), [None, float("nan"), float("-inf"), -1.5, -0.0, 0.0, 1.5, float("inf")]),
    "f": (pa.float32(), [None, float("nan"), -0.5, 0.0, 0.5]),
    "text": (pa.string(), [None, "", "a", "b", "ab" * 12 + "x", "ab" * 12 + "y", "é", "￿", "𐀀", "A"]),
    "price": (pa.decimal128(9, 2), [None, Decimal("-0.01"), Decimal("0.00"), Decimal("7.50")]),
    "day": (pa.date32(), [None, date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)]),
    "moment": (
        pa.timestamp("us", "UTC"),
        [
            None,
            *(
                datetime(*when, tzinfo=UTC)
                for when in ((1969, 12, 31, 23, 59, 59, 999_999), (1970, 1, 1), (2026, 1, 1))
            ),
        ],
    ),
    "local": (pa.timestamp("us"), [None, datetime(1969, 12, 31, 12), datetime(1970, 1, 1), datetime(2026, 1, 1, 1)]),
    "clock": (pa.time64("us"), [None, time(0), time(12, 30)]),
    "flag": (pa.bool_(), [None, True, False]),
    "raw": (pa.binary(), [None, b"", b"\x00", b"\xff"]),
}
SQL_TYPES = {
    "n": "BIGINT", "small": "INTEGER", "x": "DOUBLE", "f": "FLOAT", "text": "VARCHAR", "price": "DECIMAL(9,2)",
    "day": "DATE", "moment": "TIMESTAMPTZ", "local": "TIMESTAMP", "clock": "TIME", "flag": "BOOLEAN", "raw": "BLOB",
}  # fmt: skip


def _constant(column: str, value: Any) -> str:
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::BLOB"
    return f"CAST('{value}' AS {SQL_TYPES[column]})"


def _comparisons(column: str) -> st.SearchStrategy[str]:
    constants = [_constant(column, value) for value in VALUES[column][1] if value is not None]
    if column in ("n", "small", "x", "price"):
        constants += ["0.5", "1", "'1'", "1e30::DOUBLE"]  # of another kind than the column
    one, name = st.sampled_from(constants), f"{{t}}.{column}"
    return st.one_of(
        st.builds(
            f"{name} {{}} {{}}".format, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), one, t=st.just("{t}")
        ),
        st.builds(f"{{}} < {name}".format, one, t=st.just("{t}")),
        st.lists(one, min_size=1, max_size=3).map(lambda many: f"{name} IN ({', '.join(many)})"),
        st.builds(f"{name} BETWEEN {{}} AND {{}}".format, one, one, t=st.just("{t}")),
        st.sampled_from([f"{name} IS NULL", f"{name} IS NOT NULL", f"{name} IS NOT DISTINCT FROM NULL"]),
    )


CONDITIONS = st.recursive(
    st.sampled_from(sorted(VALUES)).flatmap(_comparisons),
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=4,
)
QUERIES = st.one_of(
    CONDITIONS.map(lambda one: f"SELECT t.id FROM t WHERE {one.replace('{t}', 't')}"),
    st.builds(
        lambda kind, on, where: (
            f"SELECT a.id, b.id FROM t a {kind} JOIN t b ON a.id = b.id AND {on.replace('{t}', 'b')} "
            f"WHERE {where.replace('{t}', 'a')}"
        ),
        st.sampled_from(["LEFT", "INNER", "FULL"]),
        CONDITIONS,
        CONDITIONS,
    ),
)


PARTITIONS: list[tuple[str, Transform[Any, Any]]] = [
    ("n", BucketTransform(3)),
    ("text", TruncateTransform(1)),
    ("moment", DayTransform()),
    ("text", BucketTransform(3)),
    ("flag", IdentityTransform()),
    ("price", TruncateTransform(100)),
]


def _append_partitioned(table: Table, row: pa.Table, number: int, by: tuple[str, Transform[Any, Any]]) -> None:
    """One row as a file of its own, with the table partitioned so from now on: PyIceberg writes no buckets."""
    name, transform = by
    with table.update_spec() as spec:
        for field in table.spec().fields:
            spec.remove_field(field.name)
        spec.add_field(name, transform, f"part_{number}")
    value = row.column(name)[0]
    plain = value.value if pa.types.is_timestamp(value.type) else value.as_py()
    part = transform.transform(table.schema().find_type(name))(plain)
    path = f"{table.location()}/data/{number}.parquet"
    with table.io.new_output(path).create() as opened:
        pq.write_table(row, opened)
    with pytest.MonkeyPatch.context() as patch, table.transaction() as change:
        patch.setattr(DataFileStatistics, "partition", lambda *_: Record(part))
        file = parquet_file_to_data_file(table.io, table.metadata, path)
        with change.update_snapshot().fast_append() as append:
            append.append_data_file(file)


@pytest.fixture(scope="module")
def two(catalog: Catalog) -> Iterator[tuple[duckdb.DuckDBPyConnection, ...]]:
    """Two connections with the same rows as `t`: through files of Iceberg, and as they are."""
    longest = max(len(values) for _, values in VALUES.values())
    places = range(longest)
    columns = {
        name: pa.array([values[n % len(values)] for n in places], kind) for name, (kind, values) in VALUES.items()
    }
    data = pa.table({"id": pa.array(places, pa.int64()), **columns})
    table = catalog.create_table("shop.t", data.schema)
    mapped = {"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()}
    with table.transaction() as change:
        change.set_properties(mapped)
    for number, by in zip(places, itertools.cycle(PARTITIONS), strict=False):
        _append_partitioned(table, data.slice(number, 1), number, by)
    with duckdb.connect() as lake, duckdb.connect() as plain:
        lake.register("t", TableScan(version_at(table, None)))
        plain.register("t", data)
        for connection in (lake, plain):
            connection.execute("SET TimeZone = 'UTC'")
        yield lake, plain


@settings(max_examples=times(30, 5_000, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sql=QUERIES)
def test_the_rows_are_those_that_duckdb_finds_by_itself(two: tuple[duckdb.DuckDBPyConnection, ...], sql: str) -> None:
    found, expected = (connection.sql(sql).fetchall() for connection in two)
    assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize(
    "where",
    ["part > 1", "part >= 2", "part < 3 and id > 1", "part <= 2 and id > 1", "part = 2", "part in (2, 9)", "part != 1"],
)
def test_a_partition_without_a_value_stands_in_no_filters_way(tmp_path: Path, where: str) -> None:
    catalog = open_catalog(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse", {})
    catalog.create_namespace("shop")
    data = pa.table({"id": [1, 2, 3], "part": [1, 2, None]})
    table = catalog.create_table("shop.parts", data.schema)
    with table.update_spec() as update:
        update.add_identity("part")
    table.append(data)
    assert connect(catalog).table("parts").read(["id"], filter=where).pylist() == [{"id": 2}]
    assert query(catalog, f"SELECT id FROM parts WHERE {where}").to_pylist() == [{"id": 2}]
    catalog.close()
