"""What each connector's events say of order, as Debezium fills `source`, and the positions that come of it."""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.changes.change import ARRIVING
from firn.changes.envelopes.parser import parse
from firn.changes.merge.ordering import PLACED_BY, Order, placed
from firn.changes.positions import by_arrival, came, position
from firn.errors import EventError

ACCEPTED = 1_763_800_000_000
NS = 10**6


def event(source: Mapping[str, Any], op: str = "u", **more: Any) -> dict[str, Any]:
    """An event with Debezium's own envelope. `more`: `number` in its transaction, `made` (ns) by the connector."""
    told = {"op": op, "before": None, "after": {"id": 1}, "source": {"table": "t", "ts_ms": 1, **source}}
    if "number" in more:
        told["transaction"] = {"id": "x", "total_order": more["number"], "data_collection_order": more["number"]}
        told["transaction"] |= more.get("transaction", {})
    return told | {name: value for name, value in more.items() if name in ("ts_ns", "before", "after")}


def ordered(
    events: Sequence[Mapping[str, Any]], accepted: int = ACCEPTED, by: Order | None = None, place: int = 0
) -> list[bytes]:
    """The place of each event in the total order."""
    found = placed_of(events, accepted, by, place)
    assert found["fault"] == [None] * len(events), found["fault_text"]
    return list(found["ord"])


def placed_of(
    events: Sequence[Mapping[str, Any]], accepted: int = ACCEPTED, by: Order | None = None, place: int = 0
) -> dict[str, list[Any]]:
    parsed = parse("\n".join(map(json.dumps, events)).encode(), "auto")
    assert not parsed.rejected, parsed.rejected
    columns = {name: getattr(parsed, name, [None] * len(parsed)) for name in PLACED_BY}
    columns |= {name: [b and b.decode() for b in columns[name]] for name in ("before", "after", "key")}
    return placed(columns, place, by or Order(), accepted)


def rises(events: Sequence[Mapping[str, Any]]) -> bool:
    found = ordered(events)
    return found == sorted(set(found))


# --- MongoDB


def mongodb(time: int, place: int, **more: Any) -> dict[str, Any]:
    return {"connector": "mongodb", "db": "shop", "collection": "o", "ts_ms": time, "ord": place} | more


def test_the_events_of_a_mongodb_transaction_are_ordered_by_when_they_were_made_or_numbered() -> None:
    source = mongodb(1_700_000_000_000, 1, lsid="x", txnNumber=1)
    assert rises([event(source, number=n) for n in range(1, 300)])
    assert rises([event(source, ts_ns=10**18 + n) for n in range(300)])
    before, after = event(mongodb(1_700_000_000_000, 0)), event(mongodb(1_700_000_000_000, 2))
    assert rises([before, event(source, "c", number=1), event(source, "d", number=2, before={"id": 1}), after])


def test_a_mongodb_transaction_that_is_sent_on_after_a_restart_goes_on() -> None:
    """Debezium numbers the rest of it from 1 again, and makes it later."""
    source = mongodb(1_700_000_000_000, 1, lsid="x", txnNumber=1)
    assert rises([event(source, number=3, ts_ns=10**18), event(source, number=1, ts_ns=10**18 + 5)])


def test_cluster_times_order_mongodb_whatever_the_wall_clock_says() -> None:
    """A primary whose clock is behind goes on from the cluster time that it took over."""
    walls = [1_700_000_010_500, 1_700_000_009_000, 1_700_000_009_100]
    assert rises([event(mongodb(1_700_000_010_000, n + 3, wallTime=wall)) for n, wall in enumerate(walls)])


@pytest.mark.parametrize("version", [{"version": "3.4.0.Final"}, {}])
def test_with_a_wall_clock_mongodb_is_ordered_by_when_the_connector_made_the_event(version: dict[str, str]) -> None:
    walls = [1_700_000_010_500, 1_700_000_009_000, 1_700_000_009_100]
    sources = [mongodb(wall, n + 3, wallTime=wall, **version) for n, wall in enumerate(walls)]
    assert rises([event(source, ts_ns=ACCEPTED * NS + n) for n, source in enumerate(sources)])
    # Where the event does not say when it was made it counts from when it came.
    old, new = event(sources[0]), event(sources[1])
    assert ordered([old], ACCEPTED) < ordered([new], ACCEPTED + 1)
    assert rises([old, new])


