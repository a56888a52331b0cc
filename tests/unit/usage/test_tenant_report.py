"""What each tenant used and what it costs: sums of the accounts, and nothing lost between them."""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from firn.config.model import Config
from firn.config.reader import parse
from firn.log import query_usage, table_health
from firn.log.published_configs import publish
from firn.log.store import Store, open_store, put
from firn.log.table_health import Health
from firn.log.usage_layout import jobs_prefix, stream_path
from firn.usage import job_account, prices
from firn.usage.job_account import CARE, Resources, billed
from firn.usage.job_shares import shared
from firn.usage.stream_account import NOBODY, Sent
from firn.usage.tenant_metrics import OTHERS
from firn.usage.tenant_report import TenantUsage, tenant_usages
from firn.usage.tenant_rounds import count_job

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
AUTH = "auth: {by: api_key, secret: 'ssm:/firn/%s'}"
TEXT = f"""
query: {{readers: {{acme: {{{AUTH % "ra"}, tables: [a.*]}}, boss: {{{AUTH % "rb"}, tables: ['*.*']}}}}}}
streams:
  shop:
    envelope: rows
    writers:
      acme: {{{AUTH % "wa"}, stored_in: ['a.*']}}
      globex: {{{AUTH % "wg"}, storage: 1GB, stored_in: [g.orders]}}
    tables: {{'*': {{to: 's.{{table}}', mode: append}}}}
  more: {{envelope: rows, writers: {{acme: {{{AUTH % "wb"}}}}}, tables: {{'*': {{to: 'm.{{table}}', mode: append}}}}}}
  alone: {{job: alone, envelope: rows, tables: {{'*': {{to: 'n.{{table}}', mode: append}}}}}}
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"file://{tmp_path}/staging")


def used(store: Store, month: str) -> Config:
    """A month: acme sent three quarters of what shared jobs committed, globex a quarter."""
    config = publish(store, TEXT)
    for stream, sent in {
        "shop": '{"acme":[500,5],"globex":[250,2]}',
        "more": '{"acme":[250,1]}',
        "alone": '{"":[80,8]}',
    }.items():
        account = f'{{"format":1,"stream":"{stream}","month":"{month}","counted":0,"sent":{sent}}}'
        put(store, stream_path(stream, month), account.encode())
    job_account.note(store, "shop", "00a", Resources(3000, 12000), month)
    job_account.note(store, "more", "00b", Resources(1000, 4000), month)
    job_account.note(store, "alone", "00c", Resources(7, 28), month)
    job_account.note(store, CARE, "00d", Resources(11, 44), month)
    sizes = {"a.orders": 10, "a.notes": 20, "g.orders": 7, "s.rest": 3}
    table_health.write(
        store, "shop", [Health(name, "x", bytes=size - 1, delete_bytes=1) for name, size in sizes.items()]
    )
    query_usage.add(store, "acme", 12.5, datetime.fromisoformat(f"{month}-15T00:00:00Z"))
    return config


def test_a_tenant_is_a_name_and_what_is_nobodys_is_shown_too(store: Store) -> None:
    config = used(store, "2026-01")
    found = {one.tenant: one for one in tenant_usages(store, config, "2026-01", NOW)}
    assert list(found) == ["acme", "globex", "boss", OTHERS]
    assert found["acme"] == TenantUsage(
        "acme", Sent(750, 6), Resources(3000, 12000), {"a.notes": 20, "a.orders": 10}, 1, 12.5
    )
    assert found["globex"] == TenantUsage("globex", Sent(250, 2), Resources(1000, 4000), {"g.orders": 7})
    assert found["boss"] == TenantUsage("boss", tables={})
    assert found[OTHERS] == TenantUsage(OTHERS, Sent(80, 8), Resources(18, 72), {"s.rest": 3})
    assert found["acme"].stored_bytes == 30
    assert found["acme"].row("2026-01")["tables"] == {"a.notes": 20, "a.orders": 10}
    assert found["acme"].dollars == pytest.approx(
        {
            "requests": 6 * (3.5e-6 + 0.2e-6 + 0.04 * 16.6667e-6 + 2 * 5e-6 + 2 * 0.4e-6 + 1500e-9 * 0.5),
            "jobs": 3000 / 3600 * 0.052624 + 12000 / 3600 * 0.0057785,
            "storage": 30e-9 * prices.S3_GB_MONTH,
            "queries": 3.5e-6 + 0.2e-6 + 5e-6 + 12.5 * 3008 / 1024 * 16.6667e-6,
        }
    )


def test_a_month_that_is_over_says_nothing_of_storage(store: Store) -> None:
    found = tenant_usages(store, used(store, "2025-12"), "2025-12", NOW)
    assert [one.stored_bytes for one in found] == [None] * 4
    assert found[0].together == pytest.approx(sum(found[0].dollars.values()))
    assert found[0].row("2025-12")["query_seconds"] == 12.5


def test_all_that_jobs_used_is_somebodys() -> None:
    config = parse(TEXT)
    resources = {"shop": Resources(90, 9), "alone": Resources(5, 1), "gone": Resources(1, 1)}
    found = shared(config, {"shop": {"acme": Sent(1, 1), NOBODY: Sent(2, 1)}}, resources)
    assert found == {"acme": Resources(30, 3), NOBODY: Resources(65, 7)}


def test_the_end_of_a_run_tells_whose_it_was(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    config, log = used(store, "2026-01"), logging.getLogger("test")
    count_job(store, config, "shop", "00z", Resources(100, 400), NOW, log)
    count_job(store, config, "alone", "00y", Resources(50, 200), NOW, log)  # of no tenant's
    count_job(store, config, "gone", "00x", Resources(50, 200), NOW, log)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = {one["tenant"]: one["firn_tenant_vcpu_seconds"] for one in lines}
    assert told == {"acme": 75.0, "globex": 25.0}
    count_job(store, config, "shop", "00z", Resources(100, 400), NOW, log)
    assert capsys.readouterr().out == "", "it was told before"
    assert job_account.total(store, "shop", "2026-01") == Resources(3100, 12400)


def test_of_a_run_that_was_noted_twice_the_most_counts_and_odd_names_nothing(store: Store) -> None:
    job_account.note(store, "shop", "00a", Resources(10, 40), "2026-01")
    job_account.note(store, "shop", "00a", Resources(60, 240), "2026-01")
    job_account.note(store, "shop", "00b", Resources(), "2026-01")
    job_account.note(store, "shop", "../../x", Resources(1, 1), "2026-01")
    put(store, f"{jobs_prefix('2026-01', 'shop')}/notes.txt", b"")
    assert job_account.total(store, "shop", "2026-01") == Resources(60, 240)
    assert billed({"billedResourceUtilization": {"vCPUHour": None}}) == Resources()
