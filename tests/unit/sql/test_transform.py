"""What a pipeline's SQL makes of rows: types, places, failing rows, and what does not bind."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from firn.changes.decode.types import Column, parse
from firn.config.sql_text import SqlRefused
from firn_sql.check import check
from firn_sql.output_columns import columns_of, fitted
from firn_sql.source_types import arrow_type
from firn_sql.transform import NOW, Result, Transform

CLICKS = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "ts": pa.timestamp("us", "UTC"),
        "items": pa.list_(pa.struct({"sku": pa.string(), "n": pa.int64()})),
        "price": pa.decimal128(12, 2),
    }
)


def run(sql: str, *rows: dict[str, Any], schema: pa.Schema = CLICKS) -> Result:
    return Transform(check(sql), schema).run(pa.Table.from_pylist(list(rows), schema))


def kinds(sql: str) -> list[str]:
    return [str(kind) for kind in Transform(check(sql), CLICKS).schema.types]


def test_each_row_knows_the_row_that_it_is_of() -> None:
    sql = "INSERT INTO web.items SELECT id, UNNEST(items) AS item FROM clicks WHERE id <> 2"
    one, two = {"sku": "a", "n": 1}, {"sku": "b", "n": 2}
    found = run(
        sql, *({"id": id_, "items": items} for id_, items in enumerate([[one, two], [], [one], [two], None, [one]]))
    )
    assert found.rows.to_pylist() == [
        {"id": 0, "item": one},
        {"id": 0, "item": two},
        {"id": 3, "item": two},
        {"id": 5, "item": one},
    ]
    assert (found.origin.to_pylist(), found.number.to_pylist()) == ([0, 0, 3, 5], [0, 1, 0, 0])
    assert (found.origin.type, found.number.type) == (pa.int64(), pa.int32())


def test_the_hidden_number_goes_through_with_tables_and_subqueries() -> None:
    sql = """
        WITH w AS (SELECT *, lower(name) AS low FROM clicks WHERE id % 2 = 1), v AS MATERIALIZED (SELECT low, id FROM w)
        SELECT x.low AS name FROM (SELECT * FROM v) AS x WHERE x.id > 1
    """
    found = run(sql, *({"id": id_, "name": f"N{id_}"} for id_ in range(6)))
    assert (found.rows.to_pylist(), found.origin.to_pylist()) == ([{"name": "n3"}, {"name": "n5"}], [3, 5])


def test_nanoseconds_go_through_to_the_last_one() -> None:
    fine = pa.schema({"id": pa.int64(), "at": pa.timestamp("ns"), "zoned": pa.timestamp("ns", "UTC")})
    numbers = [-(2**63) + 2, -1, None, 1_700_000_000_123_456_789, 2**63 - 2]
    moments = [pa.array(numbers, kind) for kind in (fine.field("at").type, fine.field("zoned").type)]
    rows = pa.table([pa.array(range(5)), *moments], schema=fine)
    found = Transform(check("SELECT *, [zoned] AS l, {'a': \"at\"} AS s FROM t"), fine).run(rows).rows
    assert [str(kind) for kind in found.schema.types[1:3]] == ["timestamp[ns]", "timestamp[ns, tz=UTC]"]
    assert [found[name].cast(pa.int64()).to_pylist() for name in ("at", "zoned")] == [numbers, numbers]
    assert found["l"].cast(pa.list_(pa.int64())).to_pylist() == [[one] for one in numbers]
    assert [str(one.type) for one in columns_of("p", Transform(check("SELECT * FROM t"), fine))][1:] == [
        "timestamp_ns", "timestamptz_ns"
    ]  # fmt: skip


def test_now_is_the_acceptance_of_the_row() -> None:
    times = pa.array([dt.datetime(2025, 1, day, tzinfo=dt.UTC) for day in (1, 2)], pa.timestamp("us", "UTC"))
    rows = pa.Table.from_pylist([{"id": 1, "ts": None}, {"id": 2, "ts": times[0].as_py()}], CLICKS).append_column(
        NOW, times
    )
    transform = Transform(check("SELECT COALESCE(ts, NOW()) AS ts, current_timestamp AS n FROM clicks"), CLICKS)
    assert transform.run(rows).rows.to_pydict() == {"ts": [times[0].as_py()] * 2, "n": times.to_pylist()}
    with pytest.raises(ValueError, match="the rows have no column _firn_now"):
        transform.run(rows.drop_columns([NOW]))


def test_rows_that_fail_are_told_apart_and_all_others_go_on() -> None:
    rows = [{"id": id_, "name": name} for id_, name in enumerate(["1", "x", "3", None, "", "6"])]
    found = run("SELECT id, CAST(name AS INTEGER) AS n FROM clicks", *rows)
    assert found.rows.to_pylist() == [{"id": 0, "n": 1}, {"id": 2, "n": 3}, {"id": 3, "n": None}, {"id": 5, "n": 6}]
    assert found.origin.to_pylist() == [0, 2, 3, 5]
    assert set(found.failed) == {1, 4}
    assert "Could not convert string 'x' to INT32" in found.failed[1]


def test_rows_that_fail_in_a_query_of_several_selects_are_told_apart_too() -> None:
    rows = [{"id": id_, "name": name} for id_, name in enumerate(["1", "x", "3", None, "", "6"])]
    found = run("SELECT id, CAST(name AS INTEGER) AS n FROM (SELECT * FROM clicks WHERE id < 9 OR id > 10)", *rows)
    assert found.rows.column("id").to_pylist() == [0, 2, 3, 5]
    assert set(found.failed) == {1, 4}


@pytest.mark.parametrize(
    "expression", ["9223372036854775807 + id", "CAST(300 * id AS TINYINT)", "CAST(id || 'x' AS UUID)"]
)
def test_other_errors_of_a_row_are_its_own_too(expression: str) -> None:
    found = run(f"SELECT id, {expression} AS x FROM clicks", {"id": 1}, {"id": None})
    assert (set(found.failed), found.rows.num_rows) == ({0}, 1)


def test_a_batch_in_which_every_row_fails_gives_nothing_but_reasons() -> None:
    found = run("SELECT CAST(name AS INTEGER) AS n FROM clicks", *[{"name": f"no {n}"} for n in range(40)])
    assert (len(found.failed), found.rows.num_rows) == (40, 0)


@pytest.mark.parametrize(
    "sql", ["SELECT id, {} AS n FROM clicks", "SELECT id, n FROM (SELECT id, {} AS n FROM clicks) k"]
)
def test_a_row_far_behind_in_its_batch_fails_for_itself_too(sql: str) -> None:
    rows = [{"id": n, "name": "no" if n in (3_000, 4_999) else "1"} for n in range(5_000)]
    found = run(sql.format("CAST(name AS INTEGER)"), *rows)
    assert (sorted(found.failed), found.rows.num_rows) == ([3_000, 4_999], 4_998)
    assert all("Could not convert string 'no' to INT32" in why for why in found.failed.values())


def test_no_rows_give_no_rows() -> None:
    found = run("SELECT id, UNNEST(items) AS item FROM clicks")
    assert (found.rows.num_rows, found.origin.to_pylist(), found.number.to_pylist(), found.failed) == (0, [], [], {})
    assert found.rows.schema.names == ["id", "item"]


def test_a_row_that_gives_too_much_is_one_that_fails() -> None:
    inner = "(SELECT id, l, UNNEST(l) AS y FROM (SELECT id, l, UNNEST(l) AS z FROM c) AS a)"
    sql = f"SELECT id, UNNEST(l) AS x FROM {inner} AS b"
    schema = pa.schema({"id": pa.int64(), "l": pa.list_(pa.int64())})
    found = run(sql, {"id": 1, "l": list(range(200))}, {"id": 2, "l": [1, 2]}, schema=schema)
    assert found.failed == {0: "it gives more than 1,000,000 rows or 128,000,000 bytes"}
    assert found.rows.num_rows == 8


def test_memory_is_bounded() -> None:
    doubled = ", ".join(["name || name AS n0", *(f"n{n} || n{n} AS n{n + 1}" for n in range(8))])
    sql = f"SELECT id, length(n8) AS l FROM (SELECT id, {doubled} FROM clicks) AS a"
    transform = Transform(check(sql), CLICKS, memory=100_000_000)
    found = transform.run(pa.Table.from_pylist([{"id": 1, "name": "x" * 1_000_000}, {"id": 2, "name": "y"}], CLICKS))
    assert (set(found.failed), found.rows.to_pylist()) == ({0}, [{"id": 2, "l": 512}])


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("CAST(id AS TINYINT)", "int32"),
        ("CAST(id AS SMALLINT)", "int32"),
        ("CAST(id AS INTEGER)", "int32"),
        ("id", "int64"),
        ("CAST(id AS UINTEGER)", "int64"),
        ("CAST(id AS UBIGINT)", "decimal128(20, 0)"),
        ("price", "decimal128(12, 2)"),
        ("CAST(id AS FLOAT)", "float"),
        ("id / 2", "double"),
        ("id > 1", "bool"),
        ("name", "string"),
        ("encode(name)", "binary"),
        ("CAST(ts AS DATE)", "date32[day]"),
        ("ts", "timestamp[us, tz=UTC]"),
        ("CAST(ts AS TIMESTAMP)", "timestamp[us]"),
        ("CAST(ts AS TIMESTAMP_MS)", "timestamp[us]"),
        ("CAST(ts AS TIMESTAMP_NS)", "timestamp[ns]"),
        ("CAST(ts AS TIMESTAMPTZ_NS)", "timestamp[ns, tz=UTC]"),
        ("CAST(name AS UUID)", "string"),
        ("CAST(name AS JSON)", "string"),
        ("NULL", "string"),
        ("[id, 1]", "list<item: int64>"),
        ("items", "list<item: struct<sku: string, n: int64>>"),
        ("{'a': CAST(id AS TINYINT), 'b': [name]}", "struct<a: int32, b: list<item: string>>"),
        ("MAP {name: CAST(id AS TINYINT)}", "map<string, int32>"),
        (
            "MAP {CAST(ts AS DATE): [{'a': MAP {id: NULL}}]}",
            "map<date32[day], list<item: struct<a: map<int64, string>>>>",
        ),
        ("MAP {}", "map<string, string>"),
    ],
)
def test_output_has_types_that_tables_have(expression: str, kind: str) -> None:
    assert kinds(f"SELECT {expression} AS x FROM clicks") == [kind]


@pytest.mark.parametrize(
    ("select", "told"),
    [
        (
            "CAST(id AS HUGEINT) AS x",
            'the column "x" has the type HUGEINT, which tables do not have; write CAST(… AS BIGINT)',
        ),
        ("INTERVAL 1 DAY AS x", "write CAST(… AS VARCHAR), or epoch(…)"),
        ("CAST(ts AS TIME) AS x", "write CAST(… AS VARCHAR)"),
        (
            "map {price / 2: id} AS x",
            'the column "x" has a map whose keys are DOUBLE, which tables do not have; '
            "write map_entries(…), or to_json(…)",
        ),
        ("[map {[id]: id}] AS x", "has a map whose keys are BIGINT[], which tables do not have"),
        ("map {'a': CAST(ts AS TIME)} AS x", "write CAST(… AS VARCHAR)"),
        ("row(1, 2) AS x", "is a struct whose fields have no names"),
        ("nam AS x", 'Referenced column "nam" not found'),
        ("name + 1 AS x", "Binder Error"),
        ("id AS x, name AS X", "it gives two columns 'x' and 'X'; write AS another name"),
        ("*, id AS ID", "it gives two columns"),
        ("id AS _pos", "a column can't be called '_pos'"),
        ("* EXCLUDE (id, name, ts, items, price)", "gives no columns"),
        ("list_transform(items, lambda x, i, j: x) AS y", "Error"),
    ],
)
def test_what_gives_no_table_is_refused_with_what_to_write(select: str, told: str) -> None:
    with pytest.raises(SqlRefused) as raised:
        Transform(check(f"SELECT {select} FROM clicks"), CLICKS)
    assert told in str(raised.value)


def test_columns_that_differ_by_case_alone_are_refused_where_they_are_used() -> None:
    schema = pa.schema({"id": pa.int64(), "Name": pa.string(), "name": pa.string()})
    for sql in ("SELECT * FROM clicks", "SELECT upper(NAME) AS n FROM clicks"):
        with pytest.raises(SqlRefused, match="the source has the columns Name and name, and SQL can't tell them apart"):
            Transform(check(sql), schema)
    assert run("SELECT ID AS key FROM clicks", {"id": 7}, schema=schema).rows.to_pylist() == [{"key": 7}]


def test_firns_own_columns_are_not_seen() -> None:
    schema = pa.schema({"id": pa.int64(), "_firn_pos": pa.binary()})
    assert run("SELECT * FROM clicks", {"id": 1, "_firn_pos": b"x"}, schema=schema).rows.to_pylist() == [{"id": 1}]


def test_values_pass_through_as_they_are() -> None:
    row = {
        "id": 2**63 - 1, "name": "\N{LATIN SMALL LETTER E WITH ACUTE}\0x", "ts": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        "items": [None, {"sku": None, "n": -1}], "price": Decimal("-9999999999.99"),
    }  # fmt: skip
    assert run("SELECT * FROM clicks", row, {}).rows.to_pylist() == [row, dict.fromkeys(CLICKS.names)]


def test_nothing_outside_can_be_reached() -> None:
    transform = Transform(check("SELECT id FROM clicks"), CLICKS)
    for sql in (
        "SET threads = 8",
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY (SELECT 1) TO '/tmp/x'",
        "INSTALL httpfs",
    ):
        with pytest.raises(Exception, match=r"(?i)lock|disabled|permission"):
            transform._connection.execute(sql)


def test_conditions_run_as_they_are_written() -> None:
    rows = [{"id": 1, "name": "no JSON"}, {"id": 2, "name": '{"a": 1}'}]
    json_first = run("SELECT id FROM clicks WHERE name->>'$.a' = '1' AND id = 2", *rows)
    id_first = run("SELECT id FROM clicks WHERE id = 2 AND name->>'$.a' = '1'", *rows)
    inside = run("SELECT id FROM (SELECT id, name->>'$.a' AS a FROM clicks WHERE id = 2) AS c WHERE a = '1'", *rows)
    assert [set(found.failed) for found in (json_first, id_first, inside)] == [{0}, set(), set()]
    assert [found.origin.to_pylist() for found in (json_first, id_first, inside)] == [[1], [1], [1]]


@pytest.mark.parametrize(
    ("where", "last"),
    [
        ("id >= 0 AND name <> 'x'", "the column n fails, as in 20 rows before it in its batch"),
        ("id >= 0 OR name::INT > 3", "Conversion Error: Could not convert string 'no 59' to INT32"),
    ],
)
def test_of_many_rows_that_fail_the_first_say_why(where: str, last: str) -> None:
    sql = f"SELECT id, CAST(name AS INTEGER) AS n FROM clicks WHERE {where}"
    found = run(sql, *[{"id": n, "name": f"no {n}" if n % 3 else str(n)} for n in range(60)])
    assert set(found.failed) == {n for n in range(60) if n % 3}
    assert "Could not convert string 'no 1' to INT32" in found.failed[1]
    assert last in found.failed[59]
    assert found.rows.to_pylist() == [{"id": n, "n": n} for n in range(0, 60, 3)]
    assert found.origin.to_pylist() == list(range(0, 60, 3))


def test_what_a_condition_keeps_out_is_no_failure_among_many() -> None:
    rows = [{"id": n % 2, "name": "x"} for n in range(60)]
    either = run("SELECT id FROM clicks WHERE id = 0 OR CAST(name AS INTEGER) > 3", *rows)
    both = run("SELECT id FROM clicks WHERE id = 1 AND CAST(name AS INTEGER) > 3", *rows)
    assert [set(found.failed) for found in (either, both)] == [set(range(1, 60, 2))] * 2
    assert (either.rows.num_rows, both.rows.num_rows) == (30, 0)


@pytest.mark.parametrize(
    ("kind", "values", "bad"),
    [
        ("fixed[3]", [b"abc", None, b"ab", b""], [2, 3]),
        ("list<fixed[2]>", [[b"ab", None], [b"ab", b"abc"], None, []], [1]),
        ("map<string, struct<a: fixed[1]>>", [[("k", {"a": b"x"})], [("k", None)], [("k", {"a": b"xy"})]], [2]),
        ("map<fixed[2], long>", [[(b"ab", 1)], [(b"a", 1)]], [1]),
        ("binary", [b"abc", b"ab"], []),
    ],
)
def test_bytes_of_another_length_do_not_fit_the_table(kind: str, values: list[object], bad: list[int]) -> None:
    column = Column("x", parse(kind))
    rows = pa.table({"x": pa.array(values, arrow_type(column.type))})
    found, unfit = fitted(rows, [column])
    assert sorted(unfit) == bad
    assert all(f"x does not fit the table's type {kind}" == why for why in unfit.values())
    assert found[0].type == arrow_type(column.type)