def test_before_debezium_3_4_a_wall_clock_at_a_full_second_is_not_taken_for_the_time() -> None:
    time = 1_700_000_010_000
    old = event(mongodb(time, 3, wallTime=time, version="3.3.2.Final"), ts_ns=ACCEPTED * NS)
    assert parse(json.dumps(old).encode(), "auto").order == [f"[{time},3]"]


def test_a_mongodb_read_that_knows_no_cluster_time_is_older_than_every_change() -> None:
    read = event(mongodb(1_800_000_000_123, -1), "r")
    assert rises([read, event(mongodb(1_000, 1), "c")])
    with pytest.raises(EventError):
        position("mongodb", "u", "[1,-1]", 0)


def test_old_mongodb_orders_keep_their_positions() -> None:
    was = position("mongodb", "u", "[1700000010500,3]", 7)
    assert was == (7).to_bytes(4) + (1_700_000_010_500).to_bytes(16) + b"\1" + (3).to_bytes(24)
    (now,) = placed_of([event(mongodb(1_700_000_010_500, 3), ts_ns=ACCEPTED * NS)], by=Order(7))["pos"]
    assert was < now, "what is made later than the wall clock that older tables hold beats it"


# --- SQL Server, Oracle, Db2, Informix


LSN = "00000027:00000758:000{}".format


def test_a_sql_server_command_comes_before_the_change_lsn_where_it_is_told() -> None:
    def source(change: int, command: int) -> dict[str, Any]:
        told = {"connector": "sqlserver", "schema": "s", "commit_lsn": LSN(9), "change_lsn": LSN(change)}
        return told | {"event_serial_no": 1, "command_id": command}

    assert rises([event(source(5, 1)), event(source(3, 2)), event(source(4, 2))])
    was = position("sqlserver", "u", json.dumps([LSN(9), LSN(5), 1]), 0)
    assert was is not None
    assert was[21:] == (0x0000002700000758_0005 << 64 | 1).to_bytes(24)


def test_changes_of_one_scn_that_xstream_sends_are_ordered_by_the_lcr_position() -> None:
    def source(last: str) -> dict[str, Any]:
        lcr = f"0000000000213A5E000000010000000100000000002139F8000000010000{last}01"
        return {"connector": "oracle", "schema": "S", "commit_scn": "2177630", "scn": "2177528", "ssn": 0} | {
            "lcr_position": lcr
        }

    told = [event(source(last)) for last in ("0101", "0201", "0a01", "1001")]
    assert rises(told)
    # Debezium before 3.3 does not tell the commit's SCN: it is in the position.
    alone = [event(source(last) | {"commit_scn": None}) for last in ("0101", "0201", "0a01", "1001")]
    assert [one[:46] for one in ordered(alone)] == [one[:46] for one in ordered(told)]
    read = event({"connector": "oracle", "schema": "S", "scn": "2177630", "commit_scn": None}, "r")
    assert rises([read, event(source("0101"))])


def test_db2_and_informix_are_ordered_by_commit_and_change_lsn() -> None:
    def db2(commit: str, change: str | None) -> dict[str, Any]:
        return {"connector": "db2", "schema": "S", "commit_lsn": commit, "change_lsn": change}

    low, high = "00000000:00043e42:0000000000bf5fd0", "00000000:00043e42:0000000000bf5fdf"
    assert rises([event(db2(low, None), "r"), event(db2(low, high)), event(db2(high, low)), event(db2(high, high))])

    def informix(commit: int, change: int | None) -> dict[str, Any]:
        return db2(str(commit), None if change is None else str(change)) | {"connector": "informix"}

    assert rises([event(informix(9, None), "r"), event(informix(10, 9)), event(informix(10, 10))])


