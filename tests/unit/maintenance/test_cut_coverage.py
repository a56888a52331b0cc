"""What the rest's snapshots say of a shard that is to lose some of its own."""

import json

from firn.config.maintenance import Expiry
from firn.maintenance.cut_coverage import of_shard
from firn.maintenance.expiry import MAIN, Ref, Snapshot, Snapshots, plan
from firn.tables.shard_names import SHARDS_AT
from firn.tables.table_state import EPOCH


def rest(*cuts: dict[str, list[object]] | None) -> Snapshots:
    """Snapshots 1, 2, … in a row on main, with what each names."""
    return _row({n: {} if cut is None else {SHARDS_AT: json.dumps(cut)} for n, cut in enumerate(cuts, 1)})


def shard(first: int, *epochs: tuple[str, int]) -> Snapshots:
    """Snapshots from that one on, each of an epoch of a stream's."""
    return _row({n: {EPOCH + stream: str(epoch)} for n, (stream, epoch) in enumerate(epochs, first)})


def _row(told: dict[int, dict[str, str]]) -> Snapshots:
    found = {n: Snapshot(n, n - 1 if n - 1 in told else None, n, summary) for n, summary in told.items()}
    return Snapshots(found, (Ref(MAIN, "branch", max(found)),))


def test_what_any_of_them_names_stays_and_what_the_newest_does_not_name_yet() -> None:
    mine = shard(10, *(("s", n) for n in range(5)))
    found = of_shard(rest({"a": [11, 1], "b": [91, 1]}, {"a": [13, 3], "b": [92, 3]}, None), mine, ["s"])
    assert found.snapshots == {11, 13}
    assert found.epochs == {"s": 3}


def test_what_a_stream_of_a_former_name_brought_is_counted_and_goes() -> None:
    mine = shard(1, *(("old", n) for n in range(1, 41)), *(("new", n) for n in range(1, 41)))
    found = of_shard(rest({"a": [40, 40, "old"]}, {"a": [79, 39, "new"]}), mine, ["old", "new"])
    assert found.epochs == {"old": 40, "new": 39}
    expiry = Expiry(keep_seconds=0, at_least=5, at_most=10)
    kept = plan(mine, expiry, 10**6, must_stay={79}, counted=found.epochs).kept
    assert 80 in kept and len(kept) < 60  # noqa: PT018


def test_what_a_job_of_a_former_stream_leaves_later_is_to_be_asked() -> None:
    mine = shard(1, ("old", 7), ("new", 1), ("old", 8))
    assert of_shard(rest({"a": [2, 1, "new"]}), mine, ["old", "new"]).epochs == {"old": 7, "new": 1}


def test_of_a_shard_that_is_not_named_yet_all_is_to_be_asked() -> None:
    assert of_shard(rest({"b": [92, 9, "s"]}), shard(1, ("s", 8), ("s", 9)), ["s"]).epochs == {"s": 0}
    none = Snapshots({}, ())
    assert of_shard(none, shard(1, ("s", 1)), ["s"]) == of_shard(rest({}), shard(1, ("s", 1)), ["s"])
