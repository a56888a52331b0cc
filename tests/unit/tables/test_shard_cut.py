"""What the tables of a sharded table say of each other."""

import json
from dataclasses import replace

import pytest

from firn.changes.decode.types import INT, LONG, STRING
from firn.changes.placement.map_changes import merge, split
from firn.changes.placement.shard_map import Home
from firn.config.map_document import MapVersion
from firn.config.model import StreamConfig, TableRule
from firn.config.names import TableName
from firn.config.sharding import Sharding
from firn.errors import TerminalError
from firn.tables.shard_cut import (
    At,
    check,
    cut_in,
    in_another_warehouse,
    left_out,
    map_in,
    map_of,
    properties,
    summary,
    taken,
    under,
    under_others,
    version_in,
)
from firn.tables.shard_names import SHARD_OF, SHARD_WAREHOUSE, SHARDS, SHARDS_AT, SHARDS_MAP, shard_in
from firn.tables.table_state import TableState

PLAIN = TableRule("public.orders", "rest.orders", ("id",))
TENANTS = Sharding("tenant", "w", "{shard}.orders", values={"a": "a", "b": "b"}, kind=STRING)
HASHED = Sharding("hash", "n", "{shard}.orders", count=2, kind=INT)
REST, A = TableName("rest", "orders"), TableName("a", "orders")


def rule(shards: Sharding) -> TableRule:
    return TableRule("public.orders", "rest.orders", ("id",), shard=shards)


def state(said: dict[str, str]) -> TableState:
    return TableState("file:///t", said, (), None, ())


def test_tables_say_what_they_are() -> None:
    rest, other = properties(REST, rule(TENANTS)), properties(A, rule(TENANTS))
    assert (list(rest), other) == ([SHARDS], {SHARD_OF: "rest.orders"})
    assert properties(REST, PLAIN) == {}
    assert map_of(state(other)) is None
    assert (shard_in({}), shard_in(other)) == (None, "a shard of rest.orders")


def test_only_its_own_tables_are_taken_for_a_rules() -> None:
    rest, other = properties(REST, rule(TENANTS)), properties(A, rule(TENANTS))
    for name, said in ((REST, rest), (A, other)):
        check(name, rule(TENANTS), None)
        check(name, rule(TENANTS), state(said))
        with pytest.raises(TerminalError, match="there already, and no shard"):
            check(name, rule(TENANTS), state({}))
    check(REST, PLAIN, state({}))
    with pytest.raises(TerminalError, match="has no shard"):
        check(REST, PLAIN, state(rest))
    with pytest.raises(TerminalError, match="is a shard of rest"):
        check(A, PLAIN, state(other))
    with pytest.raises(TerminalError, match="changes by firn shards alone"):
        check(REST, rule(HASHED), state(rest))
    wider = Sharding("hash", "n", "{shard}.orders", count=2, kind=LONG)
    check(REST, rule(wider), state(properties(REST, rule(HASHED))))
    with pytest.raises(TerminalError, match="changes by firn shards alone"):
        check(REST, rule(HASHED), state(properties(REST, rule(wider))))


def test_the_newest_snapshot_that_names_shards_is_the_cut() -> None:
    at = {"a": At(7, 3, "s"), "b": At(8, 2, "of")}
    assert cut_in([{}, summary(at), summary({})], "s") == at
    assert cut_in([{}], "s") == {}
    assert cut_in([{SHARDS_AT: '{"a": [7, 3]}'}], "s") == {"a": At(7, 3, "s")}


