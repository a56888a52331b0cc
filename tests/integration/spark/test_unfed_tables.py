"""Tables that no stream feeds and others write: untouched, until firn.yaml names them; then cared for as they are."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.log import published_configs, table_health
from firn.maintenance import expiry as rules
from firn.maintenance import unfed
from firn.maintenance.schedule import KINDS
from firn_spark import maintenance_job
from firn_spark.maintenance import expiry
from firn_spark.tables import fence
from tests.integration.spark.committing import Died
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark

ALSO = "care: {also: [reports.*], expire: {keep: 1h, at_least: 20}}\n"


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr(rules, "FEWEST_SNAPSHOTS", 2)
    one = Lake(spark, tmp_path, config())
    one.spark.sql("CREATE NAMESPACE IF NOT EXISTS firn.reports")
    return one


def made(lake: Lake, name: str, more: str = "", version: int = 2, commits: int = 6) -> None:
    """A table of somebody else's, written by as many commits, with deleted rows by position."""
    said = (
        f"'format-version'='{version}', 'write.delete.mode'='merge-on-read', 'write.parquet.compression-codec'='zstd'"
    )
    lake.spark.sql(
        f"CREATE TABLE firn.reports.{name} (id BIGINT, v STRING) USING iceberg {more} TBLPROPERTIES ({said})"
    )
    for n in range(commits):
        lake.spark.sql(
            f"INSERT INTO firn.reports.{name} SELECT id, CONCAT('v', id) FROM RANGE({10 * n}, {10 * n + 10})"
        )
    lake.spark.sql(f"DELETE FROM firn.reports.{name} WHERE id % 10 = 3")


