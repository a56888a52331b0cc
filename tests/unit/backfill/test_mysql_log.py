"""Where reads of MySQL and MariaDB stand in the binlog, and what is waited for before."""

from typing import Any

import pytest

from firn.backfill import mysql_log
from firn.backfill.mysql_log import LogPlace, expect_same_log, log_position, place_of, settled_place
from firn.backfill.read_position import ForeignStream, floor_of
from firn.changes.positions import position
from firn.errors import ConfigError, TransientError


class Server:
    """What the statements of mysql_log are answered. `prepared`: the XA transactions of each look, one after the
    other; its binlog grows by each snapshot."""

    def __init__(self, *prepared: list[str], status: dict[str, str] | None = None) -> None:
        self._prepared, self._status, self.offset, self.said = list(prepared), status, 100, list[str]()

    def rows(self, sql: str, *_: Any) -> list[tuple[Any, ...]]:
        self.said.append(sql)
        if sql.startswith("START"):
            self.offset += 1
        if "binlog" in sql:
            found = {"Binlog_snapshot_file": "binlog.000007", "Binlog_snapshot_position": str(self.offset)}
            return list((found if self._status is None else self._status).items())
        if "xa" in sql:
            return [("Com_xa_prepare", "0")]
        if sql == "XA RECOVER":
            names = self._prepared.pop(0) if self._prepared else []
            return [(1, len(name), 0, name.encode()) for name in names]
        return []


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_log.time, "sleep", lambda _: None)


def test_a_read_is_newer_than_what_is_below_its_place_and_older_than_what_begins_there() -> None:
    read = position("mysql", "r", LogPlace("binlog.000007", 500).order(), 0)
    assert read is not None
    for order, wins in (
        ('["binlog.000007",499,9]', True),
        ('["binlog.000006",9999,0]', True),
        ('["binlog.000007",500,0]', False),
        ('["binlog.1000000",4,0]', False),
    ):
        change = position("mariadb", "u", order, 0)
        assert change is not None
        assert (read > change) == wins, order


def test_the_place_is_asked_for_before_what_is_prepared_and_that_is_waited_for() -> None:
    server = Server(["a"], ["a", "later"], ["later"])
    place, _ = settled_place(server, None)
    assert place == LogPlace("binlog.000007", 101)
    assert server.said.count("XA RECOVER") == 3  # `later` was prepared above the place: the stream beats the read
    assert server.said.index("XA RECOVER") > server.said.index(mysql_log.SNAPSHOT)


def test_what_stays_prepared_holds_up_the_first_chunk_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    server, before = Server(*[["a"]] * 50), LogPlace("binlog.000006", 9)
    monkeypatch.setattr(mysql_log, "LONG", -1.0)
    assert settled_place(server, before)[0] == before
    monkeypatch.setattr(mysql_log, "PATIENCE", -1.0)
    with pytest.raises(TransientError, match="look for it by XA RECOVER"):
        settled_place(server, None)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, "does not tell where a snapshot stands"),
        ({"Binlog_snapshot_file": "", "Binlog_snapshot_position": "0"}, "writes no binlog"),
    ],
)
def test_a_server_without_places_is_refused(status: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        log_position(Server(status=status))


def test_a_log_that_is_behind_the_stream_or_the_plan_is_refused() -> None:
    high = position("mysql", "u", '["binlog.000007",500,3]', 2)
    assert high is not None
    floor = floor_of(high.hex(), 2)
    expect_same_log(LogPlace("binlog.000007", 500), "binlog.000007:400", floor)
    for place, planned in (
        ("binlog.000007:499", ""),
        ("binlog.000006:999", ""),
        ("binlog.000008:4", "binlog.000008:5"),
    ):
        with pytest.raises(ForeignStream):
            expect_same_log(place_of(place), planned, floor)
    expect_same_log(place_of("binlog.000001:4"), "", floor_of(high.hex(), 3))  # of another generation


def test_a_place_that_is_none_is_said() -> None:
    with pytest.raises(ValueError, match=r"write such as binlog\.000004:1234"):
        place_of("binlog")