def test_a_tables_snapshots_say_which_map_it_is_under_though_its_column_was_promoted() -> None:
    first = MapVersion(HASHED.map)
    rest = state(properties(REST, rule(HASHED)))
    found = map_of(rest)
    assert found is not None
    assert (found.number, list(found.tables.values())[-1], "firn.shards.map" in summary({}, first)) == (1, REST, False)
    wider = replace(HASHED, kind=LONG)
    second = MapVersion(wider.map).next(split(wider.map, "s1", "new", Home("new.orders")), "", "a test")
    third = second.next(merge(second.map, ["new"], "s0"), "", "a test")
    ancestry = [{}, summary({}, third, 3), summary({}, third, 2), summary({}, second, 1), summary({}, first)]
    assert [SHARDS_MAP in one for one in ancestry] == [False, False, True, True, False]
    assert map_of(replace(rest, ancestry=tuple(ancestry))) == third
    assert map_in(ancestry, wider) == third
    assert map_in(ancestry[3:], wider) == second
    assert [version_in(ancestry[n:]) for n in range(5)] == [3, 3, 3, 2, 1]
    assert third.left == {"new.orders"}
    with pytest.raises(ValueError, match=r"no snapshot of rest.orders has version 3 of the map of its shards"):
        map_in(ancestry[:2], wider)
    with pytest.raises(ValueError, match=r"the map in the snapshots of rest.orders is of a column of long"):
        map_in(ancestry, HASHED)


def test_what_was_decided_under_another_map_is_under_other_settings() -> None:
    settings = StreamConfig("s", ())
    assert under(rule(TENANTS), settings, 1) == under(rule(TENANTS), settings)
    assert under(rule(TENANTS), settings, 2) != under(rule(TENANTS), settings)


def test_epochs_that_a_dead_job_left_are_found() -> None:
    assert json.loads(taken([5, 3, 4, 9], "x")["firn.shard.epochs"]) == [[3, 5], [9, 9]]
    ahead = [{"firn.epoch.s": "9"} | taken([3, 4, 5, 9], "x"), {"firn.epoch.s": "2"} | taken([1, 2], "y")]
    assert left_out("s", ahead, 2, [3, 4, 5, 6, 9]) == []
    assert left_out("s", ahead, 2, [3, 5, 9, 10]) == [4]
    assert left_out("s", ahead, 9, []) == []


def test_epochs_that_were_decided_under_other_settings_are_found() -> None:
    stream = StreamConfig("s", "debezium", ())
    here = under(rule(TENANTS), stream)
    others = (
        under(replace(rule(TENANTS), snapshot_reads="ignore"), stream),
        under(rule(TENANTS), replace(stream, generation=1)),
        under(rule(TENANTS), replace(stream, out_of_range="dead_letter")),
    )
    assert len({here, *others}) == 4
    ahead = [{"firn.epoch.s": "9"} | taken([3], here), {"firn.epoch.s": "2"} | taken([1, 2], "y"), {}]
    assert not under_others("s", ahead, 2, here)
    assert under_others("s", ahead, 1, here)
    assert under_others("s", ahead, 2, others[0])
    compared = [{"firn.epoch.s": "10"} | taken([10], here, whole=True), {"firn.epoch.s": "9"} | taken([9], "y")]
    assert not under_others("s", compared, 2, here)
    assert left_out("s", compared, 2, [10]) == []


def test_a_table_is_a_shard_in_the_warehouse_that_it_was_made_in() -> None:
    there = replace(state({SHARD_WAREHOUSE: "eu"}), location="s3://acme-eu//lake/a/orders")
    where = "s3://acme-eu/lake"
    assert in_another_warehouse(A, None, "eu", where) is None
    assert in_another_warehouse(A, there, "eu", where) is None
    assert in_another_warehouse(A, state({}), "", "s3://lake") is None, "where the own one is may change"
    for found, name, words in (
        (there, "us", "a.orders lies in the warehouse eu, and its shard in the warehouse us: one catalog has no two"),
        (there, "", "its shard in the deployment's own warehouse"),
        (state({}), "eu", "lies in the deployment's own warehouse, and its shard in the warehouse eu"),
        (
            replace(there, location="s3://acme-eu/lake2/a"),
            "eu",
            "the warehouse eu is s3://acme-eu/lake by now: say in FI",
        ),
    ):
        assert words in str(in_another_warehouse(A, found, name, where))
    told = replace(TENANTS, warehouses={"a": "eu"})
    with pytest.raises(TerminalError, match="changes by firn shards alone"):
        check(REST, rule(told), state(properties(REST, rule(TENANTS))))
