"""`writers` of a stream: senders that may write a part of it, each bound to its tables and rows; and who may send to a
stream by queue, by the ids that SQS gives. docs/adr/0109-writers.md. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from firn.config.model import Auth, Config, StreamConfig
from firn.config.names import starred

if TYPE_CHECKING:
    from firn.changes.row_condition import RowCondition

Outside = Literal["refuse", "dead_letter"]
MOST_WRITERS: Final = 10_000
_SENDER: Final = re.compile(r"(?P<kind>AROA|AIDA)[A-Z0-9]{12,124}|[0-9]{12}")


@dataclass(frozen=True)
class Writer:
    """A sender of a stream that may write a part of it.

    tables   patterns of source tables, whole names; None: all
    rows     what must be true of each row, before and after; None: anything. `says`: its text
    outside  what becomes of a request with a change outside: all of it is refused, or that change is a dead letter
    rate     bytes of JSON a second that it may send; None: any
    backlog  bytes of JSON of its own that may wait for their commit; None: any
    storage  bytes that the tables of `stored_in` may take, as they were measured last; None: any
    stored_in  names and patterns of target tables that hold its rows alone
    """

    name: str
    auth: Auth
    tables: tuple[str, ...] | None = None
    rows: "RowCondition | None" = None
    says: str = ""
    outside: Outside = "refuse"
    rate: int | None = None
    backlog: int | None = None
    storage: int | None = None
    stored_in: tuple[str, ...] = ()

    @property
    def has_quotas(self) -> bool:
        """Whether dispatch keeps an account of it."""
        return self.rate is not None or self.backlog is not None or self.storage is not None

    def may_write(self, table: str) -> bool:
        """Whether it may write a source table, by its whole name."""
        return self.tables is None or any(starred(pattern).fullmatch(table) for pattern in self.tables)

    def may_meet(self, source: str) -> bool:
        """Whether it may write some table that a rule for `source`, a name or a pattern, takes."""
        return self.tables is None or any(may_meet(one, source) for one in self.tables)

    def lacks_in_key(self, key: tuple[str, ...] | None) -> list[str]:
        """Fields of `rows` that are not in a mirror's key: whoever writes a key could then write a row of another."""
        return sorted(self.rows.fields - {*(key or ())}) if self.rows is not None else []


def may_meet(pattern: str, other: str) -> bool:
    """Whether some table may fit both; two patterns that begin alike are taken to."""
    (one, star, _), (two, other_star, _) = pattern.partition("*"), other.partition("*")
    if star and other_star:
        return one.startswith(two) or two.startswith(one)
    if not star and not other_star:
        return one == two
    wild, head, name = (pattern, one, other) if star else (other, two, pattern)
    return name.startswith(head) and starred(wild).fullmatch(name) is not None


def read_sender(text: str) -> str:
    """The id by which SQS names who sends (SenderId), without a role's session. Raises ValueError, which says what to
    write.

    A role's session is chosen by whoever assumes the role, so that it says nothing; and SQS tells no ARN.
    """
    if text.startswith("arn:"):
        raise ValueError(
            f"{text[:100]!r} is an ARN, and SQS does not tell it with a message; write the role's or user's id: "
            "aws iam get-role --role-name NAME --query Role.RoleId"
        )
    found = _SENDER.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{text[:100]!r} is not the id of a sender; write a role's (AROA…, without its session), a user's (AIDA…) "
            "or an account's 12 digits, for its root user"
        )
    return text


def queue_senders(stream: StreamConfig) -> Mapping[str, Writer | None]:
    """Who may send to a stream by queue, by SQS's id; None: all of it, by the stream's own `auth`."""
    found: dict[str, Writer | None] = {one: writer for writer in stream.writers.values() for one in writer.auth.queue}
    return found | dict.fromkeys(stream.auth.queue if stream.auth is not None else ())


def asks_queue_senders(stream: StreamConfig) -> bool:
    """Whether a queue message is only taken from a sender whom the stream lists."""
    return bool(stream.writers) or (stream.auth is not None and bool(stream.auth.queue))


def refuses_queue(config: Config, stream: str, queue_stream: str) -> str | None:
    """Why a queue message for a stream of this file is not taken, whoever sends it; None if it is.

    queue_stream  the stream of messages that name none (FIRN_QUEUE_STREAM). One that takes no queue messages
                  otherwise, and says nothing else in `accept`, makes the queue its own: all messages are for it
    """
    own = config.streams.get(queue_stream)
    if own is not None and own.accept is None and own.fed_by.kind is None and "sqs" not in own.ways:
        return None if stream == own.name else f"the queue is that of the stream {own.name} alone (FIRN_QUEUE_STREAM)"
    if "sqs" in config.streams[stream].ways:
        return None
    return (
        f"the stream {stream} takes no queue messages: list who may send them as queue: [AROA…] under its auth in "
        "firn.yaml, or write accept: [http, sqs] if whoever may send to the queue shall"
    )


def open_by_queue(config: Config) -> list[str]:
    """A line for each stream that asks who posts, but takes the queue messages of whoever may send to the queue."""
    return [
        f"{stream.name}: whoever may send to the queue may write all of it; list who, as auth: {{queue: [AROA…]}}"
        for stream in config.streams.values()
        if stream.auth is not None and "sqs" in stream.ways and not asks_queue_senders(stream)
    ]
