"""A PostgreSQL that the function pulls, and what has to happen for it to use each of its rights."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from moto.s3.models import s3_backends

from examples.sources.postgres import USER, Postgres
from firn.log import holds, layout, pulls
from firn.log.batches import FORMAT
from firn.log.store import Store
from firn.quarantine.rules import killing_epoch
from firn.sources.poller import FORGET_EVERY
from firn_local.aws import ACCOUNT
from tests.postgresql import binaries

Invoke = Callable[[dict[str, Any]], dict[str, Any]]


@contextmanager
def database() -> Iterator[Postgres | None]:
    """One with two slots; None where there is no PostgreSQL."""
    try:
        programs = binaries()
    except pytest.skip.Exception:
        yield None
        return
    home = Path(tempfile.mkdtemp(prefix="firn-pg-"))  # pytest's own folders are for their owner only
    home.chmod(0o755)
    server = Postgres(programs, home / "data", "shop")
    try:
        server.start()
        server.run("CREATE TABLE items (id int PRIMARY KEY, v text); CREATE PUBLICATION firn FOR TABLE items")
        for slot in ("one", "two"):
            server.run(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
        yield server
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def sources(server: Postgres | None) -> str:
    """The section of firn.yaml."""
    if server is None:
        return ""
    address = f"postgresql://{USER}@127.0.0.1:{server.port}/{server.database}"
    return f"""
sources:
  one: {{postgres: '{address}', slot: one, stream: pulled, secret: 'secretsmanager:firn/local/database', linger: 0s}}
  two: {{postgres: '{address}', slot: two, stream: other, secret: 'ssm:/firn/local/database', linger: 0s}}
"""


def pull(server: Postgres, store: Store, invoke: Invoke, bucket: str) -> None:
    """Rounds of the function: usual ones, one with a dead letter, one that forgets old plans, two that come late."""
    server.run("INSERT INTO items VALUES (1, 'x'), (2, repeat('y', 17000000))")
    for name in ("one", "two"):
        [told] = invoke({"pull": name})["sources"]
        assert (told["plans"], told["changes"]) == (1, 2), told
    first = pulls.newest(store, "pulled", "one")
    assert first is not None
    written_long_ago(bucket, "/pulls/pulled/one/")
    plan = resumed(store, first.plan, FORGET_EVERY - 1, first.plan.upto_lsn)
    pulls.finish(store, plan, pulls.Done(FORMAT, 0, 0))
    server.run("INSERT INTO items VALUES (3, 'x')")
    assert invoke({"pull": "one"})["sources"][0]["changes"] == 1
    assert pulls.read(store, first.plan.path) is None, "it is a day old, and forgotten"
    held(store)
    for number in (1, 2):  # the first seals an epoch, the second reads it
        newest = pulls.newest(store, "pulled", "one")
        assert newest is not None
        server.run(f"INSERT INTO items VALUES ({10 + number}, 'x')")
        end = int(server.value("SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn"))
        resumed(store, newest.plan, newest.plan.n + 1, end)
        [told] = invoke({"pull": "one"})["sources"]
        assert told["changes"] == 1, told


def held(store: Store) -> None:
    """A quarantined epoch, which whoever seals looks at."""
    holds.hold(store, killing_epoch("pulled", 99, 3, "2026-03-01T00:00:00.000Z"))


def resumed(store: Store, before: pulls.Plan, n: int, upto: int) -> pulls.Plan:
    """A plan of two hours ago that nobody has finished."""
    at = layout.instant(datetime.now(UTC) - timedelta(hours=2))
    plan = msgspec.structs.replace(before, n=n, from_lsn=before.upto_lsn, upto_lsn=upto, at=at)
    assert pulls.create(store, plan)
    return plan


def written_long_ago(bucket: str, below: str) -> None:
    """Let the objects have been written two days ago."""
    keys = s3_backends[ACCOUNT]["aws"].get_bucket(bucket).keys
    for key in [one for one in keys if below in f"/{one}"]:
        keys[key].last_modified = (datetime.now(UTC) - timedelta(days=2)).replace(tzinfo=None)
