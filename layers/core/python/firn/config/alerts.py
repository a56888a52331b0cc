"""`alerts:` of firn.yaml as types: what somebody is told about, and where. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

AlertOn = Literal["freshness", "dead_letters", "quarantine", "slot_lag"]
MOST_TARGETS: Final = 10
MOST_RULES: Final = 50
MOST_TABLES: Final = 50  # of a rule: each is an alert of its own
FRESHNESS_SECONDS: Final = 900
SLOT_BYTES: Final = 1_000_000_000


@dataclass(frozen=True)
class Webhook:
    """An HTTPS address that takes signed messages. `address`, `secret`: the places of its URL and of the signing keys
    (firn.auth.secrets); neither stands in the file itself."""

    name: str
    address: str
    secret: str


@dataclass(frozen=True)
class Topic:
    """An SNS topic, by its ARN."""

    name: str
    arn: str

    @property
    def is_ordered(self) -> bool:
        """Whether it is a FIFO topic."""
        return self.arn.endswith(".fifo")


Target = Webhook | Topic


@dataclass(frozen=True)
class AlertRule:
    """What begins an alert, and the targets that are told.

    over     seconds that a change may wait (freshness), bytes of WAL between slot and end (slot_lag)
    at_least dead letters that wait for a replay (dead_letters)
    tables   namespace.table, an alert each (freshness); none: one for each stream
    streams  the streams that it watches; none: all
    to       names of targets
    """

    name: str
    on: AlertOn
    over: int = 0
    at_least: int = 1
    tables: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    to: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alerts:
    """All of it, by name."""

    targets: Mapping[str, Target] = field(default_factory=dict)
    rules: Mapping[str, AlertRule] = field(default_factory=dict)

    def named(self, name: str) -> tuple[Target, ...]:
        """The target of that name, those of the rule, or, without a name, all; none if nothing has the name."""
        if not name:
            return tuple(self.targets.values())
        if name in self.targets:
            return (self.targets[name],)
        return tuple(self.targets[one] for one in self.rules[name].to) if name in self.rules else ()
