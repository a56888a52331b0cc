"""Files that no snapshot knows go; whatever any snapshot, branch, tag or statistic needs stays."""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from firn.changes.decode.types import STRING, Column
from firn.changes.metadata_columns import MIRROR_METADATA
from firn.config.maintenance import LEAST_ORPHAN_SECONDS
from firn.config.names import TableName
from firn.log.named_cuts import find
from firn.log.store import Store, open_store
from firn.maintenance import orphans as rules
from firn.tables.locations import spelled
from firn_lake.refs.keep import keep_cut
from firn_spark.maintenance import orphans
from firn_spark.maintenance.orphans import CannotTell, Orphans, _Used, remove
from firn_spark.tables import fence
from firn_spark.tables.evolve import Table, Tables
from tests.integration.spark.committing import append_rows, files_of
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.soak import long_only

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]
T = TableName("lake", "t")
DAY = LEAST_ORPHAN_SECONDS
RULE = "key: [id], columns: {v: string}, partition_by: [v]"


def table_of(lake: Lake, name: TableName = T) -> Table:
    found = Tables(lake.spark).load(name)
    assert found is not None
    return found


def folder(lake: Lake) -> Path:
    return lake.folder / "warehouse" / "lake" / "t"


def store_of(lake: Lake) -> Store:
    return open_store(table_of(lake).state.location)


def make_old(place: Path, seconds: int = DAY + 60) -> None:
    for path in place.rglob("*"):
        if path.name.endswith(".crc"):  # Hadoop's own, of a local file system
            path.unlink()
        elif path.is_file():
            os.utime(path, (time.time() - seconds,) * 2)


def all_files(place: Path) -> set[str]:
    return {str(path) for path in place.rglob("*") if path.is_file() and not path.name.endswith(".crc")}


def looked(lake: Lake, **how: Any) -> Orphans:
    table = table_of(lake)
    others = how.pop("others", None)
    others = orphans.places_of_others(lake.spark, table, lake.config.feeds_namespace) if others is None else others
    return remove(lake.spark, table, store_of(lake), DAY, datetime.now(UTC), others=others, **how)


def stray(lake: Lake, name: str, seconds: int = DAY + 60) -> Path:
    path = folder(lake) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"left")
    os.utime(path, (time.time() - seconds,) * 2)
    return path


def test_only_what_nothing_needs_goes(lake: Make) -> None:
    one = lake(config(RULE))
    values = ("a b", "ä/c", "50%", "x=1&y")
    one.land([event("c", 10 + n, {"id": n, "v": value}) for n, value in enumerate(values)])
    keep_cut(one.catalog, one.store, "kept", find(one.store, None, "spec"), one.now)
    one.land([event("d", 200, None, {"id": 0, "v": values[0]})])
    one.spark.sql("CALL firn.system.compute_table_stats('lake.t')").collect()
    one.catalog.load_table(T.identifier).manage_snapshots().create_branch(
        table_of(one).state.snapshot_id or 0, "mine"
    ).commit()
    before = all_files(folder(one))
    assert any(name.endswith(".stats") for name in before)
    make_old(folder(one))
    assert looked(one) == Orphans("lake.t", listed=len(before))

    gone = [
        stray(one, name) for name in ("data/left.parquet", "data/v=50%25/l%20ft", "metadata/left.metadata.json", "x")
    ]
    young = stray(one, "data/young.parquet", DAY - 60)
    dry = looked(one, dry_run=True)
    assert all_files(folder(one)) == before | {str(path) for path in (*gone, young)}
    done = looked(one)
    assert done == dry
    assert (done.files, done.bytes, done.failed) == (4, 16, 0)
    assert sorted(done.line()["sample"]) == sorted(str(path.relative_to(folder(one))) for path in gone)
    assert all_files(folder(one)) == before | {str(young)}
    referred, there = files_of(one.catalog.load_table(T.identifier))
    assert {name for name in referred if name.endswith(".parquet")} == there - {str(young)}
    assert len(one.rows("lake.t")) == 3


