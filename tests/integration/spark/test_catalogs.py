"""The real job on a REST catalog, on PostgreSQL and on a Hive Metastore: what it commits there, a lost answer, a
rebuild."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import firn_lake
from firn.changes.decode.types import storable
from firn.changes.metadata_columns import MIRROR_METADATA
from firn.config.catalogs import NESSIE
from firn.config.maintenance import Care, Expiry
from firn.config.names import TableName
from firn.config.partitions import Partition
from firn.errors import ConfigError
from firn.log import cuts
from firn.maintenance import compaction_planner
from firn.maintenance import expiry as expiry_rules
from firn_lake.refs.keep import keep_cut
from firn_spark import rebuild
from firn_spark.maintenance import compaction
from firn_spark.maintenance.expiry import expire
from firn_spark.rebuild import Request
from firn_spark.tables import fence
from firn_spark.tables.alterations import rename, repartition
from firn_spark.tables.evolve import Table, Tables, _check_writable
from tests.hive import Metastore
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.postgresql import as_catalog, postgresql
from tests.rest_catalog import RestServer, rest_server
from tests.soak import LONG, few_cases

pytestmark = pytest.mark.spark


_SERVERS = {"postgresql": "postgres", "hive": "hive_behind_a_dead_one"}


class RestLake(Lake):
    """The same with its tables in a REST catalog, which a dead server stands before."""

    def __init__(self, spark: SparkSession, folder: Path, text: str, server: RestServer) -> None:
        super().__init__(spark, folder, text, catalog_uri=f"http://127.0.0.1:1,{server.url}")
        self.server = server


@pytest.fixture
def rest(spark: SparkSession, tmp_path: Path) -> Iterator[RestLake]:
    with rest_server(tmp_path, spark._jvm) as server:
        yield RestLake(spark, tmp_path, config(), server)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with postgresql() as address:
        yield as_catalog(address, tmp_path_factory.mktemp("postgres") / "secret")


@pytest.fixture
def hive_behind_a_dead_one(hive: Metastore) -> str:
    """Its address, behind a server that is away."""
    return f"thrift://127.0.0.1:1,{hive.url}"


@pytest.fixture(params=["rest", "postgresql", "hive"])
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Lake:
    if request.param == "rest":
        rest: Lake = request.getfixturevalue("rest")
        return rest
    found = Lake(spark, tmp_path, config(), catalog_uri=request.getfixturevalue(_SERVERS[request.param]))
    for _, name in found.catalog.list_tables("lake") if found.catalog.namespace_exists("lake") else ():
        found.catalog.drop_table(("lake", name))
    return found


def values(lake: Lake) -> dict[int, str]:
    return {row["id"]: row["v"] for row in lake.rows("lake.t")}


def test_the_job_commits_and_the_lake_reads_it(lake: Lake) -> None:
    lake.land([event("c", 10 + n, {"id": n, "v": f"v{n}"}) for n in range(4)])
    lake.land([event("u", 20, {"id": 1, "v": "b"}), event("d", 21, None, before={"id": 2})])
    assert values(lake) == {0: "v0", 1: "b", 3: "v3"}
    assert lake.spark.table("firn.lake.t").count() == 3
    assert {name for _, name in lake.catalog.list_tables("lake")} == {"t", "t__deletes"}
    assert [one["firn.epoch.spec"] for one in lake.snapshots("lake.t")] == ["1", "2"]
    assert any(task.delete_files for task in lake.catalog.load_table("lake.t").scan().plan_files())
    assert lake.commit(1, 2) == 0
    assert len(lake.snapshots("lake.t")) == 2, "what is in is not committed again"


@few_cases(1)
def test_a_commit_that_comes_second_is_refused(lake: Lake) -> None:
    lake.land([event("c", 10, {"id": 1, "v": "a"})])
    before = Tables(lake.spark).load(TableName.parse("lake.t"))
    assert before is not None
    lake.land([event("c", 20, {"id": 2, "v": "b"})])
    with pytest.raises(fence.LostRace, match="no longer 1"):
        fence.commit(lake.spark, before, before.java.newAppend(), (), {"firn.epoch.spec": "2"}, "spec")
    assert len(lake.snapshots("lake.t")) == 2


def renamed(lake: Lake, table: Table) -> None:
    rename(lake.spark, Tables(lake.spark), table, {"v": "w"}, {})


def made_again(lake: Lake, table: Table) -> None:
    lake.catalog.drop_table("lake.t")
    properties = {name: table.state.properties[name] for name in ("firn.key", "firn.mode")}
    columns = [replace(one, type=storable(one.type)) for one in table.columns()[0]]
    Tables(lake.spark).create(table.name, lake.warehouse, columns, MIRROR_METADATA, (), properties)


OTHERS = {
    "renamed": renamed,
    "partitioned": lambda lake, table: repartition(lake.spark, Tables(lake.spark), table, [Partition("identity", "v")]),
    "of another mode": lambda lake, table: Tables(lake.spark).set_properties(table, {"firn.mode": "append"}),
    "of another key": lambda lake, table: Tables(lake.spark).set_properties(table, {"firn.key": '["v"]'}),
    "dropped": lambda lake, table: lake.catalog.drop_table("lake.t"),
    "made again": made_again,
}


@few_cases(2)
@pytest.mark.parametrize("other", OTHERS)
def test_a_commit_on_a_table_that_is_another_by_now_is_refused(lake: Lake, other: str) -> None:
    lake.land([event("c", 10, {"id": 1, "v": "a"})])
    tables, name = Tables(lake.spark), TableName.parse("lake.t")
    before, now = tables.load(name), tables.load(name)
    assert before is not None
    assert now is not None
    OTHERS[other](lake, now)
    with pytest.raises(fence.LostRace):
        fence.commit(lake.spark, before, before.java.newAppend(), (), {"firn.epoch.spec": "2"}, "spec")
    assert not lake.catalog.table_exists("lake.t") or "2" not in [
        s.get("firn.epoch.spec") for s in lake.snapshots("lake.t")
    ]


@few_cases(1)
@pytest.mark.parametrize("at", ["begun", "ready"])
def test_a_commit_that_comes_between_refuses_an_alteration(lake: Lake, at: str) -> None:
    """Before its transaction is begun, and when it is ready but for the catalog's swap."""
    lake.land([event("c", 10, {"id": 1, "v": "a"})])
    tables = Tables(lake.spark)
    table = tables.load(TableName.parse("lake.t"))
    assert table is not None
    if at == "begun":
        lake.land([event("c", 20, {"id": 2, "v": "b"})])
    both = table.java.newTransaction()
    both.updateSchema().renameColumn("v", "w").commit()
    if at == "ready":
        lake.land([event("c", 20, {"id": 2, "v": "b"})])
    with pytest.raises(fence.LostRace):
        fence.alter(lake.spark, table, both)
    assert values(lake) == {1: "a", 2: "b"}
    rename(lake.spark, tables, tables.look_again(table), {"v": "w"}, {})
    assert {row["id"]: row["w"] for row in lake.rows("lake.t")} == {1: "a", 2: "b"}


