"""A table's Health from its files, and the hour's budget that it counts."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from firn.config.maintenance import Compaction
from firn.log.table_health import Health
from firn.maintenance.compaction_planner import DataFile, DeleteFile, plan
from firn.maintenance.health import Versions, compacted, health_of, left, spent

NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)
POLICY = Compaction(target_bytes=1_000, budget_bytes=500)


def look(files: list[DataFile], known: Health | None = None) -> Health:
    names = {(0, "1"): "day=2026-11-22"}
    deletes = [DeleteFile("d", 7, 3, partition="1", sequence=9)]
    versions = Versions(2, 3, NOW - timedelta(days=1), 4_000, by_others=2, rewrite_manifests=1)
    return health_of("lake.t", NOW, files, deletes, plan(files, POLICY, 0), POLICY, versions, names, known)


def test_a_health_tells_what_is_there_and_what_is_worth_writing_anew() -> None:
    small = [DataFile(f"s{n}", 10, 5, partition="1") for n in range(6)]
    found = look([*small, DataFile("cold", 900, 50, partition="2", cold=True)])
    assert (found.files, found.bytes, found.rows, found.small) == (7, 960, 80, 6)
    assert (found.delete_files, found.delete_bytes, found.deleted) == (1, 7, 3)
    assert (found.manifests, found.snapshots, found.metadata_bytes) == (2, 3, 4_000)
    assert (found.by_others, found.rewrite_manifests) == (2, 1)
    assert found.oldest == "2026-11-21T10:00:00.000Z"
    assert (found.cold_files, found.cold_bytes) == (1, 900)
    assert (found.rewrite_files, found.rewrite_bytes) == (6, 60)
    [worst] = found.partitions
    assert (worst.name, worst.files, worst.bytes, worst.small) == ("day=2026-11-22", 6, 60, 6)
    assert (worst.delete_files, worst.rewrite_bytes) == (1, 60)


def test_a_table_without_debt_names_no_partition() -> None:
    found = look([DataFile("a", 1_000, 5)])
    assert (found.small, found.rewrite_bytes, found.partitions) == (0, 0, ())


def test_what_was_found_and_done_before_is_kept() -> None:
    known = Health("lake.t", "", orphans=2, orphan_bytes=5, orphans_at="a", compacted_at="b", compacted_bytes=9)
    found = look([], replace(known, expired_at="c", tiered_at="d", files=99))
    assert (found.orphans, found.orphan_bytes, found.orphans_at) == (2, 5, "a")
    assert (found.compacted_at, found.compacted_bytes, found.expired_at, found.tiered_at) == ("b", 9, "c", "d")
    assert found.files == 0


def test_an_hours_budget_is_used_up_by_its_own_rewrites_only() -> None:
    known = compacted(Health("lake.t", ""), NOW, 300)
    soon = NOW + timedelta(minutes=30)
    assert (spent(known, soon), left(known, POLICY, soon)) == (300, 200)
    more = compacted(known, soon, 250)
    assert (spent(more, soon), left(more, POLICY, soon)) == (550, 0)
    assert left(more, POLICY, NOW + timedelta(minutes=61)) == 500
    assert left(None, POLICY, NOW) == 500


def test_a_look_in_vain_does_not_begin_the_hour_anew() -> None:
    known = compacted(Health("lake.t", ""), NOW, 300)
    vain = compacted(known, NOW + timedelta(minutes=50), 0)
    assert (vain.compacted_at, vain.compacted_bytes) == (known.compacted_at, 300)
    later = compacted(vain, NOW + timedelta(minutes=61), 0)
    assert (later.compacted_at, later.compacted_bytes) == ("2026-11-22T11:01:00.000Z", 0)
