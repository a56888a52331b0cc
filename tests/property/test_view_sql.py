"""What the text of a view's SQL tells, without a parser or its tables' columns, is what DuckDB and they say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.config.names import TableName
from firn.config.sql_text import SqlRefused, tables_in
from firn_sql.parse_tree import parse
from firn_sql.views.planner import SourceTable, Undecided, plan
from firn_sql.views.view_check import _tables, check_view
from tests.property.test_views import BASE, QUERIES, TABLES, queries
from tests.soak import times

OPEN = {name: SourceTable({}, ("_firn_id",), open=True) for name in TABLES}
NAMES = st.sampled_from(["shop.orders", "web.clicks", '"shop"."or ders"', 'größe."ß.x"', "Shop.Orders", "a1._b"])
OWN = ["w", "W2", '"w 3"']
NOISE = st.sampled_from(["", " ", " -- FROM x.y\n", " /* JOIN x.y */ ", "\n\t"])
EXPRESSIONS = [
    "a", "t.b", "'FROM x.y'", "extract(year FROM a)", "a IS DISTINCT FROM b", "trim(both FROM a)", "count(*)", "[1, 2]",
    "CASE WHEN a THEN b END", "sum(a) OVER (PARTITION BY b, c ORDER BY d)", "{'k': a, 'l': b}", '"from"', "f(a, b)",
    "substring(a FROM 2)", "(a, b)",
]  # fmt: skip


@st.composite
def selects(draw: Any, depth: int = 3, own: tuple[str, ...] = ()) -> str:
    """A query as people might write it, columns of any kind; only the grammar must be right."""
    text = ""
    if depth and draw(st.integers(0, 3)) == 0:
        parts = []
        for name in draw(st.lists(st.sampled_from(OWN), min_size=1, max_size=2, unique=True)):
            how = draw(st.sampled_from(["AS", "AS MATERIALIZED", "AS NOT MATERIALIZED"]))
            parts.append(f"{name} {how} ({draw(selects(depth - 1, own))})")
            own = (*own, name)
        text += f"WITH {', '.join(parts)} "
    listed = draw(st.lists(st.sampled_from(EXPRESSIONS), min_size=1, max_size=3))
    if depth and draw(st.integers(0, 4)) == 0:
        listed.append(f"({draw(selects(depth - 1, own))})")
    text += f"SELECT {draw(st.sampled_from(['', 'DISTINCT ', 'ALL ']))}{', '.join(listed)}{draw(NOISE)}"
    text += f" FROM {draw(relations(depth, own))}"
    for _ in range(draw(st.integers(0, 2))):
        joins = ["JOIN", "LEFT JOIN", "SEMI JOIN", "FULL OUTER JOIN", "CROSS JOIN", ",", "ASOF JOIN"]
        kind = draw(st.sampled_from(joins))
        text += f"{draw(NOISE)} {kind} {draw(relations(depth, own))}"
        text += "" if kind in ("CROSS JOIN", ",") else draw(st.sampled_from([" ON t.a = b", " USING (a, b)"]))
    if draw(st.booleans()):
        text += f" WHERE {draw(st.sampled_from(['a', 'a IN (b, c)', 'a IS NOT DISTINCT FROM b']))}"
    if depth and draw(st.integers(0, 3)) == 0:
        text += f"{' AND' if ' WHERE ' in text[-40:] else ' GROUP BY a, b HAVING'} EXISTS ({draw(selects(0, own))})"
    if depth and draw(st.integers(0, 4)) == 0:
        text += f" {draw(st.sampled_from(['UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT']))} {draw(selects(0, own))}"
    return text + draw(st.sampled_from(["", " ORDER BY a, b LIMIT 3"]))


@st.composite
def relations(draw: Any, depth: int, own: tuple[str, ...]) -> str:
    table = draw(NAMES if not own else NAMES | st.sampled_from(own))
    if depth and draw(st.integers(0, 3)) == 0:
        table = f"({draw(selects(depth - 1, own))})"
    return f"{draw(NOISE)}{table}{draw(st.sampled_from(['', ' t', ' AS u', ' AS u']))}"


def told(sql: str) -> set[tuple[str, ...]]:
    return {parts for parts, _ in tables_in(sql)}


def parsed(sql: str) -> set[tuple[str, ...]]:
    return {path for _, path in _tables(parse(sql))}


@given(sql=selects())
@settings(max_examples=times(25, 20_000, 50), deadline=None)
def test_the_tables_of_the_text_are_those_that_duckdb_reads(sql: str) -> None:
    try:
        expected = parsed(sql)
    except SqlRefused:
        return  # a grammar that DuckDB does not have
    assert told(sql) == expected


TEXT = """
    SELECT FROM WITH w AS ( ) ( ) , , . shop.orders web.clicks JOIN ON USING WHERE EXISTS IN UNION ALL VALUES 1 'x' a b
    TABLE LATERAL PIVOT ORDER BY LIMIT DISTINCT RECURSIVE unnest range [ ] { } : = -- /* */ " ' ; INSERT INTO
"""
WORDS = st.sampled_from(TEXT.split())


@given(words=st.lists(WORDS, max_size=16))
@settings(max_examples=times(67, 50_000, 133), deadline=None)
def test_a_text_of_any_words_is_refused_or_its_tables_are_those_that_duckdb_reads(words: list[str]) -> None:
    sql = "SELECT a FROM shop.orders " + " ".join(words)
    try:
        found = [TableName(*parts) for parts, _ in tables_in(sql)]
        check_view("x.v", sql, found, {}, full=True)
    except SqlRefused:
        return
    assert {one.identifier for one in found} == parsed(sql)


@given(text=st.text(max_size=60))
@settings(max_examples=times(25, 10_000, 50), deadline=None)
def test_any_text_is_refused_or_read(text: str) -> None:
    try:
        found = [TableName(*parts) for parts, _ in tables_in(text)]
    except ValueError:  # SqlRefused, or a name that no table may have
        return
    try:
        check_view("x.v", text, found, {}, full=False)
    except SqlRefused:
        return


def open_names(sql: str) -> tuple[str, ...] | None:
    try:
        return plan(sql, OPEN).names
    except Undecided:
        return None


@pytest.mark.parametrize("sql", QUERIES)
def test_what_a_plan_takes_is_not_refused_where_columns_are_unknown(sql: str) -> None:
    plan(sql, TABLES)
    open_names(sql)


@given(query=queries())
@settings(max_examples=times(13, 10_000, 26), deadline=None)
def test_what_a_plan_takes_of_random_sql_is_not_refused_where_columns_are_unknown(query: Any) -> None:
    sql = query[0]
    names = plan(sql, TABLES).names
    found = open_names(sql)
    assert found is None or found == names


@given(query=queries(), data=st.data())
@settings(max_examples=times(13, 10_000, 26), deadline=None)
def test_names_without_their_table_are_no_reason_to_refuse(query: Any, data: st.DataObject) -> None:
    sql = query[0]
    for column in sorted({column for columns in BASE.values() for column, _ in columns}):
        if data.draw(st.booleans()):
            sql = sql.replace(f"s.{column}", column).replace(f"r0.{column}", column)
    try:
        plan(sql, TABLES)
    except SqlRefused:
        return
    open_names(sql)