def test_a_day_is_the_least_age(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    path = stray(one, "data/left.parquet", DAY - 60)
    assert remove(one.spark, table_of(one), store_of(one), 0, datetime.now(UTC), others=()).files == 0
    assert path.exists()


def test_what_a_slow_job_has_written_and_not_committed_stays(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    real, found = fence.commit, []

    def commit(*given: Any) -> None:
        found.append(looked(one))
        real(*given)

    monkeypatch.setattr(fence, "commit", commit)
    one.land([event("c", 20, {"id": 2, "v": "b"})])
    assert [one.files for one in found] == [0]
    assert len(one.rows("lake.t")) == 2


def test_a_file_that_comes_into_use_meanwhile_stops_it(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job took longer than orphans_after: the second look sees that it was right, and nothing is deleted."""
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    gone = stray(one, "data/left.parquet")
    real, real_commit = rules.orphans, fence.commit
    waiting: list[Callable[[], None]] = []

    def commit(*given: Any) -> None:
        waiting.append(lambda: real_commit(*given))

    with monkeypatch.context() as patch:
        patch.setattr(fence, "commit", commit)
        rows = one.spark.table("firn.lake.t").selectExpr("id + 1 AS id", "v", "_firn_pos", "_firn_ts")
        append_rows(one.spark, table_of(one), rows, {"firn.epoch.spec": "2"}, "spec")
    make_old(folder(one))

    def land(*given: Any) -> Any:
        yield from list(real(*given))
        waiting.pop()()

    monkeypatch.setattr(rules, "orphans", land)
    with pytest.raises(CannotTell, match="uses 1 files"):
        looked(one)
    assert gone.exists()
    assert len(one.rows("lake.t")) == 2


@long_only
def test_where_listing_and_metadata_speak_of_different_files_nothing_goes(
    lake: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    gone = stray(one, "data/left.parquet")
    other = tmp_path / "elsewhere"
    (other / "data").mkdir(parents=True)
    (other / "data" / "f.parquet").write_bytes(b"of somebody else")
    make_old(other)
    with pytest.raises(CannotTell, match="does not show"):
        remove(one.spark, table_of(one), open_store(f"file://{other}"), DAY, datetime.now(UTC), others=())
    assert (other / "data" / "f.parquet").exists()
    none: frozenset[str] = frozenset()
    right = orphans._used(one.spark, table_of(one), spelled(table_of(one).state.location))
    wrong = frozenset(f"s3/{path}" for path in right.rows)
    for used, said in (
        (_Used(none, none, 0), "names no file"),
        (_Used(none, right.others, 0), "name 0"),
        (_Used(wrong, right.others, right.content), "is listed"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(orphans, "_used", lambda *_, used=used: used)
            with pytest.raises(CannotTell, match=said):
                looked(one)
    location = table_of(one).state.location
    with pytest.raises(CannotTell, match="too"):
        looked(one, others=[location.replace("file://", "file:")])
    assert gone.exists()
    assert len(one.rows("lake.t")) == 1


def test_the_files_of_a_table_below_are_its_own(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    tables = Tables(one.spark)
    inner = tables.create(
        TableName("lake", "x"), table_of(one).state.location, [Column("a", STRING)], MIRROR_METADATA, (), {}
    )
    assert inner.state.location.startswith(table_of(one).state.location)
    left = stray(one, "lake/x/data/f.parquet")
    make_old(folder(one))
    assert (looked(one).files, left.exists()) == (0, True)
    for path in (folder(one) / "lake" / "x" / "metadata").rglob("*.json"):
        path.unlink()  # nothing in the listing tells of it any more: the catalog's word is enough
    assert looked(one, others=[inner.state.location]).files == 0
    assert looked(one, others=[]).files == 1
    assert not left.exists()


class Stubborn:
    """A store that refuses to delete one file, and finds another one gone."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def delete(self, path: str) -> Any:
        if path.endswith("stays"):
            raise OSError("denied")
        if path.endswith("gone"):
            raise FileNotFoundError(path)
        return self._inner.delete(path)


def test_a_file_that_can_not_be_deleted_keeps_no_other(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    left = [stray(one, f"data/{name}") for name in ("a", "stays", "z", "gone")]
    stubborn: Any = Stubborn(store_of(one))
    done = remove(one.spark, table_of(one), stubborn, DAY, datetime.now(UTC), others=())
    assert (done.files, done.failed) == (4, 1)
    assert [path.name for path in left if path.exists()] == ["stays", "gone"]
