"""`firn status --tenants`: what it prints."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from firn.log import query_usage
from firn.log.published_configs import publish
from firn.log.store import Store, put
from firn.log.usage_layout import month_of, stream_path
from firn.usage import job_account
from firn.usage.job_account import Resources
from firn_cli.main import main

NOW = datetime.now(UTC)
AUTH = "auth: {by: api_key, secret: 'ssm:/firn/%s'}"
TEXT = f"""
query: {{readers: {{acme: {{{AUTH % "ra"}, tables: [a.*]}}}}}}
streams:
  shop:
    envelope: rows
    writers: {{acme: {{{AUTH % "wa"}}}, globex: {{{AUTH % "wg"}}}}}
    tables: {{'*': {{to: 's.{{table}}', mode: append}}}}
"""
pytestmark = pytest.mark.usefixtures("addresses")


@pytest.fixture(autouse=True)
def month(store: Store) -> str:
    month = month_of(NOW)
    publish(store, TEXT)
    told = {"format": 1, "stream": "shop", "month": month, "counted": 0}
    sent = {"acme": [750_000_000_000, 6_000_000], "globex": [1, 1]}
    put(store, stream_path("shop", month), json.dumps({**told, "sent": sent}).encode())
    job_account.note(store, "shop", "00a", Resources(3_000_000, 12_000_000), month)
    query_usage.add(store, "acme", 123_456.5, NOW)
    return month


def test_it_shows_all_tenants_in_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str], month: str) -> None:
    assert main(["status", "--tenants", "--dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 80
    (acme,) = [line for line in shown if line.startswith("acme")]
    assert acme.split() == ["acme", "750.0", "GB", "6,000,000", "3,000,000", "0", "B", "1", "123,456.5", "164.6593"]
    assert [line.split()[0] for line in shown if line.startswith(("acme", "globex", "("))] == [
        "acme",
        "globex",
        "(others)",
    ]
    assert shown[-1].startswith(f"{month} (UTC), by list prices")


def test_it_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], month: str) -> None:
    assert main(["status", "--tenants", "--json", "--dir", str(tmp_path)]) == 0
    acme, globex, others = json.loads(capsys.readouterr().out)
    assert (acme["tenant"], acme["month"], acme["bytes"], acme["requests"]) == (
        "acme",
        month,
        750_000_000_000,
        6_000_000,
    )
    assert (acme["vcpu_seconds"], acme["queries"], acme["query_seconds"]) == (3_000_000.0, 1, 123_456.5)
    assert acme["dollars_together"] == pytest.approx(sum(acme["dollars"].values()), abs=1e-5)
    assert (globex["bytes"], others["tenant"], others["bytes"]) == (1, "(others)", 0)


def test_a_month_that_is_over_is_shown_and_what_is_none_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--month", "2020-01", "--json", "--dir", str(tmp_path)]) == 0
    assert {(one["stored_bytes"], one["bytes"]) for one in json.loads(capsys.readouterr().out)} == {(None, 0)}
    for month in ("2026-13", "26-01", "2026-01-01", "../x"):
        assert main(["status", "--month", month, "--dir", str(tmp_path)]) == 2
        assert "is not a month" in capsys.readouterr().err


def test_it_says_that_there_are_no_tenants(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(store, "streams: {shop: {tables: {t: {to: o.t, key: [id]}}}}")
    assert main(["status", "--tenants", "--dir", str(tmp_path)]) == 0
    assert "no tenants" in capsys.readouterr().out
