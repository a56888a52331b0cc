"""firn alerts: what lasts and who was told; firn alerts test: what came of it."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ingress import Ingress

from firn.alerts import alert_round
from firn.alerts.alert_delivery import Sender
from firn.auth.secrets import Secrets
from firn.deployment.stack import NoStack, Stack
from firn.log import holds, published_configs
from firn.log.holds import Quarantine
from firn.log.store import Store
from firn_cli.main import main

CONFIG = """
streams: {shop: {tables: {public.orders: {to: shop.orders, key: [id]}}}}
alerts:
  targets: {oncall: {webhook: 'file:/none/url', secret: 'file:/none/key'}}
  rules: {held: {on: quarantine}}
"""
AT = "2026-03-01T00:00:00.000Z"


@pytest.fixture
def stack(tmp_path: Path, ingress: Ingress, store: Store) -> Path:
    published_configs.publish(store, CONFIG)
    (tmp_path / "stack.json").write_text(json.dumps({"url": ingress.url, "staging": f"file://{tmp_path}/staging"}))
    return tmp_path


def firn(capsys: pytest.CaptureFixture[str], stack: Path, *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments, "--dir", str(stack)])
    out, err = capsys.readouterr()
    return code, " ".join(out.split()), err


def test_it_says_what_is_watched_what_lasts_and_that_nobody_was_told(
    capsys: pytest.CaptureFixture[str], stack: Path, store: Store
) -> None:
    code, out, _ = firn(capsys, stack, "alerts")
    assert (code, "held every stream: anything is quarantined oncall 0" in out, "no alert lasts" in out) == (
        0,
        True,
        True,
    )
    found = Quarantine(1, "shop", 1, AT, "failed", "a message", "fix it", table="shop.orders")
    holds.hold(store, found)
    config, sender = published_configs.current(store), Sender(Secrets(), "local", "")
    alert_round.run(store, config, sender, datetime.now(UTC))
    code, out, _ = firn(capsys, stack, "alerts")
    assert "shop.orders of shop is quarantined (failed)" in out
    assert "oncall (begun): waits, there is nothing at file:/none/url" in out
    holds.lift(store, found, "retry", AT)
    alert_round.run(store, config, sender, datetime.now(UTC))
    assert "1 alert ended: --all shows the newest" in firn(capsys, stack, "alerts")[1]
    assert "no longer quarantined" in firn(capsys, stack, "alerts", "--all")[1]
    listed = json.loads(firn(capsys, stack, "alerts", "--all", "--json")[1])
    assert (listed["ended"], listed["alerts"][0]["rule"]) == (1, "held")


def test_a_configuration_without_alerts_says_where_to_read_on(
    capsys: pytest.CaptureFixture[str], stack: Path, store: Store
) -> None:
    published_configs.publish(store, CONFIG.partition("alerts:")[0])
    assert "docs/alerts.md" in firn(capsys, stack, "alerts")[1]


def test_a_test_says_what_came_of_it_and_fails_if_it_did_not_arrive_for_sure(
    capsys: pytest.CaptureFixture[str], stack: Path, ingress: Ingress
) -> None:
    path = "/_firn/invoke/alerts"
    ingress.answers[path] = {"tests": [{"target": "oncall", "outcome": "sent", "why": "", "status": 204}]}
    assert firn(capsys, stack, "alerts", "test", "oncall") == (0, "oncall: sent", "")
    sent = json.loads(ingress.requests[-1]["body"])
    assert (sent["test"], len(sent["nonce"])) == ("oncall", 32)
    ingress.answers[path] = {"tests": [{"target": "oncall", "outcome": "failed", "why": "HTTP 500", "status": 500}]}
    code, out, err = firn(capsys, stack, "alerts", "test")
    assert (code, out) == (1, "oncall: failed: HTTP 500")
    assert "did not arrive for sure at oncall" in err
    ingress.answers[path] = {"error": "firn.yaml names no target so"}
    assert firn(capsys, stack, "alerts", "test", "x")[::2] == (1, "firn: firn.yaml names no target so\n")


def test_a_deployment_of_an_older_template_has_nobody_to_send_a_test(tmp_path: Path) -> None:
    old = Stack(tmp_path, "https://a.example", dispatch="firn-dev-dispatch")
    with pytest.raises(NoStack, match="deploy it again"):
        old.invoke_alerts({"test": "", "nonce": "a"})
