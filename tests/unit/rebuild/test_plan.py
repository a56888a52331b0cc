"""What a rebuild reads: which epochs, in which ranges, and what it says of a log that has holes."""

import json
from pathlib import Path

import pytest

from firn.config.model import Config
from firn.config.names import TableName
from firn.log import epochs, holds, layout, published_configs
from firn.log.batches import FORMAT
from firn.log.epochs import Epoch, EpochBatch
from firn.log.holds import Quarantine
from firn.log.store import Store, open_store, put
from firn.rebuild.plan import CannotRebuild, Part, plan, ranges, retyped, spans

ORDERS = TableName("lake", "orders")
TEXT = """
warehouse: file:///w
catalog: {type: sql}
streams:
  shop:
    generation: GENERATION
    tables:
      app.orders: {to: lake.orders, key: [id]}
      app.other: {to: lake.other, key: [id]}
  clicks:
    tables:
      web.clicks: {to: lake.clicks, mode: append}
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"file://{tmp_path}/staging")


def publish(store: Store, generation: int = 0) -> Config:
    return published_configs.publish(store, TEXT.replace("GENERATION", str(generation)))


def seal(store: Store, n: int, config: Config, *tables: str, size: int = 10) -> None:
    """Epoch `n`, sealed at minute `n`, with one staged batch."""
    batch = f"shop.{n:012x}{n:016x}"
    path = layout.staged_path(batch)
    put(store, path, b"staged")
    found = [EpochBatch(batch, path, size, len(tables))]
    at = f"2026-03-01T00:{n:02}:00.000Z"
    epoch = Epoch(FORMAT, "shop", n, "nonce", at, config.sha, found, dict.fromkeys(tables, 1))
    put(store, layout.epoch_path("shop", n), epochs.encode(epoch))


def five(store: Store) -> Config:
    config = publish(store)
    for n in (1, 2, 4, 5):
        seal(store, n, config, "app.orders")
    seal(store, 3, config, "app.other")
    return config


def only(parts: list[Part]) -> Part:
    (part,) = parts
    return part


def test_a_rebuild_reads_the_epochs_that_touch_the_table_up_to_the_newest(store: Store) -> None:
    part = only(plan(store, five(store), ORDERS))
    assert (part.stream, part.last, part.sources) == ("shop", 5, ("app.orders",))
    assert list(part.epochs) == [1, 2, 4, 5]


@pytest.mark.parametrize(
    ("to", "last"), [("2", 2), ("3", 3), ("2026-03-01T00:04:30", 4), ("2026-03-01T01:04:30+01:00", 4), ("5", 5)]
)
def test_to_is_an_epoch_or_the_last_one_sealed_by_a_time(store: Store, to: str, last: int) -> None:
    part = only(plan(store, five(store), ORDERS, to=to))
    assert part.last == last
    assert max(part.epochs) <= last


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("6", "epochs 1 to 5"),
        ("0", "epochs 1 to 5"),
        ("yesterday", "neither an epoch nor a time"),
        ("2020-01-01", "sealed later, 2026-03-01T00:01:00.000Z"),
    ],
)
def test_a_to_that_means_nothing_says_what_there_is(store: Store, to: str, said: str) -> None:
    with pytest.raises(CannotRebuild, match=said):
        plan(store, five(store), ORDERS, to=to)


def test_epochs_that_are_gone_are_named_and_what_is_left_can_be_had(store: Store) -> None:
    config = five(store)
    store.delete(layout.epoch_path("shop", 1))
    store.delete(layout.epoch_path("shop", 3))
    with pytest.raises(CannotRebuild, match=r"stream shop: epochs 1, 3 are not in storage.*--into NAME --partial"):
        plan(store, config, ORDERS)
    assert list(only(plan(store, config, ORDERS, partial=True)).epochs) == [2, 4, 5]


def test_staged_objects_that_are_gone_are_named_if_the_table_needs_them(store: Store) -> None:
    config = five(store)
    other, mine = (epochs.read(store, "shop", n) for n in (3, 4))
    assert other is not None
    assert mine is not None
    store.delete(other.batches[0].path)
    assert plan(store, config, ORDERS), "epoch 3 holds nothing of the table"
    store.delete(mine.batches[0].path)
    with pytest.raises(CannotRebuild, match=r"1 staged objects of epochs 4 are gone \(the first: staged/shop/.*\)"):
        plan(store, config, ORDERS)


def test_a_table_whose_whole_log_is_gone_is_not_taken_for_an_empty_one(store: Store) -> None:
    config = publish(store)
    with pytest.raises(CannotRebuild, match="stream shop: epochs 1 to 3 are not in storage"):
        plan(store, config, ORDERS, upto={"shop": 3})
    with pytest.raises(CannotRebuild, match=r"holds changes of lake\.orders"):
        plan(store, config, ORDERS)
    with pytest.raises(CannotRebuild, match=r"holds changes of old, no stream of firn\.yaml any more"):
        plan(store, config, ORDERS, upto={"old": 3})


def test_a_quarantined_epoch_is_left_out_as_its_batches_are_in_a_later_one(store: Store) -> None:
    config = five(store)
    holds.hold(store, Quarantine(FORMAT, "shop", 2, "2026-03-01T00:00:00.000Z", "killed", "m", "a", epoch=2))
    assert list(only(plan(store, config, ORDERS)).epochs) == [1, 4, 5]


def test_epochs_that_the_table_was_told_to_skip_stay_out(store: Store) -> None:
    config = five(store)
    held = Quarantine(
        FORMAT, "shop", 4, "2026-03-01T00:00:00.000Z", "failed", "m", "a", table="lake.orders", epoch=2, upto=4
    )
    holds.hold(store, held)
    assert list(only(plan(store, config, ORDERS)).epochs) == [1, 2, 4, 5]
    holds.lift(store, held, "skip", "2026-03-01T00:00:00.000Z")
    assert list(only(plan(store, config, ORDERS)).epochs) == [1, 5]


def test_ranges_are_bounded_and_the_last_ends_where_the_part_does(store: Store) -> None:
    config = publish(store)
    for n in range(1, 6):
        seal(store, n, config, "app.orders", size=40)
    seal(store, 6, config, "app.other")
    part = only(plan(store, config, ORDERS))
    assert [(one.last, list(one.epochs)) for one in ranges(part, 0, size=100)] == [(2, [1, 2]), (4, [3, 4]), (6, [5])]
    assert [(one.last, list(one.epochs)) for one in ranges(part, 3, size=1)] == [(4, [4]), (6, [5])]
    assert ranges(part, 6) == []


def test_a_range_ends_where_a_cut_told_the_progress(store: Store) -> None:
    part = only(plan(store, five(store), ORDERS))
    assert [(one.last, list(one.epochs)) for one in ranges(part, 0, stops={3})] == [(3, [1, 2]), (5, [4, 5])]
    assert [one.last for one in ranges(part, 0, stops={5})] == [5]
    assert [one.last for one in ranges(part, 0, stops={0})] == [5]


def metadata(*schemas: dict[str, int], made_with: int = 0) -> str:
    """A table with these schemas (name -> id), the last of them current, and a branch `b` of two snapshots."""
    fields = [[{"name": name, "id": number} for name, number in schema.items()] for schema in schemas]
    snapshots = [
        {"snapshot-id": 1, "schema-id": made_with},
        {"snapshot-id": 2, "schema-id": len(schemas) - 1, "parent-snapshot-id": 1},
    ]
    return json.dumps(
        {
            "schemas": [{"schema-id": n, "fields": one} for n, one in enumerate(fields)],
            "current-schema-id": len(schemas) - 1,
            "snapshots": snapshots,
            "refs": {"b": {"snapshot-id": 2, "type": "branch"}},
        }
    )


def test_a_branch_whose_files_lack_a_column_that_was_written_anew_is_told() -> None:
    assert not retyped(metadata({"id": 1, "v": 2}), "b")
    assert not retyped(metadata({"id": 1}, {"id": 1, "new": 3}), "b")
    assert retyped(metadata({"id": 1, "v": 2}, {"id": 1, "v": 3}), "b")
    assert not retyped(metadata({"id": 1, "v": 2}, {"id": 1, "v": 3}, made_with=1), "b")
    assert not retyped(metadata({"id": 1, "v": 2}, {"id": 1, "v": 3}), "no such branch")


def test_spans_are_short() -> None:
    assert spans([1, 2, 3, 7, 9, 10]) == "1 to 3, 7, 9 to 10"
    assert spans(range(1, 60, 2)).endswith("and 18 more spans")
