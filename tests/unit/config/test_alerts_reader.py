"""`alerts` in firn.yaml: what begins one, and who is told."""

import pytest

from firn.config.alerts import AlertRule, Alerts, Topic, Webhook
from firn.config.reader import parse
from firn.errors import ConfigError

STREAMS = """streams:
  shop: {auth: {by: api_key, secret: 'ssm:/firn/posting'}, tables: {orders: {to: shop.orders}}}
  crm: {tables: {'*': {to: 'crm.{table}'}}}
"""
HOOK = "a: {webhook: 'ssm:/firn/url', secret: 'ssm:/firn/key'}"
ARN = "arn:aws:sns:eu-west-1:123456789012:firn"


def test_targets_and_rules_are_read_with_what_is_usual() -> None:
    rules = (
        "late: {on: freshness, over: 2d, tables: [shop.orders, crm.x], to: [t]}, all: {on: freshness, streams: [crm]}, "
        "dead: {on: dead_letters, at_least: 5}, held: {on: quarantine}, slot: {on: slot_lag, over: 5GB}"
    )
    found = parse(f"{STREAMS}alerts: {{targets: {{{HOOK}, t: {{sns: '{ARN}'}}}}, rules: {{{rules}}}}}\n").alerts
    to = ("a", "t")
    assert found == Alerts(
        {"a": Webhook("a", "ssm:/firn/url", "ssm:/firn/key"), "t": Topic("t", ARN)},
        {
            "late": AlertRule("late", "freshness", 172_800, tables=("shop.orders", "crm.x"), to=("t",)),
            "all": AlertRule("all", "freshness", 900, streams=("crm",), to=to),
            "dead": AlertRule("dead", "dead_letters", at_least=5, to=to),
            "held": AlertRule("held", "quarantine", to=to),
            "slot": AlertRule("slot", "slot_lag", 5_000_000_000, to=to),
        },
    )
    assert parse(STREAMS).alerts is None


@pytest.mark.parametrize(
    ("alerts", "said"),
    [
        ("yes", "alerts: is a text; write a mapping"),
        ("{target: {}}", "alerts.target: is not a setting; write targets"),
        ("{targets: {b: {webhook: 'https://x', secret: 'ssm:/k'}}}", r"b\.webhook: is a URL, and whoever knows it"),
        ("{targets: {b: {webhook: 'HTTP://x', secret: 'ssm:/k'}}}", r"b\.webhook: is a URL"),
        ("{targets: {b: {webhook: 'ssm:/u'}}}", r"b\.secret: is missing; write where the signing key is"),
        ("{targets: {b: {webhook: 'ssm:/u', secret: 'ssm:/u'}}}", r"b\.secret: is the place of the URL"),
        (
            "{targets: {b: {webhook: 'ssm:/u', secret: 'ssm:/firn/posting'}}}",
            r"b\.secret: is the secret of the stream shop",
        ),
        (f"{{targets: {{b: {{webhook: 'ssm:/u', secret: 'ssm:/k', sns: '{ARN}'}}}}}}", r"targets\.b: is one of two"),
        ("{targets: {b: {}}}", r"targets\.b: is one of two"),
        ("{targets: {b: {sns: firn}}}", r"b\.sns: 'firn' is not the ARN of an SNS topic; write arn:aws:sns:REGION"),
        (f"{{targets: {{b: {{sns: '{ARN}', secret: 'ssm:/k'}}}}}}", r"b\.secret: is not used by a topic"),
        ("{targets: {'B b': {sns: x}}}", r"targets\.B b: is not a name"),
        (f"{{targets: {{{HOOK}}}, rules: {{a: {{on: quarantine}}}}}}", r"rules\.a: is the name of a target too"),
        (
            f"{{targets: {{{HOOK}}}, rules: {{r: {{over: 1m}}}}}}",
            r"rules\.r\.on: is missing; write on: freshness, dead",
        ),
        (
            f"{{targets: {{{HOOK}}}, rules: {{r: {{on: fresh}}}}}}",
            r"r\.on: 'fresh' is not a thing to be told about; write f",
        ),
        (
            f"{{targets: {{{HOOK}}}, rules: {{r: {{on: quarantine, over: 1m}}}}}}",
            r"r\.over: is nothing that on: quarantine",
        ),
        (f"{{targets: {{{HOOK}}}, rules: {{r: {{on: slot_lag, over: 1m}}}}}}", r"r\.over: '1m' is not a size"),
        (f"{{targets: {{{HOOK}}}, rules: {{r: {{on: dead_letters, at_least: 0}}}}}}", "is not a whole number from 1"),
        (
            f"{{targets: {{{HOOK}}}, rules: {{r: {{on: quarantine, to: [b]}}}}}}",
            r"r\.to: 'b' is no target under alerts",
        ),
        (f"{{targets: {{{HOOK}}}, rules: {{r: {{on: quarantine, streams: [x]}}}}}}", r"r\.streams: 'x' is no stream"),
        ("{rules: {r: {on: quarantine}}}", r"rules\.r: tells nobody"),
        (f"{{targets: {{{HOOK}}}, rules: {{r: {{on: freshness, tables: [shop.x]}}}}}}", "'shop.x' is fed by no stream"),
        (f"{{targets: {{{HOOK}}}, rules: {{r: {{on: freshness, tables: [x]}}}}}}", "'x' is not namespace.table"),
        (
            f"{{targets: {{{HOOK}}}, rules: {{r: {{on: freshness, streams: [crm], tables: [shop.orders]}}}}}}",
            "is fed by no stream that it watches",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_to_write(alerts: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse(f"{STREAMS}alerts: {alerts}\n")


def test_there_is_a_most_of_each() -> None:
    targets = ", ".join(f"t{n}: {{sns: '{ARN}'}}" for n in range(11))
    rules = ", ".join(f"r{n}: {{on: quarantine}}" for n in range(51))
    tables = ", ".join(f"crm.t{n}" for n in range(51))
    late = f"l: {{on: freshness, tables: [{tables}]}}"
    with pytest.raises(ConfigError) as raised:
        parse(f"{STREAMS}alerts: {{targets: {{{targets}}}, rules: {{{rules}, {late}}}}}\n")
    told = str(raised.value)
    assert all(text in told for text in ("are 11, and 10 is the most", "are 52, and 50 is", "tables: are 51, and 50"))
