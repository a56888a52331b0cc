"""What a refresh asks of tables, over files that are looked up by their values alone."""

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from firn.changes.decode.types import DATE, DOUBLE, INT, LONG, STRING, TIMESTAMP, TIMESTAMPTZ, UUID, Column, Type
from firn.config.names import TableName
from firn_spark.files import values as values_of_files
from firn_spark.pipelines import base_rows
from firn_spark.tables.columns import arrow_type
from firn_spark.views.row_changes import RowChanges
from firn_spark.views.tables_at import TableAt, TablesAt
from firn_sql.views.algebra import Scan, operators
from firn_sql.views.clock import NEVER, Moments
from firn_sql.views.planner import plan
from firn_sql.views.refresh import AFTER, BEFORE, Refresh
from firn_sql.views.source_tables import source_table
from firn_sql.views.stored import stored
from firn_sql.views.sums import with_sums
from firn_sql.views.view_connection import connected
from firn_sql.views.view_delta import differing
from tests.soak import few_cases

ONE = "0193b9a2-7c1e-7000-8000-000000000001"
Rows = Sequence[tuple[Any, ...]]
Given = Mapping[str, tuple[Mapping[str, Type], Rows, Rows]]
"""Of each table its columns, of which the first is its key, and its rows before and now."""


class Looked:
    """A table whose rows are looked up as files are: by equal values of its columns."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What was looked up by."""
    asked: list[tuple[str, ...]] = []

    def rows_with(
        _: Any, table: Looked, wanted: Any, columns: Sequence[Column], *, where: bool = False, **_held: object
    ) -> Any:
        found = table.rows
        assert wanted.values  # in the types that files are searched by
        asked.append(tuple(one.name for one in wanted.key))
        if where:
            places = pa.array(range(len(found)), pa.int64())
            paths = pa.DictionaryArray.from_arrays(pa.array([0] * len(found), pa.int32()), pa.array(["f"]))
            found = found.append_column(base_rows.FILE, paths).append_column(base_rows.ROW, places)
        for one, some in zip(wanted.key, wanted.some, strict=True):
            found = found.filter(pc.is_in(found[one.name], value_set=some))
        return [found]

    def every_row(
        _: Any, table: Looked, columns: Sequence[Column], snapshot: int | None = None, between: Any = None
    ) -> Iterator[pa.Table]:
        asked.append(("*",) if between is None else (between[0].name, "between"))
        rows = table.rows
        if between is not None:  # as narrowly as bounds of files could tell it
            column, low, high = between
            values = rows[column.name].cast(values_of_files.key_type(column.type))
            rows = rows.filter(pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high)))
        yield rows

    monkeypatch.setattr(base_rows, "rows_with", rows_with)
    monkeypatch.setattr(base_rows, "every_row", every_row)
    return asked


def table_of(columns: Mapping[str, Type], rows: Rows) -> pa.Table:
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    kinds = [arrow_type(one) for one in columns.values()]
    return pa.table([pa.array(some, kind) for some, kind in zip(values, kinds, strict=True)], names=list(columns))


