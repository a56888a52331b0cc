"""What a target is told: the same bytes at every try, so that a receiver that has seen the id need not act again.

Names, numbers and Firn's own words; nothing of what a change or a dead letter holds.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal

import msgspec

from firn.log.alert_log import Begun, Ended, Moment
from firn.log.batches import FORMAT

What = Literal["begun", "ended", "test"]


class Body(msgspec.Struct, frozen=True):
    """The JSON of a message (docs/alerts.md). `text` alone is enough for people."""

    format: int
    id: str
    what: What
    alert: str
    text: str
    environment: str = ""
    on: str = ""
    stream: str = ""
    subject: str = ""
    value: float = 0
    limit: float = 0
    unit: str = ""
    began_at: str = ""
    ended_at: str = ""


@dataclass(frozen=True)
class Message:
    """A message on its way. `id`: the same at every try; `group`: what those of one alert have in common."""

    id: str
    what: What
    alert: str
    group: str
    text: str
    body: bytes


def message_of(begun: Begun, ended: Ended | None, moment: Moment, environment: str) -> Message:
    """The message of an alert's beginning, or of its end."""
    group = hashlib.sha256(
        "\n".join((environment, begun.rule, begun.stream, begun.subject, str(begun.n), begun.at)).encode(
            "utf-8", "surrogatepass"
        )
    ).hexdigest()[:32]
    over = ended if moment == "ended" else None
    text = begun.text if over is None else over.text
    id = f"firn-{group}-{moment}"
    body = Body(
        FORMAT, id, moment, begun.rule, _readable(text), environment, begun.on, _readable(begun.stream),
        _readable(begun.subject), begun.value, begun.limit, begun.unit, begun.at, "" if over is None else over.at,
    )  # fmt: skip
    return Message(id, moment, begun.rule, group, _readable(text), msgspec.json.encode(body))


def message_of_test(target: str, environment: str, nonce: str) -> Message:
    """A message that says nothing but that it arrives. `nonce`: of letters and digits, the same at a repeat."""
    text = f"This is a test of {target}, asked for by a person: alerts of {environment or 'this stack'} arrive here."
    id = f"firn-{nonce}-test"
    body = Body(FORMAT, id, "test", target, text, environment)
    return Message(id, "test", target, nonce, text, msgspec.json.encode(body))


def _readable(text: str) -> str:
    """Names come from sources: whatever is no character, or steers a terminal, is written out."""
    return "".join(
        one if one.isprintable() and not 0xD800 <= ord(one) <= 0xDFFF else f"\\u{ord(one):04x}" for one in text
    )