def test_a_vitess_rank_is_a_decimal_in_base64_or_a_number() -> None:
    """Connect's JSON converter writes decimals in either form: decimal.format."""
    source = {"connector": "vitess", "keyspace": "commerce", "table": "customers", "shard": "-80"}

    def of(rank: object, epoch: int = 0) -> dict[str, Any]:
        return event(source, number=1, transaction={"transaction_rank": rank, "transaction_epoch": epoch})

    assert placed_of([of(68)])["pos"] == placed_of([of("RA==")])["pos"]
    assert rises([of("RA=="), of("AIA="), of(300), of(1, 1)])
    (parsed,) = parse(json.dumps(event(source)).encode(), "auto").changes()
    assert (parsed.table, parsed.order) == ("commerce.customers", None), "without ordered metadata it goes by arrival"
    flat = {"id": 1, "__op": "u", "__table": "customers", "__keyspace": "commerce", "__vgtid": "x"}
    ranked = {
        "__transaction_transaction_epoch": 0,
        "__transaction_transaction_rank": 68,
        "__transaction_total_order": 1,
    }
    (parsed,) = parse(json.dumps(flat | ranked).encode(), "auto").changes()
    assert (parsed.connector, parsed.table, parsed.order) == ("vitess", "commerce.customers", "[0,68,1]")


def test_spanner_is_ordered_by_commit_timestamp_sequence_and_row() -> None:
    def of(time: int, sequence: str, row: int) -> dict[str, Any]:
        return event(
            {"connector": "spanner", "ts_ms": time // 10**6, "ts_ns": time, "sequence": sequence, "mod_number": row}
        )

    time = 1_670_955_531_785_000_001
    assert rises([of(time - 1, "99", 3), of(time, "2", 0), of(time, "2", 1), of(time, "10", 0), of(time + 1, "0", 0)])
    older = {"connector": "spanner", "ts_ms": 1_670_955_531_785, "sequence": "1"}
    assert parse(json.dumps(event(older)).encode(), "auto").order == ['[1670955531785000000,"1",0]']


def test_numbers_and_record_sets_are_read_as_debeziums_documents_show_them() -> None:
    """`event_serial_no` and the transaction's numbers as text, `rs_id` without its 0x."""
    source = {
        "connector": "sqlserver",
        "schema": "dbo",
        "commit_lsn": LSN(5),
        "change_lsn": LSN(3),
        "event_serial_no": "1",
    }
    told = event(source, number="2", ts_ns="1580390884335875412")
    (found,) = parse(json.dumps(told).encode(), "auto").changes()
    assert (found.tx_order, found.order) == (2, json.dumps([LSN(5), LSN(3), "1"], separators=(",", ":")))
    assert placed_of([told])["pos"] == placed_of([event(source | {"event_serial_no": 1}, number=2)])["pos"]
    oracle = {"connector": "oracle", "schema": "S", "scn": "1513734", "commit_scn": "1513754", "ssn": 1}
    with_prefix, without = (oracle | {"rs_id": f"{prefix}001234.00012345.0124"} for prefix in ("0x", ""))
    assert placed_of([event(with_prefix)])["pos"] == placed_of([event(without)])["pos"]


@pytest.mark.parametrize("connector", ["db2", "informix", "vitess", "spanner"])
def test_a_stream_that_names_order_by_for_a_source_named_later_still_goes_by_it(connector: str) -> None:
    source = {"connector": connector, "schema": "S", "commit_lsn": "9", "change_lsn": "9"}
    source |= {"keyspace": "S", "sequence": "7", "ts_ns": 1}
    more: dict[str, Any] = {"number": 1, "transaction": {"transaction_epoch": 0, "transaction_rank": 7}}
    newer, older = (event(source, after={"id": 1, "v": v}, **more) for v in (2, 1))
    assert ordered([newer], by=Order(0, ("v",))) > ordered([older], by=Order(0, ("v",)))
    assert {len(one) for one in ordered([newer, older])} == {55}


OLD = {
    "sqlserver": (f'["{LSN(9)}","{LSN(5)}",7]', 0x27000007580009, 0x27000007580005 << 64 | 7),
    "oracle": ('["100","97","0x00000a.00000001.0010",1]', 100, 97 << 112 | 0xA000000010010 << 32 | 1),
    "mongodb": ("[1700000000000,3]", 1_700_000_000_000, 3),
    "mysql": ('["b.000002",5,1]', 2 << 64 | 5, 1),
    "postgresql": ("2000", 0, 2_000),
}


@pytest.mark.parametrize("connector", OLD)
def test_orders_that_older_versions_staged_keep_their_positions(connector: str) -> None:
    order, commit, change = OLD[connector]
    assert position(connector, "u", order, 3) == (3).to_bytes(4) + commit.to_bytes(16) + b"\1" + change.to_bytes(24)


# --- an LSN alone


def full(commit: int, lsn: int) -> dict[str, Any]:
    return event({"connector": "postgresql", "schema": "s", "sequence": json.dumps([str(commit), str(lsn)])})


def bare(lsn: int) -> dict[str, Any]:
    return {"id": 1, "__op": "u", "__table": "t", "__schema": "s", "__lsn": lsn}


def test_a_stream_that_has_always_told_an_lsn_alone_keeps_its_positions() -> None:
    (pos,) = placed_of([bare(2_000)])["pos"]
    assert pos == bytes(20) + b"\1" + (2_000).to_bytes(24)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=8))