def refreshed(sql: str, given: Given, moments: Moments = NEVER) -> tuple[list[Any], list[Any]]:
    """The rows of a view (all that is stored, as texts) by what changed, and made again."""
    with connected() as connection:
        tables = {name: source_table([Column(*one) for one in of[0].items()], [next(iter(of[0]))])
                  for name, of in given.items()}  # fmt: skip
        found, _ = with_sums(plan(sql, tables), tables, connection)
        how = stored("lake.v", found, tables, connection)
        needed: dict[str, set[str]] = {name: set() for name in tables}
        for one in operators(found.root):
            if isinstance(one, Scan):
                needed[one.source].update(one.names[each] for each in one.every)

        tables_at: list[TablesAt] = []

        def at(
            one: Any, cut: int, changed: Mapping[str, RowChanges] | None = None, view: Any = None,
            now: Moments = moments,
        ) -> Refresh:  # fmt: skip
            there = {
                name: TableAt(
                    TableName("s", name), cast("Any", Looked(table_of(of[0], of[1] if cut == BEFORE else of[2]))),
                    tuple(Column(*each) for each in of[0].items()), (next(iter(of[0])),), 1,
                )
                for name, of in given.items()
            }  # fmt: skip
            tables_at.append(TablesAt(cast("Any", None), one, there, needed, changed, view, how))
            return Refresh(one, found, tables_at[-1], now)

        def whole(cut: int) -> pa.Table:
            with connected() as own:
                now = (moments[cut],) * 2
                return own.sql(how.rows(at(own, cut, now=now).whole(AFTER))).to_arrow_table()

        before = whole(BEFORE)
        changed = {
            name: RowChanges([table_of(of[0], of[1])], [table_of(of[0], of[2])])
            for name, of in given.items() if of[1] != of[2]
        }  # fmt: skip
        delta = at(connection, AFTER, changed, Looked(before)).delta()
        rows = before
        if delta is not None:
            ids = connection.sql(f"SELECT {how.identity(how.ids)} AS id FROM {delta.gone}").to_arrow_table()["id"]
            places = pc.is_in(rows["_firn_id"], value_set=ids.combine_chunks())
            assert pc.sum(places).as_py() in (len(ids), None if not len(ids) else -1)
            own = tables_at[-1]
            gone = own.places_of(cast("Any", Looked(before)), own.who(f"SELECT {{}} FROM {delta.gone}", how.ids))
            there = sorted(place for some in gone.values() for place in some.to_pylist())
            assert there == pc.indices_nonzero(places).to_pylist()
            rows = rows.filter(pc.invert(places))
            rows = pa.concat_tables([rows, connection.sql(how.rows(f"SELECT * FROM {delta.come}")).to_arrow_table()])
        by_whole = before
        with connected() as its:
            whole_way = at(its, AFTER, {}, Looked(before))
            other = differing(how, whole_way, tables_at[-1].view_rows(), its)
            if other is not None:
                who = tables_at[-1].who(*other.gone)
                places = tables_at[-1].places_of(cast("Any", Looked(before)), who)
                gone_rows = {place for some in places.values() for place in some.to_pylist()}
                assert len(gone_rows) == len(who)
                by_whole = before.filter(pa.array([place not in gone_rows for place in range(len(before))], pa.bool_()))
                by_whole = pa.concat_tables([by_whole, its.sql(other.come).to_arrow_table().cast(before.schema)])
        assert _texts(by_whole) == _texts(rows), "the whole query changes the same rows"
        return _texts(rows), _texts(whole(AFTER))


def _texts(rows: pa.Table) -> list[str]:
    return sorted(repr(row).replace("-0.0", "0.0") for row in rows.to_pylist())


def check(sql: str, given: Given, moments: Moments = NEVER) -> None:
    by_change, again = refreshed(sql, given, moments)
    assert by_change == again


def test_a_table_may_have_columns_of_the_names_that_conditions_have() -> None:
    t = {"w1": INT, "w0": INT, "a": INT}
    check(
        "SELECT t.w1, t.w0, u.c FROM t JOIN u ON t.a = u.id",
        {"t": (t, [(1, 5, 7), (2, 6, 8)], [(1, 5, 7), (2, 6, 9), (3, 8, 7)]),
         "u": ({"id": INT, "c": STRING}, [(7, "p"), (8, "q")], [(7, "r"), (9, "s")])},
    )  # fmt: skip


