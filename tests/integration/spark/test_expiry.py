"""Old snapshots go with their files, and nobody who works on the table or reads it sees a difference."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table as Loaded
from pyspark.sql import SparkSession

from firn.config.maintenance import Expiry
from firn.config.names import TableName
from firn.log import cuts
from firn.log.named_cuts import find
from firn.log.store import paths
from firn.maintenance import expiry as rules
from firn.maintenance.expiry import told
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.reading.moments import snapshot_in
from firn_lake.refs.keep import keep_cut
from firn_spark.maintenance import expiry
from firn_spark.maintenance.delete_memory_expiry import GRACE, Forgotten, forget
from firn_spark.maintenance.expiry import Expired, expire, expire_all
from firn_spark.merge.facts_table import KEEP
from firn_spark.tables import fence
from firn_spark.tables.evolve import Table, Tables
from tests.integration.snapshots import epochs_of
from tests.integration.spark.committing import append_rows, files_of, unknown
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import GONE, config, event
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]
T = TableName("lake", "t")
FEW = Expiry(keep_seconds=1, at_least=1, at_most=1)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three snapshots are enough."""
    monkeypatch.setattr(rules, "FEWEST_SNAPSHOTS", 3)
    monkeypatch.setattr(rules, "LEAST", 2)


def soon() -> datetime:
    """When everything of today is old."""
    return datetime.now(UTC) + timedelta(hours=1)


def table_of(lake: Lake, name: TableName = T) -> Table:
    found = Tables(lake.spark).load(name)
    assert found is not None
    return found


def loaded(lake: Lake, name: TableName = T) -> Loaded:
    return lake.catalog.load_table(name.identifier)


def rows(lake: Lake, snapshot: int | None = None) -> list[str]:
    return sorted(map(repr, loaded(lake).scan(snapshot_id=snapshot).to_arrow().to_pylist()))


def says(lake: Lake, name: TableName = T) -> dict[str, str]:
    return told(reversed(table_of(lake, name).state.ancestry))


