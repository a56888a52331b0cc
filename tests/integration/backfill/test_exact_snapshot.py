"""Snapshots of a real PostgreSQL that show what was committed below a place in its log, whoever writes meanwhile."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firn.backfill import exact_snapshot
from firn.backfill.chunk_plan import Plan
from firn.backfill.exact_snapshot import can_export, exported, open_exactly
from firn.backfill.postgres_connection import Session
from firn.backfill.read_position import lsn_of
from firn.backfill.source_address import read_address
from firn.config.pull_source import PostgresAddress
from firn.errors import ConfigError, TransientError
from firn_spark.backfill import postgres_reader
from tests.integration.backfill.in_process import Backfill, connected

END_OF_LOG = "SELECT pg_current_wal_insert_lsn()::text"
Login = tuple[PostgresAddress, str | None]


@pytest.fixture
def login(address: str) -> Login:
    given = read_address(address)
    return given.address, given.password


@pytest.fixture
def plan(server: Session, address: str, tmp_path: Path) -> Iterator[Plan]:
    """Of a table with large values, of which the last chunk reads what is written from now on; nothing stays behind."""
    server.rows("CREATE TABLE t (id int PRIMARY KEY, n int, v text)")
    server.rows("ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
    server.rows("INSERT INTO t SELECT n, 0, repeat(md5(n::text), 100) FROM generate_series(1, 3) n")
    yield Backfill(tmp_path, address, pulled=True).planned()
    server.rows("ROLLBACK")
    for _ in range(100):  # a slot goes a moment after its connection
        if server.value("SELECT count(*) FROM pg_replication_slots") == 0:
            return
        time.sleep(0.05)
    pytest.fail("a slot is left")


def read(server: Session, plan: Plan, snapshot: exact_snapshot.Exported) -> tuple[list[int], dict[int, Any]]:
    """-> the reads' order, and the rows by their key."""
    opened = open_exactly(server, plan, plan.chunks[-1], snapshot, 0.0)
    lines: list[bytes] = []
    server.copy(opened.sql, lines.append)
    server.rows("COMMIT")
    rows = [msgspec.json.decode(line[:-1].partition(b"\x02")[0]) for line in lines]
    return [int(part) for part in msgspec.json.decode(opened.order)], {row["id"]: row["n"] for row in rows}


def test_it_shows_the_commits_below_its_place_and_no_other(
    server: Session, address: str, login: Login, plan: Plan
) -> None:
    """Each commit is somewhere between where the log ended before and after it."""
    stop = threading.Event()
    around = [(0, 0)]

    def write() -> None:
        with connected(address, "writer") as writer:
            while not stop.is_set():
                writer.rows("BEGIN")
                writer.rows("UPDATE t SET n = n + 1 WHERE id = 2")
                before = lsn_of(writer.value(END_OF_LOG))
                writer.rows("COMMIT")
                around.append((before, lsn_of(writer.value(END_OF_LOG))))

    thread = threading.Thread(target=write)
    thread.start()
    found = []
    try:
        for _ in range(20):
            with exported(*login) as snapshot:
                place, rows = read(server, plan, snapshot)
                found.append((place[0], rows.get(2, 0)))
                assert place[0] == place[1] == snapshot.place
    finally:
        stop.set()
        thread.join(20)
    assert len({n for _, n in found}) > 10, "it wrote meanwhile"
    for place, n in found:
        assert around[n][0] < place, "its commit begins below the place"
        assert n + 1 == len(around) or around[n + 1][1] > place, "and that of the next one does not"
    assert all(one <= other for one, other in pairwise(place for place, _ in found))


def test_a_key_that_changes_before_the_snapshot_is_taken_is_not_shown(
    server: Session, address: str, login: Login, plan: Plan
) -> None:
    server.rows("UPDATE t SET n = 1 WHERE id = 1")
    with connected(address, "writer") as writer, exported(*login) as snapshot:
        writer.rows("BEGIN")
        writer.rows("UPDATE t SET id = 5000, n = 2 WHERE id = 1")
        before = lsn_of(writer.value(END_OF_LOG))
        writer.rows("COMMIT")
        place, rows = read(server, plan, snapshot)
    assert rows == {1: 1}
    assert place[0] <= before