def rows(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    lake.spark.sql(f"REFRESH TABLE firn.reports.{name}")
    return sorted(tuple(row) for row in lake.spark.table(f"firn.reports.{name}").collect())


def files(lake: Lake, name: str) -> int:
    return len(list(lake.catalog.load_table(f"reports.{name}").scan().plan_files()))


def heads(lake: Lake, name: str) -> list[int]:
    return [one.snapshot_id for one in lake.catalog.load_table(f"reports.{name}").metadata.snapshots]


def care(lake: Lake, *tables: str, run: str = "one", code: int = 0) -> list[dict[str, Any]]:
    request = maintenance_job.Request(run, KINDS, tuple(map(TableName.parse, tables)), all=True)
    lines: list[dict[str, Any]] = []
    places = lake.staging, lake.warehouse, lake.catalog_uri
    assert maintenance_job.run(request, *places, spark=lake.spark, log=lines.append) == code, lines
    return lines


def opted(lake: Lake, text: str = ALSO) -> None:
    lake.config = published_configs.publish(lake.store, text + config())


def left(lines: list[dict[str, Any]]) -> dict[str, str]:
    return {
        f"{line['table']} {line.get('kind', '')}".strip(): line["why"] for line in lines if line["status"] == "left"
    }


def test_what_is_not_named_is_never_touched(lake: Lake) -> None:
    made(lake, "one", commits=2)
    before = heads(lake, "one")
    assert left(care(lake, "reports.one", "reports.*")) == {
        "reports.one": "no stream feeds it, and care.also in firn.yaml does not name it"
    }
    opted(lake, "care: {also: [others.*, reports.two]}\n")
    assert "does not name it" in left(care(lake, "reports.one"))["reports.one"]
    assert care(lake, "reports.*", "others.*") == []
    assert heads(lake, "one") == before
    assert table_health.read(lake.store, unfed.HEALTH).keys() == {"look:others.*"}


@long_only
def test_what_is_named_has_few_files_and_snapshots_and_the_same_rows(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    opted(lake)
    made(lake, "one", "PARTITIONED BY (bucket(2, id))")
    made(lake, "two", commits=1)
    expected = {name: rows(lake, name) for name in ("one", "two")}
    lines = care(lake, "reports.*")
    assert {(line["table"], line["kind"]) for line in lines if line["status"] == "done"} == {
        (f"reports.{name}", kind) for name in ("one", "two") for kind in KINDS if kind != "statistics"
    }, "statistics are made where a rule asks for them"
    assert files(lake, "one") == 2
    assert {name: rows(lake, name) for name in expected} == expected
    known = table_health.read(lake.store, unfed.HEALTH)
    assert {"look:reports.*", "reports.one", "reports.two"} == set(known)
    assert known["reports.one"].rewrite_bytes == 0
    assert unfed.due(known, lake.config, KINDS, datetime.now(UTC) + timedelta(minutes=5)) == {}
    real = expiry.expire_all

    def late(spark: Any, store: Any, table: Any, rule: Any, now: datetime, **how: Any) -> Any:
        few = type(rule)(keep_seconds=1, at_least=2, at_most=2)
        return real(spark, store, table, few, now + timedelta(hours=2), **how)

    monkeypatch.setattr(maintenance_job, "expire_all", late)
    care(lake, "reports.one", run="again")
    assert len(heads(lake, "one")) == 2
    assert rows(lake, "one") == expected["one"]


FOREIGN: dict[str, tuple[str, int, str, str]] = {
    "an order of its own": ("", 2, "WRITE ORDERED BY v DESC", "its own sort order"),
    "a type that Spark has not": ("", 2, "time", "holds a time"),
    "files that are shared": (
        "",
        2,
        "SET TBLPROPERTIES ('gc.enabled'='false')",
        "gc.enabled",
    ),
}


@few_cases(1)
@pytest.mark.parametrize("what", FOREIGN)
def test_what_care_does_not_know_of_others_is_refused_with_the_reason(lake: Lake, what: str) -> None:
    more, version, change, why = FOREIGN[what]
    opted(lake)
    made(lake, "one", more, version, commits=2)
    expected = rows(lake, "one")
    if change == "time":
        from pyiceberg.types import TimeType

        with lake.catalog.load_table("reports.one").update_schema() as update:
            update.add_column("at", TimeType())
    elif change:
        lake.spark.sql(f"ALTER TABLE firn.reports.one {change}")
    told = left(care(lake, "reports.one"))
    assert any(why in reason for reason in told.values()), told
    if change != "time":  # Spark can't even look at that one
        assert rows(lake, "one") == expected


def test_a_tag_and_a_branch_of_the_owner_stay_and_so_does_what_a_writer_resumes_by(lake: Lake) -> None:
    opted(lake)
    made(lake, "one", commits=3)
    first = heads(lake, "one")[0]
    lake.spark.sql(f"ALTER TABLE firn.reports.one CREATE TAG mine AS OF VERSION {first}")
    lake.spark.sql("ALTER TABLE firn.reports.one CREATE BRANCH theirs")
    lake.spark.sql("INSERT INTO firn.reports.one.branch_theirs VALUES (900, 'branch')")
    care(lake, "reports.one")
    refs = lake.catalog.load_table("reports.one").metadata.refs
    assert set(refs) == {"main", "mine", "theirs"}
    assert refs["mine"].snapshot_id == first
    assert lake.spark.sql("SELECT COUNT(*) FROM firn.reports.one VERSION AS OF 'theirs'").collect()[0][0] == 28


@long_only
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_job_that_dies_leaves_the_rows_and_the_next_one_goes_on(
    lake: Lake, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opted(lake)
    made(lake, "one")
    expected = rows(lake, "one")
    real: Callable[..., None] = fence.commit

    def dies(*arguments: Any) -> None:
        if when == "after":
            real(*arguments)
        raise Died(when)

    with monkeypatch.context() as killing:
        killing.setattr(fence, "commit", dies)
        with pytest.raises(Died):
            care(lake, "reports.one")
    assert rows(lake, "one") == expected
    care(lake, "reports.one", run="again")
    assert (rows(lake, "one"), files(lake, "one")) == (expected, 1)
