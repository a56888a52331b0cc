"""A failover for real, by the steps of docs/sources/postgres.md: a replica that lacks the primary's last transactions
is promoted, and in the end the table is the new primary's, row for row."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.sources.firn_up import FirnUp
from examples.sources.postgres import USER, Postgres
from examples.sources.processes import Server
from firn_lake.catalogs.stack_catalog import catalog_of
from firn_lake.tables import find_table
from tests.postgresql import binaries
from tests.soak import long_only

SCHEMA = """
CREATE TABLE orders (id bigint PRIMARY KEY, v text, amount numeric(12,2), large text);
ALTER TABLE orders ALTER large SET STORAGE external;
INSERT INTO orders SELECT n, md5(n::text), n / 7.0, repeat(md5(n::text), 100) FROM generate_series(1, 3000) n;
"""


class Replica(Postgres):
    """A standby of `primary`, which may be started without it."""

    def __init__(self, primary: Postgres, folder: Path) -> None:
        super().__init__(primary._binaries, folder, primary.database)
        self.password = primary.password
        self._primary = primary

    def start(self) -> None:
        self.folder.mkdir(parents=True)
        if self._user:
            shutil.chown(self.folder, self._user)
        data = self.folder / "data"
        subprocess.run(
            [self._binaries / "pg_basebackup", "-D", data, "-R", "-X", "stream", "-c", "fast"],
            env=self._primary._environment(), check=True, capture_output=True, user=self._user, cwd=self.folder,
        )  # fmt: skip
        self._server = Server(
            "replica", [self._binaries / "postgres", "-D", data, "-p", str(self.port), "-k", self.folder,
                        "-c", "wal_level=logical", "-c", "listen_addresses=127.0.0.1"],
            self.folder, user=self._user,
        )  # fmt: skip
        self.again()


def until(done: Callable[[], Any], what: str, seconds: float = 90) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < deadline, f"{what} did not happen in {seconds:.0f} s"
        time.sleep(0.3)
    return found


class Ground:
    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        self.folder = folder
        self.primary = Postgres(binaries(), folder / "primary", "shop")
        self.replica = Replica(self.primary, folder / "replica")
        self.firn = FirnUp(folder / "firn")
        self.secret = folder / "password"

    def stop(self) -> None:
        for part in (self.firn, self.replica, self.primary):
            part.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, *words: str, stack: bool = True) -> str:
        """What a command prints; it has to end well."""
        given = [*words, *(("--dir", str(self.firn.folder)) if stack else ())]
        done = subprocess.run(
            [sys.executable, "-m", "firn_cli.main", *given], capture_output=True, text=True, check=False,
            env={**os.environ, "FIRN_SOURCE_PASSWORD": self.primary.password},
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def add(self, server: Postgres) -> str:
        return self.command(
            "sources", "add", f"postgres://{USER}@127.0.0.1:{server.port}/shop", "--create", "--secret",
            f"file:{self.secret}", "--config", str(self.firn.config), stack=False,
        )  # fmt: skip

    def stopped(self) -> str:
        """Why the source is not read on."""
        [stream] = json.loads(self.command("status", "--json"))
        [source] = stream["sources"]
        return str(source.get("stopped", ""))

    def caught_up(self, server: Postgres) -> None:
        """Until all that is committed now is staged."""
        end = server.value("SELECT pg_current_wal_flush_lsn()")
        server.run("SELECT pg_logical_emit_message(true, 'x', 'y')")
        reached = f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = 'firn_shop'"
        until(lambda: server.value(reached) == "t", "the slot's end")

    def rows(self) -> list[tuple[Any, ...]]:
        table = find_table(catalog_of(self.firn.stack()), "shop.orders")
        found = table.scan(selected_fields=("id", "v", "amount", "large")).to_arrow().to_pylist()
        return sorted(tuple(map(str, row.values())) for row in found)


def rows_of(server: Postgres) -> list[tuple[Any, ...]]:
    text = server.value(
        "SELECT coalesce(json_agg(json_build_array(id::text, v, amount::text, large)), '[]') FROM orders"
    )
    return sorted(tuple(map(str, row)) for row in json.loads(text))


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = Ground(Path(tempfile.mkdtemp(prefix="firn-failover-")))
    try:
        yield made
    finally:
        made.stop()


@long_only
def test_a_replica_is_promoted_and_the_table_is_its_own(ground: Ground) -> None:
    primary, replica = ground.primary, ground.replica
    primary.start()
    primary.run(SCHEMA)
    ground.secret.write_text(primary.password)
    ground.add(primary)
    ground.firn.start()
    ground.command("backfill", "shop", "--no-commit")
    replica.start()
    primary.run("UPDATE orders SET v = 'both' WHERE id % 10 = 0; DELETE FROM orders WHERE id BETWEEN 100 AND 150")
    same = "SELECT count(*) = 2949 AND count(*) FILTER (WHERE v = 'both') > 200 FROM orders"
    until(lambda: replica.value(same) == "t", "what the replica has")
    replica.crash()
    # What only the old primary has: rows that are new, gone, and other ones.
    primary.run(
        "INSERT INTO orders SELECT n, 'lost', 1, 'x' FROM generate_series(5001, 5200) n; "
        "DELETE FROM orders WHERE id BETWEEN 200 AND 400; "
        "UPDATE orders SET v = 'lost', large = 'lost' WHERE id > 2900; "
        "UPDATE orders SET id = id + 10000 WHERE id BETWEEN 500 AND 510"
    )
    ground.caught_up(primary)
    ground.command("flush", "shop")
    assert ground.rows() == rows_of(primary)
    primary.crash()
    replica.again()
    replica.run("SELECT pg_promote()")
    # Before the slot is there: no stream tells of these.
    replica.run("DELETE FROM orders WHERE id BETWEEN 600 AND 650; INSERT INTO orders VALUES (6000, 'new', 2, 'y')")
    # 1. The address; the source stops, and says what to do.
    ground.firn.change(lambda config: config["sources"]["shop"].update(
        postgres=config["sources"]["shop"]["postgres"].replace(str(primary.port), str(replica.port))
    ))  # fmt: skip
    assert "there is no slot firn_shop" in until(ground.stopped, "the stop")
    # 2. The slot.
    ground.add(replica)
    why = until(lambda: "timeline" in (found := ground.stopped()) and found, "the other stop")
    assert "generation: 1" in why
    assert "firn backfill shop --replace" in why
    replica.run("DELETE FROM orders WHERE id = 3; UPDATE orders SET v = 'after' WHERE id = 4")
    # 3. What was staged before, then the generation.
    ground.command("flush", "shop")
    ground.firn.change(lambda config: config["streams"]["shop"].update(generation=1))
    until(lambda: not ground.stopped(), "the source goes on")
    replica.run(
        "UPDATE orders SET v = 'moved', id = 9000 WHERE id = 5; INSERT INTO orders VALUES (3, 'again', 3, 'z'); "
        "UPDATE orders SET amount = 7 WHERE id BETWEEN 700 AND 800"
    )
    # 4. The tables again.
    ground.command("backfill", "shop", "--replace", "--no-commit")
    replica.run("DELETE FROM orders WHERE id BETWEEN 1000 AND 1020; UPDATE orders SET v = 'last' WHERE id = 4")
    ground.caught_up(replica)
    ground.command("flush", "shop")
    wanted = rows_of(replica)
    assert ground.rows() == wanted
    assert not [row for row in wanted if row[1] == "lost"]
    assert {"3", "200", "500", "9000", "6000"} <= {row[0] for row in wanted}
