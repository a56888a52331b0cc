"""Which snapshots may go, and which stay so that nobody forgets anything."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from firn.config.maintenance import Expiry
from firn.maintenance.expiry import LEAST, Plan, Ref, Snapshot, Snapshots, plan, read, told
from firn.tables.table_state import parse

NOW = 1_000_000_000
MINUTE = 60_000
SOME = Expiry(keep_seconds=600, at_least=20, at_most=50)


def line(*summaries: Mapping[str, str], every: int = MINUTE, more: Sequence[Ref] = ()) -> Snapshots:
    """A chain on main, oldest first, numbered from 1, one each minute up to now."""
    count = len(summaries)
    every_one = {
        n: Snapshot(n, n - 1 or None, NOW - (count - n) * every, summary) for n, summary in enumerate(summaries, 1)
    }
    return Snapshots(every_one, (Ref("main", "branch", count), *more))


def commits(first: int, count: int, stream: str = "shop") -> list[dict[str, str]]:
    return [{f"firn.epoch.{stream}": str(n), f"firn.sealed.{stream}": f"x{n}"} for n in range(first, first + count)]


def test_the_newest_and_the_young_stay() -> None:
    found = plan(line(*commits(1, 100)), SOME, NOW)
    assert found.expired == tuple(range(1, 81))
    assert found.kept[81] == found.kept[100] == "one of the newest"
    assert found.plain
    assert found.worth
    found = plan(line(*commits(1, 100), every=15_000), SOME, NOW)  # ten minutes: 41 of them
    assert found.expired == tuple(range(1, 59))
    assert found.kept[60] == "young"
    assert found.carry == {}


def test_at_most_so_many_stay_however_young_they_are() -> None:
    assert len(plan(line(*commits(1, 100), every=1), SOME, NOW).kept) == 50


def test_never_fewer_than_twenty_stay_on_main() -> None:
    found = plan(line(*commits(1, 100)), Expiry(keep_seconds=1, at_least=1, at_most=1), NOW)
    assert len(found.kept) == 20


def test_a_merge_at_the_end_takes_the_commit_below_it_along() -> None:
    """The merge tells no progress: were it the last, a rollback to it would find none."""
    every = [*commits(1, 40), *[{"operation": "replace"}] * 3, *commits(41, 19)]
    found = plan(line(*every), Expiry(keep_seconds=1, at_least=20, at_most=50), NOW)
    assert sorted(found.kept) == list(range(40, 63))
    assert "tells" in found.kept[40]


def test_a_twin_that_landed_late_does_not_hide_the_progress() -> None:
    every = [*commits(1, 30), *commits(40, 1), *commits(31, 20)]  # 40, then 31 to 50: below 40 they tell too little
    found = plan(line(*every), Expiry(keep_seconds=1, at_least=20, at_most=50), NOW)
    assert min(found.kept) == 31
    assert parsed(found, line(*every)) == told(every)


def test_what_no_cut_has_counted_yet_stays() -> None:
    found = plan(line(*commits(1, 100)), SOME, NOW, counted={"shop": 60, "other": 0})
    assert found.expired == tuple(range(1, 61))
    assert found.kept[61] == "no cut counts it yet"


def test_an_idle_stream_keeps_a_chain_only_until_its_progress_was_carried() -> None:
    every = [*commits(1, 5, "idle"), *commits(1, 95)]
    found = plan(line(*every), SOME, NOW)
    assert found.expired == (1, 2, 3, 4)  # the fifth tells of the stream that has been idle since
    assert found.carry == told(every)
    assert found.carry["firn.epoch.idle"] == "5"
    assert found.carry["firn.sealed.idle"] == "x5"
    later = [*every, found.carry, *commits(96, 19)]
    found = plan(line(*later), SOME, NOW)
    assert sorted(found.kept) == list(range(101, 121))
    assert parsed(found, line(*later)) == told(later)
    assert plan(line(*later[:105]), SOME, NOW).carry == {}  # it has only just been


def test_however_many_streams_feed_a_table_it_keeps_little_more_than_it_should() -> None:
    every = [*commits(1, 3, "idle"), *commits(1, 3, "slow")]
    longest = 0
    for n in range(1, 600):
        every.append({"firn.epoch.shop": str(n)} if n % 50 else {"firn.epoch.slow": str(n)})
        before = told(every)
        found = plan(line(*every), SOME, NOW)
        if found.carry:
            every.append(dict(found.carry))
        elif found.worth:
            every = every[len(found.expired) :]
        assert told(every) == before
        longest = max(longest, len(every))
    assert longest <= 20 + 3 * LEAST
    assert before["firn.epoch.idle"] == "3"


def test_a_table_that_was_rebuilt_is_told_of_as_one() -> None:
    every: list[dict[str, str]] = [{"firn.rebuild": "2"}, *commits(1, 99)]
    found = plan(line(*every), SOME, NOW)
    assert found.expired == ()
    assert found.carry["firn.rebuild"] == "2"
    assert found.carry["firn.epoch.shop"] == "99"
    later = [*every, found.carry, *commits(100, 30)]
    assert min(plan(line(*later), SOME, NOW).kept) == 101


def test_what_facts_say_stays_said() -> None:
    facts = [{**one, "firn.newest": f"{n:04x}"} for n, one in enumerate(commits(1, 50), 1)]
    facts[3] |= {"firn.truncated": "0004", "firn.creates": "true"}
    found = plan(line(*facts), Expiry(1, 20, 20), NOW)
    assert found.expired == (1, 2, 3)
    for one in facts[4:]:
        one |= {"firn.truncated": "0004", "firn.creates": "true"}
    assert len(plan(line(*facts), Expiry(1, 20, 20), NOW).kept) == 20


def test_tags_stay_with_what_tells_for_them_and_nothing_else_of_their_past() -> None:
    every = [*commits(1, 10), {"operation": "replace"}, *commits(11, 60)]
    found = plan(line(*every, more=[Ref("month-end", "tag", 11), Ref("x", "tag", 3)]), SOME, NOW)
    assert {n for n in found.kept if n < 50} == {3, 10, 11}
    assert found.kept[11] == "tag month-end"
    assert not found.plain


def test_a_ref_whose_own_age_is_over_goes() -> None:
    old, young = Ref("old", "tag", 5, max_ref_age_ms=MINUTE), Ref("young", "tag", 5, max_ref_age_ms=10**9)
    found = plan(line(*commits(1, 60), more=[old]), SOME, NOW)
    assert found.refs == ("old",)
    assert 5 in found.expired
    assert 5 in plan(line(*commits(1, 60), more=[young]), SOME, NOW).kept


def test_the_branch_of_a_rebuild_stays_whole_and_others_by_their_own_settings() -> None:
    main = line(*commits(1, 60))
    fork = {100 + n: Snapshot(100 + n, 99 + n if n else None, NOW - 10**8 + n, {"b": "1"}) for n in range(30)}
    every = dict(main.all) | fork
    for name, settings, stays in (
        ("rebuild-1", {}, 30),
        ("mine", {}, 20),
        ("mine", {"min_snapshots": 2}, 2),
        ("mine", {"max_snapshot_age_ms": 10**8 - 5}, 25),
    ):
        ref = Ref(name, "branch", 129, **settings)
        found = plan(Snapshots(every, (*main.refs, ref)), SOME, NOW)
        assert sorted(n for n in found.kept if n >= 100) == list(range(130 - stays, 130))
        assert not found.plain


def test_what_was_rolled_back_goes_by_its_age_alone() -> None:
    main = line(*commits(1, 30))
    lost = {200: Snapshot(200, 12, NOW - MINUTE), 201: Snapshot(201, 12, NOW - 11 * MINUTE)}
    found = plan(Snapshots(dict(main.all) | lost, main.refs), SOME, NOW)
    assert 200 in found.kept
    assert 201 in found.expired


def test_what_a_cut_names_stays() -> None:
    found = plan(line(*commits(1, 60)), SOME, NOW, must_stay=[7, 999])
    assert found.kept[7] == "a cut or a fact names it"
    assert 6 in found.expired
    assert not found.plain


def test_settings_of_iceberg_that_would_take_more_stop_it() -> None:
    every = line(*commits(1, 60))
    for ref in (Ref("main", "branch", 60, min_snapshots=1), Ref("main", "branch", 60, max_snapshot_age_ms=1)):
        found = plan(Snapshots(every.all, (ref,)), SOME, NOW)
        assert found.expired == ()
        assert "main" in found.refused
    rebuild = Ref("rebuild-3", "branch", 30, max_ref_age_ms=1)
    found = plan(line(*commits(1, 60), more=[rebuild]), SOME, NOW)
    assert "rebuild-3" in found.refused


def test_a_busy_job_waits_until_there_is_something_to_let_go() -> None:
    assert not plan(line(*commits(1, 20 + LEAST - 1)), SOME, NOW).worth
    assert plan(line(*commits(1, 20 + LEAST)), SOME, NOW).worth
    many = Expiry(keep_seconds=1, at_least=500, at_most=500)
    assert not plan(line(*commits(1, 549)), many, NOW).worth
    assert plan(line(*commits(1, 550)), many, NOW).worth


def test_metadata_is_read_as_iceberg_writes_it() -> None:
    text = json.dumps(
        {
            "current-snapshot-id": 2,
            "properties": {"history.expire.max-ref-age-ms": "77"},
            "snapshots": [
                {"snapshot-id": 1, "timestamp-ms": 5, "summary": {"operation": "append", "a": "b"}},
                {"snapshot-id": 2, "parent-snapshot-id": 1, "timestamp-ms": 6},
            ],
            "refs": {
                "main": {"snapshot-id": 2, "type": "branch"},
                "t": {"snapshot-id": 1, "type": "tag"},
                "b": {
                    "snapshot-id": 1, "type": "branch", "max-ref-age-ms": 1, "max-snapshot-age-ms": 2,
                    "min-snapshots-to-keep": 3,
                },
            },
        }
    )  # fmt: skip
    found = read(text)
    assert found.all[1] == Snapshot(1, None, 5, {"operation": "append", "a": "b"})
    assert found.all[2] == Snapshot(2, 1, 6, {})
    assert found.refs == (
        Ref("main", "branch", 2), Ref("t", "tag", 1, max_ref_age_ms=77), Ref("b", "branch", 1, 1, 2, 3),
    )  # fmt: skip
    older = json.loads(text) | {"refs": None, "properties": {}}
    assert read(json.dumps(older)).refs == (Ref("main", "branch", 2),)
    assert read('{"current-snapshot-id": -1}') == Snapshots({}, ())


def test_a_table_without_snapshots_has_none_to_let_go() -> None:
    assert plan(Snapshots({}, ()), SOME, NOW) == Plan(plain=False)


def parsed(found: Plan, snapshots: Snapshots) -> dict[str, Any]:
    """What the table tells once these have gone."""
    left = Snapshots({n: one for n, one in snapshots.all.items() if n in found.kept}, snapshots.refs)
    main = next(ref.snapshot for ref in snapshots.refs if ref.name == "main")
    return told([one.summary for one in left.chain(main)][::-1])


def test_it_tells_as_the_job_reads_it() -> None:
    every = [*commits(3, 4), *commits(1, 2), {"firn.rebuild": "1"}, *commits(4, 1, "b"), {"firn.epoch.b": "4"}]
    snapshots = [
        {"snapshot-id": n, "parent-snapshot-id": n - 1 or None, "timestamp-ms": n, "summary": one}
        for n, one in enumerate(every, 1)
    ]
    schema = {"schema-id": 0, "fields": []}
    text = {"schemas": [schema], "current-schema-id": 0, "location": "x", "current-snapshot-id": len(every)}
    state = parse(json.dumps(text | {"snapshots": snapshots}))
    found = told(every)
    assert found["firn.epoch.shop"] == str(state.progress("shop")) == "6"
    assert found["firn.sealed.shop"] == state.sealed("shop") == "x6"
    assert found["firn.epoch.b"] == str(state.progress("b")) == "4"
    assert found.get("firn.sealed.b") is state.sealed("b") is None
    assert found["firn.rebuild"] == str(state.basis.rebuilt) == "1"


def test_what_was_the_newest_at_some_time_since_counts_as_young() -> None:
    """However old it is: whoever fell behind when the next one came is of it."""
    quiet = line(*commits(1, 60), every=10)
    old = {n: replace(one, ms=one.ms - 10**9) for n, one in quiet.all.items() if n <= 30}
    found = plan(replace(quiet, all={**quiet.all, **old}), SOME, NOW)
    assert (found.expired, found.kept[30]) == (tuple(range(1, 30)), "young")


def test_what_a_view_is_of_is_carried_on() -> None:
    refreshed = {"firn.epoch._view": "1", "firn.view.sql": "x", "firn.view.sources": "{}"}
    found = plan(line(refreshed, *[{}] * 99), SOME, NOW)
    assert dict(found.carry) == refreshed
    carried = plan(line(refreshed, *[{}] * 99, found.carry, *[{}] * 30), SOME, NOW)
    assert 1 in carried.expired
