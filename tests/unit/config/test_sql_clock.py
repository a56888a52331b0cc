"""Which SQL asks for the time, by its words."""

import pytest

from firn.config.sql_clock import reads_clock


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM s.t WHERE a > now()",
        "SELECT a FROM s.t WHERE a > NOW ( ) - INTERVAL 1 DAY",
        'SELECT a FROM s.t WHERE a > "now"()',
        "SELECT a FROM s.t WHERE a > pg_catalog.now()",
        "SELECT a FROM s.t WHERE day = Current_Date",
        "SELECT a FROM s.t WHERE day = today() -- each day",
        "SELECT a FROM s.t WHERE a > localtimestamp OR a < current_localtimestamp()",
    ],
)
def test_what_asks_for_the_time(sql: str) -> None:
    assert reads_clock(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT now, today FROM s.t",
        'SELECT "current_date" FROM s.t',
        "SELECT t.current_date FROM s.t t",
        "SELECT a AS current_date FROM s.t",
        "SELECT 'now()' AS b FROM s.t -- now()",
        "SELECT a FROM s.t /* current_date */",
        "SELECT 'now",
    ],
)
def test_what_does_not(sql: str) -> None:
    assert not reads_clock(sql)
