"""A Hive Metastore's lock on a table: given back late, held on, and left behind by a committer that was killed."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException

from firn_lake.catalogs.catalog import open_catalog
from tests.hive import Metastore, dying, metastore
from tests.integration.catalogs.test_contract import SCHEMA, ids, rows

pytestmark = pytest.mark.stack
pytest.importorskip("thrift", reason="PyIceberg's Hive client is not installed: run `make setup`")
TIMEOUT = 5.0  # of the metastore, where it is 300 s by default

KILLED = """
import os, signal, sys
import pyarrow as pa
from firn_lake.catalogs import hive
from firn_lake.catalogs.catalog import open_catalog

hive._Session.alter_table_with_environment_context = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
open_catalog(sys.argv[1], sys.argv[2], {}).load_table(sys.argv[3]).append(pa.table({"id": [1], "v": ["killed"]}))
"""


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    with metastore(tmp_path_factory.mktemp("hive"), f"{TIMEOUT:.0f}s") as one:
        yield one


def opened(brief: Metastore, folder: Path, seconds: float = 60, url: str = "") -> Catalog:
    return open_catalog(f"{url or brief.url}#firn.lock-seconds={seconds}", f"file://{folder}", {})


def a_table(catalog: Catalog, name: str) -> Any:
    catalog.create_namespace(name)
    # Of a commit that is refused PyIceberg makes four more.
    return catalog.create_table(f"{name}.t", SCHEMA, properties={"commit.retry.num-retries": "0"})


def locked(catalog: Any, name: str) -> int:
    """Somebody holds the table. -> the lock"""
    with catalog._client as client:
        return int(client.lock(catalog._create_lock_request(name, "t")).lockid)


def held(catalog: Any, name: str) -> list[int]:
    from hive_metastore.ttypes import ShowLocksRequest

    with catalog._client as client:
        found = client.show_locks(ShowLocksRequest(dbname=name, tablename="t", isExtended=False)).locks
        return [one.lockid for one in found or []]


def test_a_lock_that_is_given_back_is_taken_at_once(brief: Metastore, tmp_path: Path) -> None:
    from hive_metastore.ttypes import UnlockRequest

    catalog: Any = opened(brief, tmp_path)
    table, lock = a_table(catalog, "late"), locked(catalog, "late")

    def give_back() -> None:
        with catalog._client as client:
            client.unlock(UnlockRequest(lockid=lock))

    later = threading.Timer(0.7, give_back)
    later.start()
    began = time.monotonic()
    table.append(rows(1))
    later.join()
    assert 0.7 <= time.monotonic() - began < 3
    assert (ids(catalog.load_table("late.t")), held(catalog, "late")) == ([1], [])


def test_a_lock_whose_holder_is_alive_is_waited_for_and_left_to_it(brief: Metastore, tmp_path: Path) -> None:
    from hive_metastore.ttypes import HeartbeatRequest

    catalog: Any = opened(brief, tmp_path, TIMEOUT + 3)
    table, lock, over = a_table(catalog, "alive"), locked(catalog, "alive"), threading.Event()

    def beat() -> None:
        while not over.wait(1):
            with catalog._client as client:
                client._client.heartbeat(HeartbeatRequest(lockid=lock))

    alive = threading.Thread(target=beat)
    alive.start()
    try:
        began = time.monotonic()
        with pytest.raises(CommitFailedException, match="lock"):
            table.append(rows(1))
        assert TIMEOUT < time.monotonic() - began < TIMEOUT + 15
        assert held(catalog, "alive") == [lock], "ours is given back, and theirs is theirs"
    finally:
        over.set()
        alive.join()
    assert ids(catalog.load_table("alive.t")) == []


def test_a_committer_that_was_killed_stalls_the_next_one_for_the_metastores_time_and_no_longer(
    brief: Metastore, tmp_path: Path
) -> None:
    catalog = opened(brief, tmp_path)
    table = a_table(catalog, "killed")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, brief.url, f"file://{tmp_path}", "killed.t"], check=False, capture_output=True
    )
    assert done.returncode == -9, done.stderr.decode()[-2000:]
    left = held(catalog, "killed")
    assert len(left) == 1
    began = time.monotonic()
    table.append(rows(2))
    assert time.monotonic() - began < TIMEOUT + 10
    assert (ids(catalog.load_table("killed.t")), held(catalog, "killed")) == ([2], [])


@pytest.mark.parametrize("done", [True, False], ids=["the swap was done", "the swap was not done"])
def test_a_metastore_that_is_killed_in_a_commit_and_comes_back_loses_nothing(
    brief: Metastore, tmp_path: Path, done: bool
) -> None:
    """What is said of the commit is what the table shows: in it, not in it, or not known."""
    name = f"dies{done:d}"
    direct = opened(brief, tmp_path)
    a_table(direct, name)
    with dying(brief, done=done) as url:
        table = opened(brief, tmp_path, url=url).load_table(f"{name}.t")
        error = None
        try:
            table.append(rows(1))
        except Exception as one:  # noqa: BLE001 (which one is asked below)
            error = one
    there = ids(direct.load_table(f"{name}.t"))
    assert there == ([1] if done else [])
    assert type(error).__name__ in (("NoneType", "UnknownOutcome") if done else ("UnknownOutcome",)), error
    began = time.monotonic()
    direct.load_table(f"{name}.t").append(rows(2))
    assert time.monotonic() - began < TIMEOUT + 15
    assert ids(direct.load_table(f"{name}.t")) == [*there, 2]
