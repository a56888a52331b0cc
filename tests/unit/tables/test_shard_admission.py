"""Which tenants of the rest become shards by themselves."""

from firn.changes.decode.types import STRING
from firn.changes.placement.map_changes import merge, move
from firn.changes.placement.shard_map import Home
from firn.config.map_document import MapVersion
from firn.config.names import TableName
from firn.config.sharding import Sharding
from firn.tables.shard_admission import admitted

OF = Sharding("tenant", "w", "{shard}.orders", values={"a": "a"}, most=3, kind=STRING)
FIRST = MapVersion(OF.map)
WHOLE = TableName.parse("Shop.orders")


def names(
    now: MapVersion, *values: object, of: Sharding = OF, databases: tuple[str, ...] = (), free: str = ""
) -> set[str]:
    def is_free(home: Home) -> bool:
        return home.table != free

    made = admitted(now, of, values, databases, is_free, "2026-01-01T00:00:00.000Z", WHOLE)
    return set(made.map.shards - now.map.shards) if made else set()


def test_names_that_fit_are_listed_as_long_as_there_is_room() -> None:
    assert names(FIRST, "b", "c", "d", "a", None, 7, "B", "x y") == {"b", "c"}
    made = admitted(FIRST, OF, ["b", "c"], (), lambda _: True, "now", WHOLE)
    assert made is not None
    assert (made.number, made.why, made.made_at) == (2, "new tenants: b, c", "now")
    assert names(made, "d") == set()


def test_who_can_not_have_a_table_takes_no_room() -> None:
    assert names(FIRST, "b", "c", "d", free="b.orders") == {"c", "d"}
    assert names(FIRST, "b", "c", "d", databases=("d", "x*")) == {"d"}
    long = Sharding("tenant", "w", "{shard}" + "." + "o" * 260, most=3, kind=STRING, rest="r")
    assert names(MapVersion(OF.map), "b", of=long) == set()
    reserved = Sharding("tenant", "w", "x.t__{shard}", most=3, kind=STRING)
    assert names(MapVersion(reserved.map), "deletes", "ok", of=reserved) == {"ok"}


def test_where_another_shard_was_moved_to_there_is_no_room_for_a_tenant() -> None:
    now = FIRST.next(move(FIRST.map, "a", Home("b.orders")), "", "")
    assert names(now, "b", "c") == {"c"}


def test_no_tenant_has_a_table_that_was_a_shard_by_another_spelling() -> None:
    """Some catalogs keep names in lower case: both are one table there."""
    assert names(MapVersion(OF.map, frozenset({"B.orders", "c.orders"})), "b", "c") == {"c"}


def test_no_tenant_has_the_table_that_all_shards_are_read_as() -> None:
    assert names(FIRST, "shop", "b") == {"b"}


def test_a_tenant_that_was_merged_into_the_rest_stays_there() -> None:
    now = FIRST.next(merge(FIRST.map, ["a"], "rest"), "", "")
    assert now.map.of("a") == "rest"
    assert names(now, "a", "b") == {"b"}


def test_a_table_has_at_most_a_hundred_shards() -> None:
    of = Sharding(
        "tenant", "w", "{shard}.orders", values={f"t{n}": f"t{n}" for n in range(98)}, most=5_000, kind=STRING
    )
    assert names(MapVersion(of.map), "x", "y", "z", of=of) == {"x"}
