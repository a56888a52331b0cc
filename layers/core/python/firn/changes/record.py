"""A record of a stream that triggers functions: where it stands there, and what it says beside its value.

The record gives its events the places that they do not have of themselves, as an order text of its own:

    @kinesis:SEQUENCE:SUB:N     SUB: the shard, 32 bits, and which user record of an aggregated one; N: the event in it
    @dynamodb:SEQUENCE:SUB:N
    @kafka:OFFSET:PARTITION:N
    @kafka-time:TIMESTAMP:OFFSET:PARTITION:N      of a stream with `order: timestamp`; ms

positions.py compares them as numbers: sequence numbers rise for each key of a Kinesis shard (and of those that it is
split or merged into, which are made later) and for each item of a DynamoDB table; offsets within a partition. A key
that moves to another partition, because the topic got more, goes on at other offsets: timestamps go on.
"""

import re
from typing import Final

import msgspec

PLACED: Final = "@"
"""How the order text of a record begins. No source's own does."""
BY_TIME: Final = "@kafka-time:"


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record of a stream.

    place    its order text without the number of the event, `@kafka:1041:3` for example
    topic    of Kafka
    key      the record's key as JSON text; None if it has none
    headers  of Kafka, names and texts
    gone     whether it has no value: a tombstone
    first    the number that the first event of the value has in the record: of a dead letter, which is one of several
    """

    place: str
    topic: str = ""
    key: str | None = None
    headers: list[tuple[str, str]] = []
    gone: bool = False
    first: int = 0

    def order(self, index: int) -> str:
        """The order text of an event by its number in the value, from 0."""
        return f"{self.place}:{self.first + index}"


_NUMBERS: Final = {"@kinesis": 3, "@dynamodb": 3, "@kafka": 3, "@kafka-time": 4}
_DIGITS: Final = re.compile(r"[0-9]{1,60}")
_MARK: Final = 1 << 126  # no number of such a place has more than 124 bits


def recorded(order: str, _op: str) -> tuple[int, int]:
    """The numbers of a place, as positions.py has them: 128 and 192 bits. Raises ValueError."""
    kind, *numbers = order.split(":")
    if len(numbers) != _NUMBERS.get(kind) or not all(map(_DIGITS.fullmatch, numbers)):
        raise ValueError("it is not the place of a record")
    *first, second, event = map(int, numbers)
    inside = _within(second) << 64 | _within(event)
    if kind == "@kafka":
        return _MARK | _within(first[0]), inside
    if kind == BY_TIME[:-1]:
        return _within(first[0], 48) << 64 | _within(first[1]), inside
    high, low = divmod(_within(first[0], 188), 1 << 64)
    return _MARK | high, low << 128 | inside


def by_record(position: bytes) -> bool:
    """Whether a position is that of a record in its shard or partition. Such places say nothing of time: a new key may
    get a lower one than a delete of long ago."""
    return len(position) > 4 and position[4] >> 4 == _MARK >> 124


def _within(number: int, bits: int = 64) -> int:
    if number >= 1 << bits:
        raise ValueError(f"a number of the record's place is not between 0 and 2^{bits}")
    return number
