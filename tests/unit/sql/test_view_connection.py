"""The DuckDB that a view's query runs in: it may hold more than memory, and opens no file of others."""

import duckdb
import pytest

from firn_sql.views.view_connection import connected


def test_what_does_not_fit_into_memory_goes_to_disk() -> None:
    with connected(memory=60_000_000) as connection:
        connection.execute("CREATE TEMP TABLE t AS SELECT i, repeat('x', 60) || i AS s FROM range(1000000) r(i)")
        assert connection.execute("SELECT count(*) FROM (SELECT DISTINCT s FROM t)").fetchall() == [(1_000_000,)]


@pytest.mark.parametrize(
    "sql",
    ["SELECT * FROM '/etc/passwd'", "SELECT * FROM read_text('/etc/hostname')", "COPY (SELECT 1) TO 'firn-out.csv'",
     "ATTACH 'firn-out.db'", "INSTALL httpfs"],
)  # fmt: skip
def test_it_opens_no_other_file(sql: str) -> None:
    with connected() as connection, pytest.raises(duckdb.Error):
        connection.execute(sql).fetchall()
