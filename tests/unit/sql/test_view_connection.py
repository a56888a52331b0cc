"""The DuckDB that a view's query runs in: it may hold more than memory, and opens no file of others."""

import duckdb
import pytest

from firn.errors import TerminalError
from firn_sql.views.view_connection import Connection, connected, failures

_WIDE = "CREATE OR REPLACE TEMP TABLE t AS SELECT sha256(i::VARCHAR) AS s FROM range(3000000) r(i)"


def test_what_does_not_fit_into_memory_goes_to_disk() -> None:
    with connected(memory=60_000_000) as connection:
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE t AS SELECT i, repeat('x', 60) || i AS s FROM range(1000000) r(i)"
        )
        assert connection.execute("SELECT count(*) FROM (SELECT DISTINCT s FROM t)").fetchall() == [(1_000_000,)]


@pytest.mark.parametrize(
    "sql",
    ["SELECT * FROM '/etc/passwd'", "SELECT * FROM read_text('/etc/hostname')", "COPY (SELECT 1) TO 'firn-out.csv'",
     "ATTACH 'firn-out.db'", "INSTALL httpfs"],
)  # fmt: skip
def test_it_opens_no_other_file(sql: str) -> None:
    with connected() as connection, pytest.raises(duckdb.Error):
        connection.execute(sql).fetchall()


def _rewritten(connection: Connection) -> None:
    with failures("web.a"):
        for _ in range(100):
            connection.execute(_WIDE)


def test_more_than_its_disk_is_an_error_of_the_view() -> None:
    said = r"view web\.a: its query takes more than 30 minutes, or 10 GB of disk"
    with connected(memory=60_000_000, disk=20_000_000) as connection, pytest.raises(TerminalError, match=said):
        _rewritten(connection)


def test_a_query_that_does_not_end_is_broken_off() -> None:
    endless = "SELECT count(*) FROM range(1000000000) a(i), range(1000000000) b(j) WHERE i * j % 7 = 3"
    with (
        connected(seconds=0.3) as connection,
        pytest.raises(TerminalError, match=r"view web\.a: its query takes more than 30 minutes"),
        failures("web.a"),
    ):
        connection.execute(endless).fetchall()


def test_the_next_connection_sees_nothing_of_the_one_before() -> None:
    with connected() as before:
        before.execute("CREATE TEMP TABLE t AS SELECT 1 AS a")
        before.execute("SET TimeZone = 'Asia/Tokyo'")
        with connected() as beside, pytest.raises(duckdb.CatalogException, match="t does not exist"):
            beside.execute("FROM t")
    with connected() as after:
        assert after.execute("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]
        assert after.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]


def test_what_fails_is_not_opened_again() -> None:
    with connected() as first:
        folder = first.execute("SELECT current_setting('temp_directory')").fetchall()
    with connected() as again:
        assert again.execute("SELECT current_setting('temp_directory')").fetchall() == folder
    with pytest.raises(duckdb.Error), connected() as failing:
        failing.execute("SELECT error('no')").fetchall()
    with connected() as other:
        assert other.execute("SELECT current_setting('temp_directory')").fetchall() != folder
        with connected(memory=60_000_000) as small:
            assert small.execute("SELECT current_setting('memory_limit')").fetchall() == [("57.2 MiB",)]
