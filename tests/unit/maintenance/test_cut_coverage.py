"""What the rest's snapshots say of a shard that is to lose some of its own."""

import json

from firn.maintenance.cut_coverage import of_shard
from firn.maintenance.expiry import MAIN, Ref, Snapshot, Snapshots
from firn.tables.shard_names import SHARDS_AT


def rest(*cuts: dict[str, list[object]] | None) -> Snapshots:
    """Snapshots 1, 2, … in a row on main, with what each names."""
    told = ({} if cut is None else {SHARDS_AT: json.dumps(cut)} for cut in cuts)
    found = {n: Snapshot(n, n - 1 or None, n, summary) for n, summary in enumerate(told, 1)}
    return Snapshots(found, (Ref(MAIN, "branch", len(cuts)),))


def test_what_any_of_them_names_stays_and_what_the_newest_does_not_name_yet() -> None:
    found = of_shard(
        rest({"a": [11, 1], "b": [91, 1]}, {"a": [13, 3], "b": [92, 3]}, None), {10, 11, 12, 13, 14}, ["s"]
    )
    assert found.snapshots == {11, 13}
    assert found.epochs == {"s": 0}, "whose epoch it is the cut does not say"


def test_the_epoch_is_that_of_the_stream_that_the_cut_names() -> None:
    cuts = ({"a": [11, 1, "s"]}, {"a": [13, 3, "s"], "b": [92, 9, "t"]})
    assert of_shard(rest(*cuts), {11, 12, 13}, ["s", "t"]).epochs == {"s": 3, "t": 0}
    assert of_shard(rest(*cuts), {92}, ["s", "t"]).epochs == {"s": 0, "t": 9}


def test_of_a_shard_that_is_not_named_yet_all_is_to_be_asked() -> None:
    assert of_shard(rest({"b": [92, 9, "s"]}), {1, 2}, ["s"]).epochs == {"s": 0}
    assert of_shard(Snapshots({}, ()), {1}, ["s"]) == of_shard(rest({}), {1}, ["s"])
