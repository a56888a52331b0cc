"""Which files are cold: by when they were last touched, and by how often they are read."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from firn.config.maintenance import Tiering
from firn.config.storage_classes import AZURE, GOOGLE, S3, ClassTable
from firn.errors import ConfigError
from firn.maintenance.tiering import (
    Decision,
    LiveDeletes,
    LiveFile,
    Reads,
    TimeTransform,
    decide,
    forecast,
    is_cold,
    upper_end,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
BY_AGE = Tiering(cold_seconds=90 * 86_400)
PREDICTIVE = Tiering(predictive=True)
LARGE = 50_000_000


def file(name: str, days: float, partition: str = "", **more: Any) -> LiveFile:
    """A file written so many days ago; in a partition by days, of a day that ended long ago."""
    if partition.startswith("day="):
        more.setdefault("until", NOW - 500 * DAY)
    return LiveFile(f"s3://lake/t/data/{name}", more.pop("size", LARGE), 1000, partition, NOW - days * DAY, **more)


def deletes(days: float, partition: str = "", of: LiveFile | None = None, **more: Any) -> LiveDeletes:
    path = of.path if of else None
    return LiveDeletes(partition, NOW - days * DAY, path, path, **more)


def moved(found: list[Decision]) -> list[str]:
    return [one.path.rpartition("/")[2] for decision in found for one in decision.move]


@pytest.mark.parametrize(("days", "cold"), [(89.9, False), (90, True), (400, True), (-3, False)])
def test_cold_is_what_was_not_touched_for_so_long(days: float, cold: bool) -> None:
    assert is_cold(NOW - days * DAY, BY_AGE, NOW) == cold
    assert not is_cold(NOW - days * DAY, Tiering(), NOW), "never, where no age is given"


def test_without_partitions_each_file_is_looked_at_alone() -> None:
    files = [file("old", 100), file("new", 1)]
    found = decide(files, [], BY_AGE, NOW)
    assert moved(found) == ["old"]
    assert [one.due for one in found] == [files[1].written + 90 * DAY, None]


@pytest.mark.parametrize(("classes", "first"), [(S3, "STANDARD_IA"), (AZURE, "Cool"), (GOOGLE, "NEARLINE")])
def test_files_go_to_the_first_cold_class_of_their_storage_and_on_and_never_back(
    classes: ClassTable, first: str
) -> None:
    files = [file(one.name, 100, kind=one.name) for one in classes.classes]
    assert moved(decide(files, [], BY_AGE, NOW, classes=classes)) == [classes.hot]
    last = classes.cold[-1]
    found = decide(files, [], replace(BY_AGE, storage_class=last), NOW, classes=classes)
    assert set(moved(found)) == {classes.hot, *classes.cold[:-1]}, "what is archived stays where it is"
    assert classes.chosen("") == first
    for other in {S3, AZURE, GOOGLE} - {classes}:
        with pytest.raises(ConfigError, match=f"is a storage class of {other.storage}, .* write {first}"):
            decide(files, [], replace(BY_AGE, storage_class=other.cold[1]), NOW, classes=classes)


def test_a_partition_of_time_is_cold_as_a_whole() -> None:
    files = [file("a", 100, "day=1"), file("late", 3, "day=1"), file("b", 100, "day=2"), file("c", 200, "day=2")]
    assert moved(decide(files, [], BY_AGE, NOW)) == ["b", "c"]


def test_a_time_that_has_not_ended_long_ago_keeps_its_partition_hot() -> None:
    old = file("early", 100, "day=2026-05-30", until=NOW - DAY)
    coming = file("ahead", 100, "day=2026-07-30", until=NOW + 60 * DAY)
    found = decide([old, coming], [], BY_AGE, NOW)
    assert moved(found) == []
    assert [one.reason for one in found] == ["touched 1 day ago", "touched by a time that has not ended"]


def test_rows_that_were_deleted_lately_keep_their_partition_hot() -> None:
    files = [file("a", 100, "day=1"), file("b", 100, "day=2")]
    assert moved(decide(files, [deletes(2, "day=1", files[0])], BY_AGE, NOW)) == ["b"]
    assert moved(decide(files, [deletes(95, "day=1", files[0])], BY_AGE, NOW)) == ["a", "b"]


def test_without_time_only_the_files_that_deletes_may_name_are_hot() -> None:
    files = [file("a", 100), file("b", 100), file("c", 100, sequence=9)]
    assert moved(decide(files, [deletes(2, of=files[0])], BY_AGE, NOW)) == ["b", "c"]
    wide = LiveDeletes("", NOW - 2 * DAY, files[0].path, files[1].path)
    assert moved(decide(files, [wide], BY_AGE, NOW)) == ["c"]
    # Bounds that are not told name everything, but nothing that was written after them.
    assert moved(decide(files, [deletes(2, sequence=5)], BY_AGE, NOW)) == ["c"]
    assert moved(decide(files, [deletes(2, "other")], BY_AGE, NOW)) == ["a", "b", "c"]


def test_the_newest_of_several_deletes_counts() -> None:
    one = file("a", 300)
    found = decide([one], [deletes(200, of=one), deletes(5), deletes(100, of=one)], BY_AGE, NOW)
    assert found[0].touched == NOW - 5 * DAY


@pytest.mark.parametrize(("size", "moves"), [(131_072, False), (131_073, True), (10, False)])
def test_small_files_are_never_moved(size: int, moves: bool) -> None:
    assert bool(moved(decide([file("a", 100, size=size)], [], BY_AGE, NOW))) == moves


@pytest.mark.parametrize("kind", ["STANDARD_IA", "INTELLIGENT_TIERING", "GLACIER_IR", "GLACIER"])
def test_what_is_as_cold_already_is_not_moved_again(kind: str) -> None:
    (found,) = decide([file("a", 100, kind=kind)], [], BY_AGE, NOW)
    assert (found.cold, found.move) == (True, ())


def test_what_has_its_tag_is_not_tagged_again_and_loses_it_when_it_is_touched() -> None:
    files = [file("a", 100, "day=1"), file("b", 100, "day=2"), file("gone on", 100, "day=2", kind="STANDARD_IA")]
    tagged = {one.path for one in files}
    found = decide(files, [deletes(1, "day=2")], BY_AGE, NOW, tagged=tagged)
    assert moved(found) == []
    assert [one.release for one in found] == [(), (files[1],)]


def test_a_table_without_a_policy_keeps_everything() -> None:
    (found,) = decide([file("a", 1000)], [], Tiering(), NOW)
    assert (found.cold, found.move, found.reason) == (False, (), "tiering is off for this table")


@pytest.mark.parametrize(
    ("transform", "ordinal", "end"),
    [
        ("year", 55, datetime(2026, 1, 1, tzinfo=UTC)),
        ("month", 671, datetime(2026, 1, 1, tzinfo=UTC)),
        ("month", 672, datetime(2026, 2, 1, tzinfo=UTC)),
        ("day", 20_453, datetime(2026, 1, 1, tzinfo=UTC)),
        ("hour", 490_895, datetime(2026, 1, 1, tzinfo=UTC)),
        ("day", -1, datetime(1970, 1, 1, tzinfo=UTC)),
        ("month", -1, datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_partition_of_time_ends(transform: TimeTransform, ordinal: int, end: datetime) -> None:
    assert upper_end(transform, ordinal) == end


@pytest.mark.parametrize("transform", ["year", "month", "day", "hour"])
def test_times_that_no_clock_shows_are_far_away_and_no_error(transform: TimeTransform) -> None:
    assert upper_end(transform, 2**31 - 2).year > 7000
    assert upper_end(transform, -(2**31)).year < 100


def test_reads_fade_and_come_in_any_order() -> None:
    times = [NOW - 40 * DAY, NOW - 3 * DAY, NOW - 10 * DAY]
    for order in (times, times[::-1]):
        reads = Reads(0.0, NOW - 100 * DAY)
        for when in order:
            reads = reads.add(when)
        assert reads.weight_at(NOW) == pytest.approx(math.exp(-40 / 30) + math.exp(-0.1) + math.exp(-10 / 30))


def test_steady_reads_are_foretold() -> None:
    reads = Reads(0.0, NOW - 400 * DAY)
    for days in range(365, 0, -3):
        reads = reads.add(NOW - days * DAY)
    ahead = forecast(reads, NOW - 365 * DAY, NOW)
    assert ahead.reads_a_month == pytest.approx(10, rel=0.1)
    assert ahead.next_days == pytest.approx(3, rel=0.1)


def test_nobody_reads_what_was_watched_for_long_and_never_read() -> None:
    assert forecast(None, NOW, NOW).reads_a_month == pytest.approx(2), "who has not watched assumes reads"
    assert forecast(None, NOW - 30 * DAY, NOW).reads_a_month == pytest.approx(2 * math.exp(-1))
    assert forecast(None, NOW - 400 * DAY, NOW).next_days is None


def test_predictive_moves_only_what_pays() -> None:
    files = [file("idle", 100, "day=1"), file("busy", 100, "day=2")]
    busy = Reads(12.0, NOW - DAY)
    since = NOW - 100 * DAY
    found = decide(files, [], PREDICTIVE, NOW, reads={"day=2": busy}, recorded_since=since)
    assert moved(found) == ["idle"]
    assert found[1].reason.startswith("read about 12 times a month")
    found = decide(files, [], PREDICTIVE, NOW, reads={"*": busy}, recorded_since=since)
    assert moved(found) == [], "reads of the whole table are reads of each partition"
    assert moved(decide(files, [], PREDICTIVE, NOW)) == [], "who has watched nothing knows nothing"


def test_predictive_takes_nothing_that_was_touched_today() -> None:
    since = NOW - 400 * DAY
    assert moved(decide([file("a", 0.5)], [], PREDICTIVE, NOW, recorded_since=since)) == []


def test_prediction_also_keeps_what_is_old_and_read() -> None:
    both = Tiering(cold_seconds=90 * 86_400, predictive=True)
    reads = {"": Reads(12.0, NOW - DAY)}
    since = NOW - 400 * DAY
    assert moved(decide([file("a", 100)], [], both, NOW, reads=reads, recorded_since=since)) == []
    assert moved(decide([file("a", 100)], [], both, NOW, recorded_since=since)) == ["a"]


def test_a_move_that_would_cost_more_than_it_saves_is_not_made() -> None:
    small = [file(f"{n}", 300, "p", size=132_000) for n in range(50)]
    policy = Tiering(predictive=True, storage_class="GLACIER_IR")
    since = NOW - 400 * DAY
    assert moved(decide(small, [], policy, NOW, recorded_since=since)) != []
    assert moved(decide(small, [], policy, NOW, recorded_since=NOW - 20 * DAY)) == []
