"""`alerts:` of firn.yaml from the YAML tree."""

import re
from collections.abc import Mapping
from typing import Final

from firn.config import quantities
from firn.config.alerts import (
    FRESHNESS_SECONDS,
    MOST_RULES,
    MOST_TABLES,
    MOST_TARGETS,
    SLOT_BYTES,
    AlertOn,
    AlertRule,
    Alerts,
    Target,
    Topic,
    Webhook,
)
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.config.problems import Section, shown, words
from firn.config.secret_addresses import checked_place, is_same_place

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_ARN: Final = re.compile(r"arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,250}(\.fifo)?")
_PLACE: Final = "secretsmanager:NAME, ssm:/NAME or file:/PATH"
_OF_RULE: Final[Mapping[AlertOn, tuple[str, ...]]] = {
    "freshness": ("over", "tables"), "dead_letters": ("at_least",), "quarantine": (), "slot_lag": ("over",)
}  # fmt: skip
_OWN: Final = ("over", "tables", "at_least")
_MOST_LETTERS: Final = 10**9


def read_alerts(section: Section, streams: Mapping[str, StreamConfig]) -> Alerts | None:
    """The alerts, None if there are none; every problem is noted. `streams`: those of the file."""
    section.allow_only(("targets", "rules"))
    if section.is_missing:
        return None
    targets = _targets(section.section("targets"), streams)
    below = section.section("rules")
    _check_names(section, "rules", below, MOST_RULES)
    for name in below.names:
        if name in targets:
            below.note(name, "is the name of a target too; `firn alerts test NAME` could mean either: rename one")
    rules = {name: _rule(name, below.section(name), targets, streams) for name in below.names}
    return Alerts(targets, {name: rule for name, rule in rules.items() if rule is not None})


def _check_names(section: Section, what: str, below: Section, most: int) -> None:
    if len(below.names) > most:
        section.note(what, f"are {len(below.names)}, and {most} is the most; leave some out")
    for name in below.names:
        if not _NAME.fullmatch(name):
            below.note(name, "is not a name; write a-z, 0-9, _ and - only, such as oncall")


def _targets(section: Section, streams: Mapping[str, StreamConfig]) -> dict[str, Target]:
    _check_names(section, "targets", section, MOST_TARGETS)
    found = {name: _target(name, section.section(name), streams) for name in section.names}
    return {name: target for name, target in found.items() if target is not None}


def _target(name: str, section: Section, streams: Mapping[str, StreamConfig]) -> Target | None:
    section.allow_only(("webhook", "secret", "sns"))
    if section.has("webhook") == section.has("sns"):
        section.problems.add(
            section.line, section.path,
            "is one of two: write webhook: secretsmanager:firn/ENVIRONMENT/NAME (a secret that holds the URL) and "
            "secret: …, or sns: arn:aws:sns:…",
        )  # fmt: skip
        return None
    if section.has("sns"):
        if section.has("secret"):
            section.note("secret", "is not used by a topic; leave the line out")
        return Topic(name, section.parsed("sns", _topic, "", "arn:aws:sns:eu-central-1:123456789012:firn"))
    address = section.parsed("webhook", _address, "", f"where a secret holds the URL: {_PLACE}")
    if not section.has("secret"):
        section.note("secret", f"is missing; write where the signing key is: {_PLACE}")
    secret = section.parsed("secret", checked_place, "", f"where the signing key is: {_PLACE}")
    if is_same_place(address, secret):
        section.note("secret", "is the place of the URL; the signing key is another secret")
    for stream in streams.values():
        for whose, auth in stream.auths():
            if is_same_place(secret, auth.secret):
                section.note("secret", f"is the secret of {whose} too: who checks alerts could post; make another")
    return Webhook(name, address, secret)


def _topic(text: str) -> str:
    if not _ARN.fullmatch(text.strip()):
        raise ValueError(f"{shown(text)} is not the ARN of an SNS topic; write arn:aws:sns:REGION:ACCOUNT:NAME")
    return text.strip()


def _address(text: str) -> str:
    if re.match(r"\s*https?:", text, re.IGNORECASE):
        raise ValueError(
            f"is a URL, and whoever knows it can write there; put it into a secret, and write where that is: {_PLACE}"
        )
    return checked_place(text)


def _rule(
    name: str, section: Section, targets: Mapping[str, Target], streams: Mapping[str, StreamConfig]
) -> AlertRule | None:
    section.allow_only(("on", "streams", "to", *_OWN))
    if not section.has("on"):
        section.note("on", f"is missing; write on: {words(tuple(_OF_RULE))}")
        return None
    on: AlertOn = section.choice("on", AlertOn, "thing to be told about", "freshness")
    own = _OF_RULE[on]
    for key in _OWN:
        if key in section.names and key not in own:
            section.note(key, f"is nothing that on: {on} knows; leave the line out")
    over = 0
    if on == "freshness":
        over = section.parsed("over", quantities.days, FRESHNESS_SECONDS, "15m")
    elif on == "slot_lag":
        over = section.parsed("over", quantities.size, SLOT_BYTES, "1GB")
    named = _known(section, "streams", streams, "stream under streams:")
    rule = AlertRule(
        name, on, over,
        section.integer("at_least", 1, _MOST_LETTERS, 1) if "at_least" in own else 1,
        _tables(section, named, streams) if "tables" in own else (),
        named,
        _known(section, "to", targets, "target under alerts.targets") or tuple(targets),
    )  # fmt: skip
    if not rule.to:
        section.problems.add(
            section.line, section.path, "tells nobody: write a target under alerts.targets, a webhook or an SNS topic"
        )
    return rule


def _known(section: Section, key: str, known: Mapping[str, object], what: str) -> tuple[str, ...]:
    if section.node(key) is None:
        return ()
    found = [item.text for item in section.texts(key, f"{key}: [{', '.join(known) or 'NAME'}]")]
    for name in dict.fromkeys(found):
        if name not in known:
            section.note(key, f"{shown(name)} is no {what}; there {'are' if len(known) > 1 else 'is'} "
                         f"{', '.join(known) or 'none'}")  # fmt: skip
    return tuple(name for name in dict.fromkeys(found) if name in known)


def _tables(section: Section, named: tuple[str, ...], streams: Mapping[str, StreamConfig]) -> tuple[str, ...]:
    if section.node("tables") is None:
        return ()
    found = tuple(dict.fromkeys(item.text for item in section.texts("tables", "tables: [shop.orders]")))
    if len(found) > MOST_TABLES:
        section.note("tables", f"are {len(found)}, and {MOST_TABLES} is the most; leave them out for whole streams")
    watched = [streams[name] for name in named or streams]
    for table in found:
        try:
            target = TableName.parse(table)
        except ValueError as error:
            section.note("tables", f"{shown(table)} is not namespace.table: {error}")
            continue
        if not any(rule.feeds(target) for stream in watched for rule in stream.targets):
            section.note("tables", f"{shown(table)} is fed by no stream that it watches; write a target table")
    return found