def changes(n: int) -> list[dict[str, Any]]:
    lsn = 100 + 10 * n
    made = [event("c", lsn, {"id": n, "v": f"v{n}"}), event("u", lsn + 1, {"id": n // 2, "v": f"u{n}"})]
    return made + ([event("d", lsn + 2, None, before={"id": n - 2})] if n > 1 else [])


def folded(count: int) -> dict[int, str]:
    """The values by id after so many of the `changes`."""
    expected: dict[int, str] = {}
    for n in range(count):
        expected |= {n: f"v{n}"}
        expected |= {n // 2: f"u{n}"}
        expected.pop(n - 2, None)
    return expected


def values(lake: Lake) -> dict[int, str]:
    return {key: row["v"] for key, row in lake.by_key("lake.t", "id").items()}


def whole(lake: Lake, name: TableName = T) -> None:
    """Every file of every snapshot is there, and no other data file."""
    referred, there = files_of(loaded(lake, name))
    assert {file for file in referred if file.endswith(".parquet")} == there
    assert all(Path(file).exists() for file in referred)


@long_only
def test_what_nobody_needs_goes_and_nothing_else(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "FEWEST_SNAPSHOTS", 8)
    one, twin = Lake(spark, tmp_path, config()), Lake(spark, tmp_path, config())
    kept_rows: list[str] = []
    stale: Table | None = None
    for n in range(26):
        one.land(changes(n))
        if n == 9:
            keep_cut(one.catalog, one.store, "month-end", find(one.store, None, "spec"), one.now)
            kept_rows = rows(one)
        if n == 24:
            stale = table_of(twin)
    count = len(loaded(one).metadata.snapshots)
    before, was, history = rows(one), says(one), {n: rows(one, n) for n in newest(one, 8)}
    files = sum(1 for _ in (tmp_path / "warehouse").rglob("*.parquet"))

    look = expire(one.spark, table_of(one), FEW, soon(), dry_run=True)
    assert len(loaded(one).metadata.snapshots) == count
    done = list(expire_all(one.spark, one.store, table_of(one), FEW, soon()))
    mine, facts = (line for line in done if isinstance(line, Expired))
    assert mine.snapshots == look.snapshots == count - mine.kept
    assert mine.line()["snapshots"] > 10
    assert facts.snapshots > 10
    table = loaded(one)
    assert len(table.metadata.snapshots) == mine.kept <= 11
    assert rows(one) == before
    assert says(one) == was
    assert {n: rows(one, n) for n in history} == history
    whole(one)
    whole(one, TableName("lake", "t__deletes"))
    assert sum(1 for _ in (tmp_path / "warehouse").rglob("*.parquet")) < files

    # The kept cut is readable, an earlier one says what became of it, and the account is still right.
    cut = find(one.store, "month-end", None)
    assert rows(one, snapshot_in(table, cut)[0]) == kept_rows
    gone = cuts.read(one.store, "spec", 5)
    assert gone is not None
    with pytest.raises(NoSuchMoment, match="has expired"):
        snapshot_in(table, gone)
    found = audited(one)
    assert (found.differences, found.difference, found.uncounted) == ([], 0, 0)
    assert found.acked == sum(len(changes(n)) for n in range(26))

    # The next commit works, late changes are still late, and a job that looked before is refused.
    assert one.commit(26) == 0
    assert len(loaded(one).metadata.snapshots) == mine.kept
    one.land([*changes(26), event("u", 105, {"id": 21, "v": "late"})])
    assert epochs_of(loaded(one), "spec")[-1] == 27
    assert values(one) == folded(27)
    assert stale is not None
    with pytest.raises(fence.LostRace):
        append_rows(twin.spark, stale, twin.spark.table("firn.lake.t").limit(1), {"firn.epoch.spec": "26"}, "spec")
    again = expire(one.spark, table_of(one), FEW, soon())
    assert again.snapshots <= 2
    whole(one)


def newest(lake: Lake, count: int) -> list[int]:
    table = loaded(lake)
    by_id = {one.snapshot_id: one for one in table.metadata.snapshots}
    found: list[int] = []
    at = table.metadata.current_snapshot_id
    while at is not None and len(found) < count:
        found.append(at)
        at = by_id[at].parent_snapshot_id
    return found


@long_only
@pytest.mark.usefixtures("few")
def test_a_busy_job_lets_snapshots_go_only_when_it_is_worth_it(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = lake(config())
    for n in range(4):
        one.land(changes(n))
    monkeypatch.setattr(expiry, "FEWEST_SNAPSHOTS", 3)
    with monkeypatch.context() as patch:
        patch.setattr(Tables, "metadata", lambda *_: pytest.fail("nobody asked"))
        assert expire(one.spark, table_of(one), FEW, soon(), busy=True).line() == {
            "snapshots": 0, "kept": 4, "waiting": 0, "carried": False
        }  # fmt: skip
    monkeypatch.setattr(expiry, "LEAST", 1)
    found = expire(one.spark, table_of(one), FEW, soon(), busy=True)
    assert (found.snapshots, found.waiting) == (0, 1)
    assert len(loaded(one).metadata.snapshots) == 4
    monkeypatch.setattr(rules, "LEAST", 1)
    found = expire(one.spark, table_of(one), FEW, soon(), busy=True)
    assert (found.snapshots, found.kept, found.plan.plain) == (1, 3, True)
    assert len(loaded(one).metadata.snapshots) == 3
    whole(one)


@pytest.mark.usefixtures("few")
def test_commits_and_expiry_may_come_between_each_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit is under way while its table loses snapshots, and the other way round."""
    one, other = Lake(spark, tmp_path, config()), Lake(spark, tmp_path, config())
    for n in range(6):
        one.land(changes(n))
    real, passed = fence.commit, []

    def commit(spark: Any, table: Any, *rest: Any) -> None:
        if str(table.name) == "lake.t" and not passed:
            passed.append(expire(other.spark, table_of(other), FEW, soon()))
        real(spark, table, *rest)

    monkeypatch.setattr(fence, "commit", commit)
    one.land(changes(6))
    assert passed[0].snapshots == 3
    assert len(loaded(one).metadata.snapshots) == 4
    real_let_go = expiry._let_go

    def let_go(*given: Any) -> None:
        monkeypatch.setattr(expiry, "_let_go", real_let_go)
        one.land(changes(7))
        real_let_go(*given)

    monkeypatch.setattr(expiry, "_let_go", let_go)
    assert expire(other.spark, table_of(other), FEW, soon()).snapshots == 1
    assert len(loaded(one).metadata.snapshots) == 4
    whole(one)
    assert values(one) == folded(8)
    assert epochs_of(loaded(one), "spec")[-1] == 8
    assert audited(one).differences == []


@long_only
@pytest.mark.usefixtures("few")
def test_a_tag_that_is_made_meanwhile_is_not_taken_away(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = lake(config())
    for n in range(6):
        one.land(changes(n))
    first = min(loaded(one).metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0).snapshot_id
    real = expiry._let_go
    for plain in (True, False):

        def let_go(*given: Any, lake: Lake = one, name: str = f"tag-{plain}") -> None:
            loaded(lake).manage_snapshots().create_tag(first, name).commit()
            real(*given)

        monkeypatch.setattr(expiry, "_let_go", let_go)
        if plain:
            assert expire(one.spark, table_of(one), FEW, soon()).plan.plain
            assert {first, *newest(one, 3)} == {one.snapshot_id for one in loaded(one).metadata.snapshots}
        else:
            loaded(one).manage_snapshots().create_tag(newest(one, 1)[0], "any").commit()
            loaded(one).manage_snapshots().remove_tag("tag-True").commit()
            with pytest.raises(fence.LostRace, match="Still referenced"):
                expire(one.spark, table_of(one), FEW, soon())
        assert loaded(one).snapshot_by_id(first) is not None
        whole(one)


@long_only
@pytest.mark.usefixtures("few")
def test_when_nobody_knows_whether_it_went_nothing_is_cleaned_up(lake: Make) -> None:
    one = lake(config())
    for n in range(6):
        one.land(changes(n))
    for applied in (False, True):
        table = table_of(one)
        table.java = Unsure(table.java, one.spark, applied)
        there = set((one.folder / "warehouse").rglob("*.avro"))
        with pytest.raises(fence.CommitUnknown):
            expire(one.spark, table, FEW, soon())
        assert set((one.folder / "warehouse").rglob("*.avro")) == there
        assert len(loaded(one).metadata.snapshots) == (3 if applied else 6)
    one.land(changes(6))


class Unsure:
    """A table whose expiry is applied or not, and whose answer is lost."""

    def __init__(self, java: Any, spark: SparkSession, applied: bool) -> None:
        self._java, self._spark, self._applied = java, spark, applied

    def __getattr__(self, name: str) -> Any:
        return getattr(self._java, name)

    def expireSnapshots(self) -> Any:
        return _Update(self._java.expireSnapshots(), self._spark, self._applied)


class _Update:
    def __init__(self, update: Any, spark: SparkSession, applied: bool) -> None:
        self._update, self._spark, self._applied = update, spark, applied

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> "_Update":
            getattr(self._update, name)(*given)
            return self

        return call

    def commit(self) -> None:
        if self._applied:
            self._update.cleanExpiredFiles(False).commit()
        raise unknown(self._spark)


TWO = """
streams:
  spec: {tables: {app.t: {to: lake.t, mode: append}}}
  more: {tables: {app.t: {to: lake.t, mode: append}}}
"""


@long_only
@pytest.mark.usefixtures("few")
def test_a_stream_that_has_long_been_idle_is_remembered(spark: SparkSession, tmp_path: Path) -> None:
    idle, busy = Lake(spark, tmp_path, TWO, "more"), Lake(spark, tmp_path, TWO)
    idle.land([event("c", 1, {"id": 0, "v": "idle"})])
    idle.land([event("c", 2, {"id": 1, "v": "idle"})])
    for n in range(6):
        busy.land([event("c", 100 + n, {"id": n, "v": "busy"})])
    said = says(busy)
    first, *_ = expire_all(busy.spark, busy.store, table_of(busy), FEW, soon())
    assert isinstance(first, Expired)
    assert (first.carried, first.snapshots) == (True, 1)
    assert says(busy) == said
    assert said["firn.epoch.more"] == "2"
    for n in range(6, 9):
        busy.land([event("c", 100 + n, {"id": n, "v": "busy"})])
    second, *_ = expire_all(busy.spark, busy.store, table_of(busy), FEW, soon())
    assert isinstance(second, Expired)
    # Three, what was carried before and after them, and what the idle stream's newest cut names.
    assert (second.carried, len(loaded(busy).metadata.snapshots)) == (True, 6)
    assert table_of(busy).state.progress("more") == 2
    for lake in (idle, busy):
        found = audited(lake)
        assert (found.differences, found.difference, found.uncounted) == ([], 0, 0)
    idle.now = busy.now
    assert idle.commit(2) == 0
    idle.land([event("c", 3, {"id": 2, "v": "again"})])
    assert len(busy.rows("lake.t")) == 12
    assert [line["status"] for line in idle.lines if line.get("table") == "lake.t"] == ["committed"]
    whole(busy)


@pytest.mark.usefixtures("few")
def test_what_was_rolled_back_meanwhile_is_not_carried_on(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = lake(config())
    for n in range(3):
        one.land(changes(n))
    table, third = table_of(one), loaded(one).metadata.current_snapshot_id
    second = newest(one, 2)[1]
    loaded(one).manage_snapshots().set_current_snapshot(second).commit()
    with pytest.raises(fence.LostRace):
        fence.carry(one.spark, table, says(one) | {"firn.epoch.spec": "3"})
    assert table_of(one).state.progress("spec") == 2
    loaded(one).manage_snapshots().set_current_snapshot(third).commit()
    fence.carry(one.spark, table_of(one), says(one))
    assert table_of(one).state.sealed("spec") == "3"
    assert audited(one).differences == []


@few_cases(1)
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("leaves_out", [True, False])
def test_the_row_that_a_delete_removed_is_found_when_its_other_half_comes_late(lake: Make, leaves_out: bool) -> None:
    """A changed key, of which the create comes after its delete, and after the log and most snapshots have gone."""
    one = lake(config("key: [id]"))
    one.land([event("c", 10, {"id": 1, "v": "much text"}), event("c", 11, {"id": 5, "v": "x"})])
    if leaves_out:
        one.land([event("u", 12, {"id": 5, "v": GONE})])
    one.land([event("d", 50, None, before={"id": 1, "v": "much text"}, commit=49)])
    for n in range(6):
        one.land([event("c", 100 + n, {"id": 100 + n, "v": "y"})])
    before = len(loaded(one).metadata.snapshots)
    mine, *_ = expire_all(one.spark, one.store, table_of(one), FEW, soon())
    assert isinstance(mine, Expired)
    assert mine.kept == (4 if leaves_out else 3)
    assert mine.snapshots == before - mine.kept
    for path in paths(one.store, "staged")[:3]:
        one.store.delete(path)  # what made the row is no longer in the log
    one.land([event("c", 50, {"id": 2, "v": GONE}, commit=49)])
    assert one.by_key("lake.t", "id")[2]["v"] == ("much text" if leaves_out else None)


@long_only
def test_old_facts_go_in_two_turns(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": n, "v": "a"}) for n in range(4)])
    one.land([event("d", 20, None, {"id": 1})])
    tables, facts = Tables(one.spark), TableName("lake", "t__deletes")
    late = datetime.now(UTC) + KEEP

    def turn(now: datetime) -> Forgotten:
        return forget(one.spark, tables, table_of(one, facts), now)

    assert turn(late - timedelta(minutes=5)) == Forgotten(str(facts))
    one.land([event("d", 30, None, {"id": 2})])
    later = late + timedelta(minutes=5)
    assert forget(one.spark, tables, table_of(one, facts), later, dry_run=True).raised
    assert turn(later).raised
    assert turn(later + GRACE / 2) == Forgotten(str(facts))
    one.land([event("u", 15, {"id": 1, "v": "back"}), event("c", 40, {"id": 9, "v": "new"})])
    assert turn(later + GRACE).line() == {"raised": False, "files": 2, "facts": 2}
    assert one.rows(str(facts)) == []
    assert says(one, facts)["firn.newest"] != ""
    one.land([event("u", 16, {"id": 2, "v": "back"}), event("u", 41, {"id": 9, "v": "newer"})])
    assert sorted((row["id"], row["v"]) for row in one.rows("lake.t")) == [(0, "a"), (3, "a"), (9, "newer")]
    assert one.line("lake.t")["dead"] == 1


@long_only
@pytest.mark.usefixtures("few")
def test_a_table_that_shares_its_files_is_left_alone(lake: Make) -> None:
    one = lake(config())
    for n in range(5):
        one.land(changes(n))
    Tables(one.spark).set_properties(table_of(one), {"gc.enabled": "false"})
    assert "gc.enabled" in expire(one.spark, table_of(one), FEW, soon()).line()["refused"]
    assert len(loaded(one).metadata.snapshots) == 5
