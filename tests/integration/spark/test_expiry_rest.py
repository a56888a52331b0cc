"""Old snapshots of a table in a REST catalog: who lets them go, and that no tag, row or progress is lost by it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.maintenance import Expiry
from firn.config.names import TableName
from firn.log import cuts, published_configs
from firn.maintenance import expiry as rules
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.refs import names
from firn_lake.refs.keep import keep_cut
from firn_spark.maintenance.expiry import Expired, expire, expire_all
from firn_spark.tables import fence
from firn_spark.tables.evolve import Table, Tables
from tests.integration.spark.committing import Died
from tests.integration.spark.test_catalogs import RestLake, values
from tests.integration.spark.test_commit import config, event
from tests.rest_catalog import rest_server
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark

T = TableName("lake", "t")
MADE = 4  # snapshots, of which two stay
FEW = Expiry(keep_seconds=1, at_least=1, at_most=1, by="firn")


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestLake]:
    monkeypatch.setattr(rules, "FEWEST_SNAPSHOTS", 2)
    monkeypatch.setattr(rules, "LEAST", 2)
    with rest_server(tmp_path, spark._jvm) as server:
        one = RestLake(spark, tmp_path, config(), server)
        for n in range(MADE):
            one.land([event("c", 10 + n, {"id": n, "v": f"v{n}"})])
        yield one


def table_of(lake: RestLake) -> Table:
    found = Tables(lake.spark).load(T)
    assert found is not None
    return found


def go(lake: RestLake, table: Table | None = None, rule: Expiry = FEW) -> Expired:
    return expire(lake.spark, table or table_of(lake), rule, datetime.now(UTC) + timedelta(hours=1))


def ids(lake: RestLake) -> list[int]:
    return [one.snapshot_id for one in lake.catalog.load_table("lake.t").metadata.snapshots]


def whole(lake: RestLake) -> None:
    """Every row is there, and a job finds the progress."""
    assert values(lake) == {n: f"v{n}" for n in range(MADE)}
    assert lake.spark.table("firn.lake.t").count() == MADE
    assert table_of(lake).state.progress("spec") == MADE
    assert lake.commit(1, MADE) == 0


@few_cases(1)
@pytest.mark.parametrize(("by", "said"), [(None, "REST catalog"), ("catalog", "care.expire.by: catalog")])
def test_it_is_left_to_the_catalog_unless_firn_yaml_says_otherwise(lake: RestLake, by: Any, said: str) -> None:
    told = go(lake, rule=Expiry(keep_seconds=1, at_least=1, at_most=1, by=by))
    assert said in told.refused
    assert len(ids(lake)) == MADE


def test_old_snapshots_go_in_one_commit_that_moves_main(lake: RestLake) -> None:
    before = ids(lake)
    told = go(lake)
    assert (told.snapshots, told.kept, told.refused) == (2, 2, "")
    assert ids(lake)[:-1] == before[2:]
    assert lake.catalog.load_table("lake.t").metadata.current_snapshot_id not in before
    whole(lake)
    assert go(lake).snapshots in (0, 1)
    whole(lake)


@long_only
def test_a_table_and_its_memory_of_deletes_are_cared_for_together(lake: RestLake) -> None:
    lake.land([event("d", 100, None, {"id": 3})])
    lake.land([event("c", 110, {"id": 3, "v": "v3"})])
    now = datetime.now(UTC) + timedelta(hours=1)
    done = [one for one in expire_all(lake.spark, lake.store, table_of(lake), FEW, now) if isinstance(one, Expired)]
    assert [(one.table, one.refused) for one in done] == [("lake.t", ""), ("lake.t__deletes", "")]
    assert done[0].snapshots > 0
    assert values(lake) == {n: f"v{n}" for n in range(MADE)}
    lake.land([event("u", 5, {"id": 3, "v": "late"})])
    assert values(lake)[3] == "v3", "what it remembered is still told"


@long_only
def test_what_several_streams_told_is_carried_in_the_same_commit(lake: RestLake) -> None:
    with (
        lake.catalog.load_table("lake.t").transaction() as changed,
        changed.update_snapshot(snapshot_properties={"firn.epoch.other": "7"}).fast_append(),
    ):
        pass
    for n in range(3):
        lake.land([event("u", 200 + n, {"id": 0, "v": "v0"})])
    told = go(lake, table_of(lake))
    assert (told.carried, told.refused) == (True, "")
    head = lake.catalog.load_table("lake.t").metadata.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary.additional_properties["firn.epoch.other"] == "7"
    assert table_of(lake).state.progress("spec") == MADE + 3


def kept_cut(lake: RestLake, n: int) -> int:
    """A cut is kept by name. -> its snapshot of the table"""
    cut = cuts.read(lake.store, "spec", n)
    assert cut is not None
    keep_cut(lake.catalog, lake.store, "audit", cut, datetime.now(UTC))
    return int(cut.tables["lake.t"])


def tagged(lake: RestLake) -> int:
    loaded = lake.catalog.load_table("lake.t")
    return names.tag(loaded, "mine", loaded.metadata.snapshots[0].snapshot_id).snapshot


def branched(lake: RestLake) -> int:
    loaded = lake.catalog.load_table("lake.t")
    return names.branch(loaded, "mine", loaded.metadata.snapshots[0].snapshot_id).snapshot


REFS: dict[str, Callable[[RestLake], int]] = {
    "a cut that is kept": lambda lake: kept_cut(lake, 1),
    "a tag": tagged,
    "a branch": branched,
}


@long_only
@pytest.mark.parametrize("what", [next(iter(REFS)), *(pytest.param(one, marks=long_only) for one in list(REFS)[1:])])
def test_what_is_named_while_an_expiry_decides_stays_with_its_name(lake: RestLake, what: str) -> None:
    looked = table_of(lake)
    held = REFS[what](lake)
    with pytest.raises(fence.LostRace):
        go(lake, looked)
    found = lake.catalog.load_table("lake.t").metadata
    assert held in [one.snapshot_id for one in found.snapshots]
    assert len(found.snapshots) == MADE + 1
    assert held in [ref.snapshot_id for name, ref in found.refs.items() if name != "main"]
    assert go(lake).snapshots == 2
    found = lake.catalog.load_table("lake.t").metadata
    assert held in [ref.snapshot_id for name, ref in found.refs.items() if name != "main"]
    whole(lake)


@long_only
def test_a_table_of_format_3_lets_go_and_keeps_what_is_named_meanwhile(lake: RestLake) -> None:
    lake.config = published_configs.publish(lake.store, config("key: [id], format: 3"))
    lake.land([event("c", 100, {"id": MADE, "v": "v"}), event("d", 101, None, {"id": 0})])
    looked = table_of(lake)
    assert looked.state.version == 3
    held = kept_cut(lake, 1)
    with pytest.raises(fence.LostRace):
        go(lake, looked)
    told = go(lake)
    assert (told.snapshots > 0, told.refused) == (True, "")
    found = lake.catalog.load_table("lake.t").metadata
    assert found.refs["audit"].snapshot_id == held
    assert len(found.snapshots) == told.kept + 1, "and the one that moved main"
    expected = {n: f"v{n}" for n in range(1, MADE)} | {MADE: "v"}
    assert values(lake) == expected
    lake.land([event("u", 110, {"id": 1, "v": "new"})])
    assert values(lake) == expected | {1: "new"}
    rows = lake.spark.table("firn.lake.t").select("_row_id").collect()
    assert len({row[0] for row in rows}) == len(expected)


@long_only
def test_a_name_for_what_has_just_gone_is_refused(lake: RestLake) -> None:
    loaded = lake.catalog.load_table("lake.t")
    first = loaded.metadata.snapshots[0].snapshot_id
    go(lake)
    with pytest.raises(names.NoSuchRef):
        names.tag(loaded, "mine", first)
    assert set(lake.catalog.load_table("lake.t").metadata.refs) == {"main"}


@long_only
def test_a_cut_whose_snapshot_has_just_gone_is_not_kept(lake: RestLake, monkeypatch: pytest.MonkeyPatch) -> None:
    real = names.land

    def late(table: Any, stage: Any) -> None:
        monkeypatch.setattr(names, "land", real)
        go(lake)
        real(table, stage)

    monkeypatch.setattr(names, "land", late)
    with pytest.raises(NoSuchMoment, match="has expired"):
        kept_cut(lake, 1)
    assert set(lake.catalog.load_table("lake.t").metadata.refs) == {"main"}
    whole(lake)


@long_only
def test_a_name_that_is_given_while_a_job_commits_loses_no_row(lake: RestLake) -> None:
    loaded = lake.catalog.load_table("lake.t")
    newest = loaded.metadata.snapshots[-1].snapshot_id
    lake.land([event("c", 200, {"id": MADE, "v": "late"})])
    names.tag(loaded, "mine", newest)
    assert values(lake) == {n: f"v{n}" for n in range(MADE)} | {MADE: "late"}
    assert lake.catalog.load_table("lake.t").metadata.refs["mine"].snapshot_id == newest
    assert table_of(lake).state.progress("spec") == MADE + 1


@long_only
def test_a_commit_that_comes_between_is_no_loss(lake: RestLake) -> None:
    looked = table_of(lake)
    lake.land([event("u", 100, {"id": 0, "v": "v0"})])
    with pytest.raises(fence.LostRace):
        go(lake, looked)
    assert len(ids(lake)) == MADE + 1
    assert values(lake) == {n: f"v{n}" for n in range(MADE)}


@few_cases(1)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_job_that_is_killed_leaves_the_table_as_it_was_or_done(
    lake: RestLake, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fence.beside

    def dies(*arguments: Any) -> None:
        if when == "after":
            real(*arguments)
        raise Died(when)

    with monkeypatch.context() as killing:
        killing.setattr(fence, "beside", dies)
        with pytest.raises(Died):
            go(lake)
    assert len(ids(lake)) == (MADE if when == "before" else 3)
    whole(lake)
    go(lake)
    assert len(ids(lake)) == 3
    whole(lake)


@long_only
def test_an_answer_that_is_lost_loses_nothing_else(lake: RestLake) -> None:
    left = [True]
    lake.server.lose = lambda method, path: (
        method == "POST" and path.endswith("/tables/t") and bool(left) and left.pop()
    )
    with pytest.raises(Exception, match=r"lake\.t|processing"):
        go(lake)
    assert not left
    assert len(ids(lake)) == 3
    whole(lake)
    go(lake)
    whole(lake)


@long_only
def test_a_server_that_refuses_changes_nothing(lake: RestLake) -> None:
    looked = table_of(lake)
    lake.server.status = 503
    with pytest.raises(Exception, match=r"lake\.t|not now"):
        go(lake, looked)
    lake.server.status = None
    assert len(ids(lake)) == MADE
    whole(lake)
