"""A MySQL that fails over to another server, whose binlog has other names and offsets: what Firn notices, and what the
steps of docs/sources/mysql.md lead to."""

from typing import Any

from firn.log import holds
from tests.model.lake_contract import CONFIG, STREAM, Stream
from tests.model.memory_ground import MemoryGround
from tests.model.test_quarantine import MINUTE, go_on


def change(op: str, file: str, pos: int, minutes: float, v: str) -> dict[str, Any]:
    image = {"id": 1, "v": v}
    source = {"connector": "mariadb", "db": "app", "table": "orders", "file": file, "pos": pos, "row": 0}
    source["ts_ms"] = 1_700_000_000_000 + int(minutes * MINUTE)
    return {"op": op, "before": None, "after": image, "source": source, "ts_ms": source["ts_ms"]}


def test_the_server_after_a_failover_counts_as_newer_once_the_generation_is_raised() -> None:
    stream = Stream(MemoryGround())
    stream.land(change("c", "mysql-bin.999999", 900, 0, "a"), change("u", "mysql-bin.1000000", 4, 60, "b"))
    stream.publish(CONFIG.replace("  shop:\n", "  shop:\n    generation: 1\n"))
    stream.land(change("u", "binlog.000002", 500, 61, "from the new server"))
    assert stream.values() == [(1, "from the new server")]
    # What the old one sent comes again, late.
    stream.land(change("u", "mysql-bin.1000000", 4, 60, "b"))
    assert stream.values() == [(1, "from the new server")]


def test_a_forgotten_generation_holds_the_stream_and_says_what_to_write() -> None:
    stream = Stream(MemoryGround())
    stream.land(change("u", "mysql-bin.000012", 700, 60, "b"))
    n = stream.seal(change("u", "binlog.000002", 500, 90, "from the new server"))
    assert stream.commit(n) == 0
    assert stream.lines[-1]["status"] == "quarantined"
    assert stream.values() == [(1, "b")]
    found = holds.read_all(stream.store, STREAM).held_stream(0)
    assert found is not None
    assert "`generation: 1`" in found.advice
    stream.publish(CONFIG.replace("  shop:\n", "  shop:\n    generation: 1\n"))
    go_on(stream)
    assert stream.values() == [(1, "from the new server")]