def test_of_one_row_changes_with_and_without_a_commit_are_in_commit_order(drawn: list[tuple[bool, int, int]]) -> None:
    """Each transaction that changes a row writes it after the one before it has committed."""
    end, events = 0, []
    for tells, gap, length in drawn:
        lsn = end + gap
        events.append(full(end, lsn) if tells else bare(lsn))
        end = lsn + length
    found = ordered(events, by=Order(0, None, commits=0))
    assert found == sorted(set(found))


# --- any source: its transactions, replayed in commit order


def log(connector: str, dice: random.Random) -> list[dict[str, Any]]:
    """Events of one row, in commit order, as this connector describes them."""
    found: list[dict[str, Any]] = []
    commit, change, second, place, made = 10, 10, 1_700_000_000, 0, ACCEPTED * NS
    for _ in range(dice.randint(2, 6)):
        start, commit = commit, commit + dice.randint(50, 90)
        second, place = (second, place + 1) if dice.random() < 0.5 else (second + dice.randint(1, 3), 1)
        wall = second * 1000 + dice.randint(-5_000, 5_000)
        txn = {"txnNumber": commit} if dice.random() < 0.5 else {}
        rows = dice.randint(1, 4) if txn or connector not in ("mongodb", "mongodb-wall") else 1
        for row in range(rows):
            change, made = start + 1 + row, made + dice.randint(1, 2_000_000)
            described = {
                "postgresql": {"sequence": json.dumps([str(start), str(change)])},
                "mysql": {"db": "d", "file": f"b.{commit // 100:06}", "pos": commit % 100 + 4, "row": row},
                "mariadb": {"db": "d", "file": f"b.{commit // 100:06}", "pos": commit % 100 + 4, "row": row},
                "sqlserver": {"commit_lsn": f"{commit:08x}:0:0".replace(":0:0", ":00000000:0000"), "event_serial_no": 1}
                | {"change_lsn": f"{change:08x}:00000000:0000"},
                "oracle": {"commit_scn": str(commit), "scn": str(change), "rs_id": None, "ssn": row},
                "xstream": {"commit_scn": str(commit), "scn": "9", "lcr_position": f"{commit:064x}{row:04x}"},
                "mongodb": mongodb(second * 1000, place, wallTime=wall, version="3.3.0.Final", **txn),
                "mongodb-wall": mongodb(wall, place, wallTime=wall, version="3.5.1.Final", **txn),
                "db2": {"commit_lsn": f"{commit:08x}:00:00", "change_lsn": f"{change:08x}:00:00"},
                "informix": {"commit_lsn": str(commit), "change_lsn": str(change)},
                "firn": {"sequence": f"[{second},{commit * 10 + row}]"},
                "vitess": {"keyspace": "s", "shard": "-80"},
                "spanner": {
                    "ts_ms": second,
                    "ts_ns": second * 1000 + commit,
                    "sequence": str(row + 7),
                    "mod_number": 0,
                },
            }[connector]
            named = {"xstream": "oracle", "mongodb-wall": "mongodb"}.get(connector, connector)
            more: dict[str, Any] = {"ts_ns": made}
            if connector == "vitess":
                ranked = {"transaction_epoch": commit // 200, "transaction_rank": commit}
                more |= {"number": row + 1, "transaction": ranked}
            found.append(event({"schema": "s", **described, "connector": named}, dice.choice("cu"), **more))
    return found


@pytest.mark.parametrize(
    "connector",
    [
        "postgresql", "mysql", "mariadb", "sqlserver", "oracle", "xstream", "mongodb", "mongodb-wall", "db2",
        "informix", "firn", "vitess", "spanner",
    ],
)  # fmt: skip
def test_transactions_replayed_in_commit_order_are_in_position_order(connector: str) -> None:
    for seed in range(60):
        found = ordered(log(connector, random.Random(seed)))
        assert found == sorted(set(found)), seed


# --- order_by


def by_field(value: Any, op: str = "u", accepted: int = ACCEPTED, **images: Any) -> dict[str, list[Any]]:
    told = {"op": op, "before": None, "after": {"id": 1, "v": value}, "source": {"connector": "own", "table": "t"}}
    return placed_of([told | images], accepted, Order(0, ("v",)))


def test_a_change_beats_a_read_of_the_same_order_by_value() -> None:
    read = by_field(5, "r")["ord"]
    for change in (by_field(5, "c"), by_field(5, "u"), by_field(5, "d", after=None, before={"id": 1, "v": 5})):
        assert read < change["ord"] < by_field(6, "r")["ord"]


def test_a_delete_without_the_order_by_field_and_a_truncate_are_refused_by_name() -> None:
    for op, images in (("d", {"after": None, "before": {"id": 1}}), ("t", {"after": None})):
        found = by_field(None, op, **images)
        assert found["fault"] == ["no_order"]
        assert "'v'" in found["fault_text"][0]
    assert by_field(None, "d", after=None, before={"id": 1, "v": 7})["fault"] == [None]


def test_a_delete_is_ordered_by_the_field_in_its_key() -> None:
    told = {"op": "d", "before": None, "after": None, "source": {"connector": "own", "table": "t"}}
    body = json.dumps([{"destination": "p.t", "key": {"id": 1, "v": 9}, "value": told}]).encode()
    parsed = parse(body, "auto")
    columns: dict[str, Any] = {name: getattr(parsed, name, [None]) for name in PLACED_BY} | {"key": ['{"id":1,"v":9}']}
    assert parsed.key != [None]
    found = placed(columns, 0, Order(0, ("v",)), ACCEPTED)
    assert found["pos"][0][:20] == by_field(9)["pos"][0][:20]


def test_an_order_by_time_more_than_a_day_ahead_is_refused_and_a_number_never_is() -> None:
    at = "2025-11-23T08:{}:00Z".format  # accepted 2025-11-22T08:26:40Z
    assert by_field(at("26"))["fault"] == [None]
    assert by_field(at("27"))["fault"] == ["future_order"]
    assert by_field(at("27"), accepted=0)["fault"] == [None], "when it was accepted is not known"
    assert by_field(9 * 10**18)["fault"] == [None]


def test_an_order_by_position_is_told_from_a_sources() -> None:
    from firn.changes.positions import by_field as is_by_field

    assert all(is_by_field(by_field(value)["pos"][0]) for value in (-(10**18), 0, 10**18, "2025-01-01"))
    for connector in ("postgresql", "mysql", "sqlserver", "oracle", "mongodb", "db2", "informix", "firn"):
        events = log(connector, random.Random(1))
        assert not any(map(is_by_field, placed_of(events)["pos"])), connector


def test_what_the_source_does_not_order_is_told_apart() -> None:
    txn = mongodb(1_700_000_000_000, 1, txnNumber=1)
    wall = mongodb(1_700_000_000_500, 1)
    ordered_by = [event(txn, number=1), event(txn, ts_ns=5), event(wall, ts_ns=5), event(mongodb(1_700_000_000_000, 1))]
    for told, expected in ((ordered_by, False), ([event(txn), event(wall), event({"connector": "own"})], True)):
        parsed = parse("\n".join(map(json.dumps, told)).encode(), "auto")
        assert {by_arrival(*one) for one in zip(parsed.connector, parsed.order, strict=True)} == {expected}
    assert not by_arrival("sqlserver", '["00000027:00000758:0005",null,null]')


@pytest.mark.parametrize("connector", sorted(ARRIVING))
def test_what_counts_as_it_came_has_a_place_whoever_sent_it(connector: str) -> None:
    batch = "2026/s.0000019a00112233445566778899aabb"
    first, second = (position(connector, "c", came(batch, number), 0) for number in (9, 10))
    assert (first or b"") < (second or b"")