@few_cases(6)
@pytest.mark.parametrize(
    ("sql", "by"),
    [
        ("SELECT id, a FROM t", ("id",)),
        ("SELECT a AS x, id AS y, b FROM t WHERE a > 0", ("y",)),
        ("SELECT a, b FROM t", ("_firn_id",)),
        ("SELECT id + 1 AS id, b FROM t", ("_firn_id",)),
        ("SELECT b, count(*) AS n FROM t GROUP BY b", ("_firn_id",)),
        ("SELECT a, count(*) AS n FROM t GROUP BY a", ("a",)),
        ("SELECT count(*) AS n, a AS of FROM t GROUP BY a", ("of",)),
        ("SELECT a, b, count(*) AS n FROM t GROUP BY a, b", ("a", "_firn_id")),
        ("SELECT t.id, u.c FROM t JOIN u ON t.a = u.id", ("id",)),
        ("SELECT u.id AS other, t.b FROM t JOIN u ON t.a = u.id", ("other", "_firn_id")),
        ("SELECT u.id FROM t RIGHT JOIN u ON t.a = u.id", ("id", "_firn_id")),
        ("SELECT t.id FROM t JOIN u ON t.a = u.id WHERE u.id < 8", ("id",)),
    ],
)
def test_rows_of_a_view_are_looked_up_by_what_it_shows_of_their_keys(
    sql: str, by: tuple[str, ...], files: list[tuple[str, ...]]
) -> None:
    rows = [(n, n % 3, "b" * (n % 2)) for n in range(9)]
    u = {"id": INT, "c": STRING}, [(0, "p"), (1, "q"), (7, "r")], [(0, "p"), (1, "s"), (8, "r")]
    t = {"id": INT, "a": INT, "b": STRING}, rows, [*rows[2:], (20, 1, "c")]
    check(sql, {name: each for name, each in (("t", t), ("u", u)) if f" {name}" in sql})
    assert by in files
    assert by == ("_firn_id",) or ("_firn_id",) not in files


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, count(*) AS n, sum(id) AS s FROM t GROUP BY a",
        "SELECT t.id, u.c FROM t FULL JOIN u ON t.a = u.id",
        "SELECT u.id FROM t LEFT JOIN u ON t.a = u.id",
    ],
)
def test_rows_of_a_view_with_nulls_for_keys_are_found(sql: str) -> None:
    rows = [(n, None if n < 4 else n % 3) for n in range(9)]
    u = {"id": INT, "c": STRING}, [(0, "p"), (1, "q"), (7, "r")], [(1, "s"), (8, "r")]
    t = {"id": INT, "a": INT}, rows, [*rows[2:7], (7, None), (30, None)]
    check(sql, {name: each for name, each in (("t", t), ("u", u)) if f" {name}" in sql})


@pytest.mark.parametrize(
    ("kind", "text"), [(INT, "01"), (INT, " 1"), (INT, "1.0"), (LONG, "+1"), (DOUBLE, "1"), (DOUBLE, "1e0")]
)
def test_a_text_that_says_the_same_in_another_way_joins(kind: Type, text: str) -> None:
    check(
        "SELECT t.id, u.c FROM t JOIN u ON t.code = u.id",
        {"t": ({"id": INT, "code": STRING}, [(1, text), (2, "2")], [(1, text), (2, "2")]),
         "u": ({"id": kind, "c": STRING}, [(1, "p")], [(1, "q")])},
    )  # fmt: skip


def test_a_whole_number_that_is_the_same_as_a_double_joins() -> None:
    check(
        "SELECT t.id, u.c FROM t JOIN u ON t.n = u.x",
        {"t": ({"id": INT, "n": LONG}, [(1, 2**53), (2, 2**53 + 1)], [(1, 2**53), (2, 2**53 + 1)]),
         "u": ({"id": INT, "x": DOUBLE, "c": STRING}, [(1, 2.0**53, "p")], [(1, 2.0**53, "q")])},
    )  # fmt: skip


@pytest.mark.parametrize("other", [None, "none", "ab", ONE.upper(), ONE.replace("-", "")])
def test_a_uuid_joins_with_any_text(other: str | None) -> None:
    one = ONE
    check(
        "SELECT t.id, u.c FROM t JOIN u ON t.id = u.of_t",
        {"t": ({"id": UUID}, [(one,)], [(one,)]),
         "u": ({"id": INT, "of_t": STRING, "c": STRING}, [(1, other, "p")], [(1, one, "q"), (2, other, "r")])},
    )  # fmt: skip


