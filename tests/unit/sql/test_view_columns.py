"""Of tables that views read, no more columns than their queries need."""

import pytest

from firn_sql.views.algebra import Scan, operators
from firn_sql.views.planner import SourceTable, plan

TABLES = {
    "lake.a": SourceTable({"id": "INTEGER", "k": "INTEGER", "n": "INTEGER", "note": "VARCHAR"}, ("id",)),
    "lake.b": SourceTable({"id": "INTEGER", "name": "VARCHAR", "more": "VARCHAR"}, ("id",)),
}


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT k, sum(n) AS total FROM lake.a WHERE note <> '' GROUP BY k", {"lake.a": "k n note"}),
        ("SELECT count(*) AS size FROM lake.a", {"lake.a": "id"}),
        ("SELECT k, list(n) AS every FROM lake.a GROUP BY k", {"lake.a": "id k n"}),
        ("SELECT n FROM lake.a", {"lake.a": "id n"}),
        ("SELECT a.n, b.name FROM lake.a LEFT JOIN lake.b ON a.k = b.id", {"lake.a": "id k n", "lake.b": "id name"}),
        (
            "SELECT b.name, sum(a.n) AS total FROM lake.a JOIN lake.b ON a.k = b.id GROUP BY b.name",
            {"lake.a": "k n", "lake.b": "id name"},
        ),
        (
            "SELECT n FROM lake.a WHERE EXISTS (SELECT 1 FROM lake.b WHERE b.id = k)",
            {"lake.a": "id k n", "lake.b": "id"},
        ),
        ("SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n) AS place FROM lake.a", {"lake.a": "id k n note"}),
    ],
)
def test_a_query_reads_the_columns_that_it_names_and_keys_that_tell_its_rows_apart(
    sql: str, columns: dict[str, str]
) -> None:
    found = plan(sql, TABLES)
    scans = [one for one in operators(found.root) if isinstance(one, Scan)]
    assert {one.source: " ".join(sorted(one.names[each] for each in one.every)) for one in scans} == columns
