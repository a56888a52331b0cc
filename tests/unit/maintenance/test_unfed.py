"""The care of tables that no stream feeds: what is due of them, whose progress stays, and what is left alone."""

import random
from datetime import UTC, datetime

import pytest
from obstore.store import MemoryStore

from firn.config.maintenance import Expiry
from firn.config.names import TableName
from firn.config.reader import parse
from firn.errors import RequestError
from firn.log import layout, table_health
from firn.log.store import Stored
from firn.log.table_health import Health
from firn.maintenance import launcher, orphans, unfed
from firn.maintenance.schedule import KINDS
from tests.soak import SEED, times

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
STREAMS = "streams: {shop: {tables: {a: {to: shop.a, key: [id]}}}}"
NAMED = parse("care: {also: [reports.*, shop.by_day, shop.a]}\n" + STREAMS, "firn.yaml")
SILENT = parse(STREAMS, "firn.yaml")
BAD = Health("reports.one", layout.instant(NOW), small=9, rewrite_bytes=10**8, orphans_at=layout.instant(NOW))


def test_nothing_is_anybodys_without_the_opt_in() -> None:
    store = MemoryStore()
    table_health.write(store, unfed.HEALTH, [BAD])
    assert launcher.what_is_due(store, SILENT, KINDS, NOW) == {}
    assert not launcher.is_unfed(SILENT, "reports.one")
    with pytest.raises(RequestError, match="no stream feeds it"):
        launcher.health_of(store, SILENT, "reports.one", NOW)


def test_what_firn_yaml_names_is_looked_at_and_then_cared_for_by_its_health() -> None:
    store = MemoryStore()
    first = launcher.what_is_due(store, NAMED, KINDS, NOW)
    assert first == {one: {"compact": "never looked at"} for one in ("reports.*", "shop.by_day")}
    assert launcher.what_is_due(store, NAMED, ("expire", "orphans"), NOW) == {}
    with pytest.raises(RequestError, match="no job has looked at it yet: one does every six hours"):
        launcher.health_of(store, NAMED, "reports.one", NOW)
    marks = [unfed.looked(one, NOW) for one in ("reports.*", "shop.by_day")]
    table_health.write(store, unfed.HEALTH, [*marks, BAD])
    assert set(launcher.what_is_due(store, NAMED, KINDS, NOW)) == {"reports.one"}
    later = launcher.what_is_due(store, NAMED, KINDS, NOW + unfed.LOOK_EVERY)
    assert set(later) == {"reports.*", "shop.by_day", "reports.one"}
    assert launcher.health_of(store, NAMED, "reports.one", NOW)["table"] == "reports.one"
    assert set(unfed.tables(table_health.read(store, unfed.HEALTH))) == {"reports.one"}


def test_a_table_that_is_no_longer_named_is_left() -> None:
    store = MemoryStore()
    other = Health("reports2.one", layout.instant(NOW), small=9, rewrite_bytes=10**8)
    table_health.write(store, unfed.HEALTH, [other, *(unfed.looked(one, NOW) for one in NAMED.care.also.patterns)])
    assert launcher.what_is_due(store, NAMED, KINDS, NOW) == {}


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ("reports.one", True), ("reports.a.b", True), ("shop.by_day", True),
        ("shop.a", False),  # a stream feeds it
        ("shop.by_days", False), ("Reports.one", False), ("xreports.one", False), ("reports", False),
        ("reports.one__deletes", False), ("reports._firn_x", False), ("reports.one__check", False),
    ],
)  # fmt: skip
def test_who_is_named(table: str, named: bool) -> None:
    assert launcher.is_unfed(NAMED, table) is named


FEW = Expiry(at_least=20, at_most=50)
WRITERS = (
    {"flink.job-id": "a", "flink.max-committed-checkpoint-id": "7"},
    {"flink.job-id": "b", "flink.max-committed-checkpoint-id": "9"},
    {"kafka.connect.offsets.control.group": "{}"},
    {"spark.sql.streaming.queryId": "q", "spark.sql.streaming.epochId": "3"},
    {"operation": "append"},
)