def test_groups_of_what_is_not_a_number_are_one_however_it_came_about() -> None:
    inf = float("inf")
    t = {"id": INT, "x": DOUBLE, "y": DOUBLE, "n": INT}
    rows = [(1, inf, inf, 1), (2, float("nan"), 0.0, 2), (3, 1.0, 1.0, 3)]
    for change in (
        [*rows[:2]],
        [rows[1], rows[2]],
        [rows[0], rows[2], (4, 0.0, float("nan"), 9)],
        [*rows[::-1], (5, inf, inf, 4)],
    ):
        check("SELECT x - y AS d, count(*) AS c, sum(n) AS s FROM t GROUP BY d", {"t": (t, rows, change)})
        check("SELECT DISTINCT x - y AS d FROM t", {"t": (t, rows, change)})
        check("SELECT [x - y] AS d, count(*) AS c, sum(n) AS s FROM t GROUP BY d", {"t": (t, rows, change)})
    zeros = [(1, 0.0, 0.0, 1), (2, -0.0, 0.0, 2)]
    check("SELECT [x] AS d, sum(n) AS s FROM t GROUP BY d", {"t": (t, zeros, [zeros[1], (3, 0.0, 0.0, 4)])})
    check("SELECT [x] AS d, sum(n) AS s FROM t GROUP BY d", {"t": (t, zeros, [zeros[0], (3, -0.0, 0.0, 4)])})


def test_groups_of_documents_in_lists_are_told_apart_as_texts() -> None:
    t = {"id": INT, "j": STRING, "n": INT}
    rows = [(1, "1.0", 1), (2, "1.00", 2), (3, '{"a": 1}', 3), (4, '{"a":1}', 4)]
    check("SELECT [CAST(j AS JSON)] AS d, sum(n) AS s FROM t GROUP BY d", {"t": (t, rows, rows[1:])})


@few_cases(1)
@pytest.mark.parametrize(
    "form",
    ["{0}", "[{0}]", "{{'a b': {0}, 'c''': 1}}", "[[{0}], NULL]", "map(['k'], [{0}])", "{{'x': [{{'y': {0}}}]}}"],
)
@pytest.mark.parametrize("value", ["x - y", "x"])
def test_groups_of_equal_values_have_one_identity_within_others_too(form: str, value: str) -> None:
    t = {"id": INT, "x": DOUBLE, "y": DOUBLE, "n": INT}
    inf, nan = float("inf"), float("nan")
    rows = [(1, inf, inf, 1), (2, nan, 0.0, 2), (3, 0.0, 1.0, 3), (4, -0.0, 1.0, 4), (5, None, None, 5)]
    for change in ([], rows[1:], rows[3:], [*rows[:3], (6, -0.0, 0.0, 7), (7, inf, inf, 8)]):
        check(f"SELECT {form.format(value)} AS d, sum(n) AS s FROM t GROUP BY d", {"t": (t, rows, change)})
        check(f"SELECT {form.format(value)} AS d, sum(n) AS s FROM t GROUP BY d", {"t": (t, change, rows)})


@pytest.mark.parametrize("sql", [
    "SELECT id, n FROM t UNION ALL SELECT id, n FROM u",
    "SELECT n, count(*) AS k FROM (SELECT n FROM t UNION ALL SELECT n FROM u) GROUP BY n",
    "SELECT n, max(id) AS k FROM (SELECT id, n FROM t UNION ALL SELECT id, n FROM u) GROUP BY n",
    "SELECT t.id, n FROM t SEMI JOIN (SELECT n FROM u UNION SELECT n FROM t) USING (n)",
])  # fmt: skip
def test_a_union_reads_no_table_as_a_whole(files: list[tuple[str, ...]], sql: str) -> None:
    of = {"id": INT, "n": INT}
    rows = [(1, 1), (2, 2), (3, 1)]
    check(sql, {"t": (of, rows, [*rows[1:], (4, 2)]), "u": (of, rows, rows)})
    assert files[:1] == [("*",)]
    assert files.count(("*",)) == 7, "what it is compared with alone: before, after, and by the whole query"


