"""Which job the scheduled care starts beside a commit job."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from obstore.store import MemoryStore

from firn.config.names import TableName
from firn.config.reader import parse
from firn.log import layout, table_health
from firn.log.table_health import Health
from firn.maintenance import launcher
from firn.maintenance.schedule import KINDS
from firn.runs.job_runs import PREFIX
from firn.settings import Settings

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ASKED = "care: {statistics: {columns: [x]}}\n"
STREAMS = "streams: {shop: {tables: {a: {to: shop.a, key: [id]}}}, web: {tables: {b: {to: web.b, key: [id]}}}}"


class Jobs:
    """EMR Serverless, with these runs at work."""

    def __init__(self, *running: str) -> None:
        self._running = list(running)
        self.started: list[Sequence[str]] = []

    def active(self, prefix: str) -> list[str]:
        return [name for name in self._running if name.startswith(prefix)]

    def start_script(self, script: str, arguments: Sequence[str], name: str, *_: Any) -> str:
        assert script == "care.py"
        self.started.append(arguments)
        return name


def asked_for(config: str, *running: str, **owing: Any) -> tuple[str, list[str]] | None:
    """What the job that is started does, and to which tables; None if none is."""
    store, jobs = MemoryStore(), Jobs(*running)
    for stream, table in (("shop", "shop.a"), ("web", "web.b")):
        found = Health(table, layout.instant(NOW), orphans_at=layout.instant(NOW), **owing)
        table_health.write(store, stream, [found])
    settings = Settings("memory://x", emr_application="a")
    known = parse(config + STREAMS)
    launcher.run(settings, store, known, jobs, KINDS, NOW, logging.getLogger())  # type: ignore[arg-type]
    if not jobs.started:
        return None
    [told] = jobs.started
    return told[told.index("--do") + 1], [told[n + 1] for n, word in enumerate(told) if word == "--table"]


def test_a_commit_job_that_lives_cares_for_its_tables_but_has_no_time_for_statistics() -> None:
    tables, running = ["shop.a", "web.b"], f"{PREFIX}shop-1-1-0"  # the streams share a job
    assert asked_for("", rewrite_bytes=1) == ("compact", tables)
    assert asked_for(ASKED, rewrite_bytes=1) == ("compact,statistics", tables)
    assert asked_for("", running, rewrite_bytes=1) is None
    assert asked_for(ASKED, running, rewrite_bytes=1) == ("statistics", tables)


def test_no_second_job_is_started() -> None:
    assert asked_for(ASKED, "care-x") is None


SHARDED = """
care: {expire: {keep: 7d}}
streams:
  shop:
    tables:
      a: {to: '{shard}.orders', key: [id], columns: {w: string}, shard: {by: tenant(w), tenants: [x]}, care: CARE}
  web:
    tables: {b: {to: plain.orders, key: [id]}}
"""


def test_shards_that_the_map_got_since_are_cared_for_as_their_rule_says() -> None:
    config = parse(SHARDED.replace("CARE", "{expire: {keep: 3d}}"))
    for table, streams, days in (
        ("x.orders", {"shop"}, 3), ("acme.orders", {"shop"}, 3), ("plain.orders", {"web"}, 7),
        ("acme.other", set[str](), 7), ("ACME.orders", set[str](), 7),
    ):  # fmt: skip
        assert launcher.feeding(config, table) == streams
        assert config.care_of(TableName.parse(table)).expiry.keep_seconds == days * 86400


def test_a_table_that_care_names_is_no_shard_by_its_name_alone() -> None:
    text = SHARDED.replace("{expire: {keep: 7d}}", "{also: [erp.orders, x.orders, 'crm.*'], expire: {keep: 7d}}")
    config = parse(text.replace("CARE", "{expire: {keep: 3d}}"))
    for table, unfed, days in (
        ("erp.orders", True, 7), ("x.orders", False, 3), ("crm.orders", False, 3), ("crm.others", True, 7),
    ):  # fmt: skip
        assert launcher.is_unfed(config, table) is unfed
        assert config.care_of(TableName.parse(table)).expiry.keep_seconds == days * 86400


def test_a_name_that_stands_twice_is_one() -> None:
    rule = parse(SHARDED.replace("'{shard}.orders'", "'{shard}.o_{shard}'").replace(", care: CARE", "")).streams["shop"]
    assert (shards := rule.tables[0].shard) is not None
    assert shards.may_hold(TableName.parse("acme.o_acme"))
    assert not shards.may_hold(TableName.parse("acme.o_x"))