def place(main: list[dict[str, str]], writer: dict[str, str]) -> int | None:
    """How far down main's head a writer finds what it resumes by."""
    name, value = next(iter(writer.items()))
    is_its = [one.get(name) == value if name in unfed._WHOSE else name in one for one in main]
    return is_its.index(True) if any(is_its) else None


def test_every_writer_finds_its_place_after_an_expiry_that_it_found_before() -> None:
    for seed in range(SEED, SEED + times(50, 20_000)):
        dice = random.Random(seed)
        main = [dict(dice.choices(WRITERS, (1, 1, 1, 1, 40))[0]) for _ in range(dice.randrange(1, 120))]
        rule = unfed.reach(FEW, main)
        assert FEW.at_least <= rule.at_least <= rule.at_most == FEW.at_most, seed
        for writer in WRITERS[:-1]:
            before = place(main, writer)
            if before is not None and before < FEW.at_most:
                assert place(main[: rule.at_least], writer) == before, seed
    assert unfed.reach(FEW, [{"operation": "append"}] * 99) == FEW


def test_each_sink_of_each_flink_job_keeps_its_place() -> None:
    # The id of an operator comes from the job's plan: two runs of one job have the same operators.
    sinks = [
        {"flink.job-id": job, "flink.operator-id": operator, "flink.max-committed-checkpoint-id": "7"}
        for job, operator in (("new", "one"), ("old", "two"), ("old", "one"), ("new", "two"))
    ]
    plain = [{"operation": "append"}] * 30
    main = [*sinks[:2], *plain, sinks[2], *plain, sinks[3], *plain]
    rule = unfed.reach(Expiry(at_least=20, at_most=100), main)
    assert [one in main[: rule.at_least] for one in sinks] == [True] * 4


def test_columns_that_spark_can_not_open_are_told() -> None:
    plain = {"id": 1, "name": "n", "type": "long", "required": False}
    assert unfed.unreadable([plain]) is None
    assert "at holds a time" in str(unfed.unreadable([plain, {"id": 2, "name": "at", "type": "time"}]))
    inside = {"type": "struct", "fields": [{"id": 3, "name": "x", "type": "timestamp_ns", "required": False}]}
    assert "s holds a timestamp_ns" in str(unfed.unreadable([{"id": 2, "name": "s", "type": inside}]))
    for kind in ("geometry", "geometry(srid:4326)", "geography(OGC:CRS84, spherical)"):
        assert "g holds a geo" in str(unfed.unreadable([{"id": 2, "name": "g", "type": kind}]))
    named = {"id": 4, "name": "time", "type": "timestamptz"}
    assert unfed.unreadable([named]) is None


@pytest.mark.parametrize(
    "path",
    [
        "_delta_log/000.json", ".hoodie/hoodie.properties", "snapshot/LATEST",
        "other/_delta_log/000.json", "a/b/.hoodie/hoodie.properties", "other/snapshot/LATEST",
    ],
)  # fmt: skip
def test_a_folder_that_another_format_needs_too_has_no_orphans(path: str) -> None:
    files = [Stored(path, 1, NOW), Stored("data/x.parquet", 1, NOW)]
    assert "which of its files that needs" in str(orphans.shared(files, {}))
    assert orphans.shared(files[1:], {}) is None
    assert "gc.enabled" in str(orphans.shared(files[1:], {"gc.enabled": "False"}))


def test_a_pattern_is_what_firn_yaml_writes() -> None:
    assert not NAMED.care.also.names(TableName("reports", "x__deletes_1_0123abcd"))
    assert NAMED.care.also.names(TableName("reports", "x.(y)"))
    assert not parse("care: {also: [r.a.c]}\n" + STREAMS, "firn.yaml").care.also.names(TableName("r", "abc"))