@few_cases(1)
@pytest.mark.parametrize("sql", [
    "SELECT s, count(*) AS k FROM (SELECT a, sum(x) AS s FROM t GROUP BY a) GROUP BY s",
    "SELECT DISTINCT s FROM (SELECT a, avg(x) AS s FROM t GROUP BY a)",
    "SELECT s, count(*) AS k FROM (SELECT a, stddev(x) FILTER (id > 1) AS s FROM t GROUP BY a) GROUP BY s",
    "SELECT s, count(*) AS k FROM (SELECT a, sum(x) OVER (PARTITION BY a) AS s FROM t) GROUP BY s",
    "SELECT t.id FROM t JOIN (SELECT a, sum(x) AS s FROM t GROUP BY a) g ON t.x = g.s",
])  # fmt: skip
def test_groups_of_sums_of_floating_point_are_found_again(sql: str) -> None:
    dice = random.Random(1)
    for _ in range(4):
        rows = [(n, n % 3, dice.choice([0.1, 0.2, 0.3, 0.7, 1e16, -1e16])) for n in range(12)]
        changed = dict(zip(range(12), rows, strict=True))
        for n in dice.sample(range(12), 2):
            changed[n] = (n, n % 3, dice.choice([0.1, 0.2, 0.3, 0.9]))
        check(sql, {"t": ({"id": INT, "a": INT, "x": DOUBLE}, rows, list(changed.values()))})


NUMBERS = "SELECT id, code FROM t WHERE regexp_full_match(code, '[0-9]+')"


@few_cases(1)
@pytest.mark.parametrize("sql", [
    f"SELECT w.id, u.c FROM ({NUMBERS}) w JOIN u ON w.code = u.id",
    f"SELECT w.id, u.c FROM ({NUMBERS}) w FULL JOIN u ON w.code = u.id",
    f"SELECT u.id, c FROM u WHERE NOT EXISTS (SELECT 1 FROM ({NUMBERS}) w WHERE w.code = u.id)",
    f"SELECT w.id, u.c FROM ({NUMBERS} QUALIFY row_number() OVER (PARTITION BY code ORDER BY id) = 1) w "
    "JOIN u ON w.code = u.id",
    "SELECT w.n, u.c FROM (SELECT count(*) AS n, code FROM t GROUP BY code HAVING regexp_full_match(code, '[0-9]+')) w "
    "JOIN u ON w.code = u.id",
    f"SELECT w.id, u.c FROM ({NUMBERS} UNION ALL SELECT id, '7' FROM t) w JOIN u ON w.code = u.id",
    f"SELECT c, count(*) AS k FROM (SELECT u.c, w.id FROM u JOIN ({NUMBERS}) w ON w.code = u.id) GROUP BY c",
])  # fmt: skip
def test_a_text_that_the_query_leaves_out_is_compared_with_no_number(sql: str) -> None:
    t = {"id": INT, "code": STRING}
    rows = [(1, "1"), (2, "none"), (3, "02"), (4, None)]
    u = ({"id": INT, "c": STRING}, [(1, "p")], [(1, "q"), (2, "r")])
    for change in (rows, [*rows, (5, "2"), (6, "x")], rows[2:]):
        check(sql, {"t": (t, rows, change), "u": u})
        check(sql, {"t": (t, rows, change), "u": (u[0], u[1], u[1])})


@few_cases(1)
@pytest.mark.parametrize(
    ("condition", "column"),
    [
        ("seen > now() - INTERVAL 1 DAY", "seen"),
        ("seen <= current_date", "seen"),
        ("naive > now() - INTERVAL 1 DAY AND n > 0", "naive"),
        ("naive BETWEEN localtimestamp - INTERVAL 1 DAY AND localtimestamp", "naive"),
        ("day = current_date", "day"),
        ("day > now() - INTERVAL 36 HOUR", "day"),
        ("CAST(seen AS DATE) = current_date", "*"),
        ("seen > now() AT TIME ZONE 'America/New_York' OR n = 1", "seen"),
    ],
)
def test_rows_that_time_passes_are_looked_for_between_two_ends(
    files: list[tuple[str, ...]], condition: str, column: str
) -> None:
    t = {"id": INT, "seen": TIMESTAMPTZ, "naive": TIMESTAMP, "day": DATE, "n": INT}
    begun = datetime(1970, 1, 2, tzinfo=UTC)  # days before the first are below zero in files
    times = [begun + timedelta(hours=6 * n, microseconds=n % 3 - 1) for n in range(-12, 12)]
    rows = [(n, one, one.replace(tzinfo=None), one.date(), n % 2) for n, one in enumerate(times)]
    rows.append((99, None, None, None, 1))
    found: list[tuple[str, ...]] = []
    changed = [*rows[1:8], (8, times[3], None, times[9].date(), 1), *rows[9:]]
    for sql in (
        f"SELECT id, seen FROM t WHERE {condition}",
        f"SELECT n, count(*) AS k, max(seen) AS m FROM t WHERE {condition} GROUP BY n",
    ):
        for hours in (1, 90):
            moments = (begun, begun + timedelta(hours=hours))
            for after in (rows, changed):
                files.clear()
                check(sql, {"t": (t, rows, after)}, moments)
                looked = [one for one in files if one[-1] == "between"]
                assert {one[0] for one in looked} <= {column}
                found += looked
    assert bool(found) == (column != "*")