def test_a_commit_whose_answer_is_lost_is_in_once(rest: RestLake) -> None:
    rest.land([event("c", 10, {"id": 1, "v": "a"})])
    lost: list[str] = []

    def lose(method: str, path: str) -> bool:
        if method != "POST" or not path.endswith("/tables/t") or lost:
            return False
        lost.append(path)
        return True

    rest.server.lose = lose
    rest.post([event("c", 20, {"id": 2, "v": "b"}), event("u", 21, {"id": 1, "v": "c"})])
    n = rest.seal()
    code = rest.commit(n)
    assert lost
    assert code == 0 or rest.commit(n) == 0, rest.lines
    assert values(rest) == {1: "c", 2: "b"}
    assert [one["firn.epoch.spec"] for one in rest.snapshots("lake.t")] == ["1", "2"]
    assert rest.spark.table("firn.lake.t").count() == 2, "the files that the commit names are all there"


@few_cases(1)
def test_a_table_is_rebuilt_in_place(lake: Lake) -> None:
    lake.land([event("c", 10, {"id": 1, "v": "a"}), event("c", 11, {"id": 2, "v": "b"})])
    lake.land([event("u", 20, {"id": 1, "v": "c"}), event("d", 21, None, before={"id": 2})])
    request, said = Request("r1", TableName.parse("lake.t"), in_place=True), []
    code = rebuild.run(
        request, lake.staging, lake.warehouse, lake.catalog_uri, spark=lake.spark, log=said.append, size=1
    )
    assert code == 0, said
    assert values(lake) == {1: "c"}
    table = lake.catalog.load_table("lake.t")
    assert table.properties["firn.rebuilt"] == "1", table.properties
    assert len([ref for ref in table.metadata.refs if ref != "main"]) == 1, "the rows of before stay, under a tag"
    lake.land([event("c", 30, {"id": 3, "v": "d"})])
    assert values(lake) == {1: "c", 3: "d"}