def test_the_last_chunk_beside_a_pulled_stream_is_read_so(
    server: Session, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.rows("CREATE TABLE t (id int PRIMARY KEY, v text)")
    server.rows("ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
    server.rows("INSERT INTO t VALUES (1, repeat('x', 9000))")
    one = Backfill(tmp_path, address, pulled=True)
    plan = one.planned()
    server.rows("UPDATE t SET id = 2")
    begun = open_exactly

    def moved_first(*given: Any) -> Any:
        server.rows("UPDATE t SET id = 3")
        return begun(*given)

    monkeypatch.setattr(postgres_reader, "open_exactly", moved_first)
    one.task(plan).run([1])
    assert [msgspec.json.decode(image)["id"] for image in one.images()] == [2]


@pytest.mark.parametrize("how", ["TRUNCATE t", "ALTER TABLE t ALTER n TYPE bigint", "VACUUM FULL t"])
def test_a_table_that_is_rewritten_before_the_lock_is_read_again(
    server: Session, address: str, login: Login, plan: Plan, how: str
) -> None:
    server.rows("UPDATE t SET n = 1 WHERE id = 1")
    with connected(address, "owner") as owner, exported(*login) as snapshot:
        owner.rows(how)
        with pytest.raises(TransientError, match="rewritten, emptied or replaced while its snapshot was made"):
            read(server, plan, snapshot)
    server.rows("ROLLBACK")
    with exported(*login) as snapshot:
        _, rows = read(server, plan, snapshot)
    assert rows == ({} if how.startswith("TRUNCATE") else {1: 1, 2: 0, 3: 0} if "ALTER" in how else {1: 1})


@pytest.mark.parametrize("there", [False, True])
def test_another_table_that_takes_the_name_before_the_lock_is_not_read_in_its_place(
    server: Session, address: str, login: Login, plan: Plan, there: bool
) -> None:
    server.rows("UPDATE t SET n = 1 WHERE id = 1")
    make = "CREATE TABLE next (LIKE t INCLUDING ALL)"
    if there:
        server.rows(make)
    with connected(address, "owner") as owner, exported(*login) as snapshot:
        if not there:
            owner.rows(make)
        owner.rows("INSERT INTO next VALUES (7, 7)")  # which the snapshot does not show, nor the stream as a row of t
        owner.rows("ALTER TABLE t RENAME TO former")
        owner.rows("ALTER TABLE next RENAME TO t")
        with pytest.raises(TransientError, match="while its snapshot was made: read it again"):
            read(server, plan, snapshot)
    server.rows("ROLLBACK")
    with exported(*login) as snapshot:
        assert read(server, plan, snapshot)[1] == {7: 7}


def test_it_waits_for_transactions_that_have_written_and_no_longer_than_it_may(
    address: str, login: Login, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_snapshot, "PATIENCE", 0.3)
    with connected(address, "writer") as writer:
        writer.rows("BEGIN")
        writer.rows("UPDATE t SET n = 1 WHERE id = 1")
        with (
            pytest.raises(TransientError, match="has not ended: look for the oldest in pg_stat_activity"),
            exported(*login),
        ):
            pass
        writer.rows("ROLLBACK")


def test_a_connection_that_broke_takes_the_snapshot_along_and_another_try_has_one(
    server: Session, login: Login, plan: Plan
) -> None:
    server.rows("UPDATE t SET n = 1 WHERE id = 1")
    with exported(*login) as snapshot:
        server.rows("SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE temporary")
        with pytest.raises(TransientError, match="the connection that made it broke"):
            read(server, plan, snapshot)
    server.rows("ROLLBACK")
    with exported(*login) as snapshot:
        assert read(server, plan, snapshot)[1] == {1: 1}


def test_who_may_not_replicate_is_told_before_anything_is_read(server: Session, login: Login) -> None:
    server.rows("CREATE ROLE reader LOGIN PASSWORD 'geheim'")
    try:
        other = replace(login[0], user="reader")
        with pytest.raises(ConfigError, match="takes a user with REPLICATION") as said:
            can_export(other, "geheim")
        assert "geheim" not in str(said.value)
    finally:
        server.rows("DROP ROLE reader")
    can_export(*login)


def test_where_no_slot_is_free_another_try_may_have_one(server: Session, login: Login) -> None:
    free = int(server.value("SHOW max_replication_slots"))
    for n in range(free):
        server.rows(f"SELECT pg_create_physical_replication_slot('other_{n}')")
    try:
        with pytest.raises(TransientError, match="max_replication_slots that is free"), exported(*login):
            pass
        with pytest.raises(TransientError, match=r"no replication slot free, \d+ are taken"):
            can_export(*login)
    finally:
        server.rows("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