@few_cases(1)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n, max(seen) AS m, sum(x) AS s FROM t GROUP BY n HAVING max(seen) > now() - INTERVAL 1 DAY",
        "SELECT id, x FROM t QUALIFY row_number() OVER (PARTITION BY n ORDER BY x) < 3 AND seen <= now()",
        "SELECT p.id, q.id AS other FROM t p LEFT JOIN t q ON p.n = q.n AND q.seen > now() WHERE p.seen < now()",
        "SELECT DISTINCT n FROM t WHERE seen BETWEEN now() - INTERVAL 6 HOUR AND now()",
    ],
)
def test_what_time_changes_above_other_operators_is_told_apart(sql: str) -> None:
    begun = datetime(2026, 3, 1, tzinfo=UTC)
    t = {"id": INT, "seen": TIMESTAMPTZ, "n": INT, "x": DOUBLE}
    rows = [(n, begun + timedelta(hours=7 * n - 40), n % 3, n / 3) for n in range(12)]
    for hours in (0, 8, 100):
        for after in (rows, [*rows[2:], (20, rows[4][1], 1, 0.1)]):
            check(sql, {"t": (t, rows, after)}, (begun, begun + timedelta(hours=hours)))


@few_cases(3)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT max(n) AS n, count(*) AS m FROM (SELECT x, count(*) AS n FROM t GROUP BY x ORDER BY n LIMIT 2)",
        "SELECT x, row_number() OVER (ORDER BY x) AS n FROM t",
        "SELECT x, count(*) AS n FROM t GROUP BY x ORDER BY n DESC LIMIT 2",
        "SELECT id, x FROM t ORDER BY x DESC LIMIT 3",
        "SELECT count(*) AS n FROM t GROUP BY to_days(x) ORDER BY n DESC LIMIT 2",
    ],
)
def test_rows_of_before_are_a_bag(sql: str) -> None:
    before = [(1, 5), (2, 5), (3, 5), (4, 6), (5, None), (6, None)]
    # The last one has rows that are told apart by a type that tables have not.
    for now in ([(1, 5), (2, 6), (3, 5), (7, 6), (5, 5), (6, None)], [(1, 6), (2, 6), (3, 6), (6, None), (8, None)]):
        check(sql, {"t": ({"id": INT, "x": INT}, before, now)})


def test_rows_of_values_that_were_looked_up_are_not_looked_up_again(files: list[tuple[str, ...]]) -> None:
    """One look-up by k finds the lines of changed orders, the sums of these, and the lines of touched groups."""
    lines = {"id": INT, "k": INT, "n": INT}
    check(
        "SELECT o.id, max(l.n) AS m FROM o JOIN l ON l.k = o.id WHERE o.id IN (SELECT k FROM l GROUP BY k HAVING "
        "max(n) > 5) GROUP BY o.id",
        {"o": ({"id": INT, "a": INT}, [(1, 1), (2, 2), (3, 3)], [(1, 5), (2, 2), (3, 3), (4, 4)]),
         "l": (lines, [(1, 1, 9), (2, 1, 3), (3, 2, 8), (4, 3, 7)], [(1, 1, 9), (2, 1, 7), (3, 2, 8), (5, 4, 6)])},
    )  # fmt: skip
    assert [one for one in files if one != ("_firn_id",)].count(("k",)) == 1