@few_cases(1)
def test_care_expiry_cuts_tags_and_branches_are_as_on_sql(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    if lake.catalog_uri.startswith("postgres") and not LONG:
        pytest.skip("SQLite has tests of each: make soak runs it")
    monkeypatch.setattr(expiry_rules, "FEWEST_SNAPSHOTS", 2)
    monkeypatch.setattr(expiry_rules, "LEAST", 2)
    monkeypatch.setattr(compaction_planner, "ENOUGH", 3)
    for n in range(4):
        lake.land([event("c", 10 + n, {"id": n, "v": f"v{n}"})])
    tables, name = Tables(lake.spark), TableName.parse("lake.t")
    second = cuts.read(lake.store, "spec", 2)
    assert second is not None
    keep_cut(lake.catalog, lake.store, "audit", second, datetime.now(UTC))
    table = firn_lake.connect(lake.catalog).table("lake.t")
    table.branch("side")
    table.tag("mine")

    def now() -> Table:
        found = tables.load(name)
        assert found is not None
        return found

    done = compaction.compact(lake.spark, now(), "spec", Care(), compaction.Budget(10**9))
    assert done.files > done.into, done
    rule = Expiry(keep_seconds=1, at_least=1, at_most=1, by="firn")
    gone = expire(lake.spark, now(), rule, datetime.now(UTC) + timedelta(hours=1))
    assert (gone.snapshots > 0, gone.refused) == (True, "")
    assert values(lake) == {n: f"v{n}" for n in range(4)}
    read = {ref: sorted(row["id"] for row in table.read(as_of=ref).pylist()) for ref in ("audit", "mine", "side")}
    assert read == {"audit": [0, 1], "mine": [0, 1, 2, 3], "side": [0, 1, 2, 3]}
    assert now().state.progress("spec") == 4
    assert lake.commit(1, 4) == 0
    lake.land([event("d", 50, None, before={"id": 0})])
    assert values(lake) == {n: f"v{n}" for n in range(1, 4)}


def test_a_job_commits_nothing_to_a_nessie(rest: RestLake) -> None:
    rest.land([event("c", 10, {"id": 1, "v": "a"})])
    catalog = Tables(rest.spark)._catalog
    _check_writable(catalog)
    rest.server.overrides[NESSIE] = "true"
    settings = rest.spark._jvm.java.util.HashMap()
    settings.put("uri", rest.server.url)
    nessie = rest.spark._jvm.org.apache.iceberg.rest.RESTCatalog()
    nessie.initialize("nessie", settings)
    with pytest.raises(ConfigError, match="is a Nessie, and Firn only reads from it"):
        _check_writable(nessie)
