"""Queue messages to one staged batch, each message staged once: receipts by message id (docs/adr/0007).

A queue brings a message again, and in other company: it regroups what failed. So each message has a receipt of its own,
which names the batch of the delivery that claimed it. A message is in that batch, or in none:

1. All messages are claimed, then exactly those that this delivery won are staged. If one claim fails or stays unclear,
   nothing is.
2. Who meets a receipt of another batch looks whether that batch is staged: then the message is taken already. If not,
   its delivery may be at work still, and the message has to come again. Once that batch is older than a function can
   run, it is made void: an empty batch is put at its very path (create-if-absent). Either its delivery was first, and
   the message is in; or it can never stage it any more, and the message is claimed by a successor of its receipt.

Time decides only who waits, never what is right. Void batches hold nothing, so sealing and committing them is harmless.

A delivery takes no more events than may be read one by one: what is left over comes again, before anything is claimed
for it. A message that alone holds too many is a dead letter (docs/adr/0038-limits.md).
"""

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from firn.changes.change import Parsed
from firn.changes.envelopes.json_text import count_alone
from firn.changes.envelopes.limits import LIMITS, EventLimits
from firn.config.model import Config
from firn.config.writers import Writer
from firn.errors import EventError
from firn.ingest.accept import Accepted, Random, accept_messages, stream_config
from firn.ingest.writer_scope import QueueSenders
from firn.log import layout, receipts
from firn.log.batches import FORMAT, BatchMeta, UnreadableBatch, read_meta, write_batch
from firn.log.store import Store, put_if_absent

_log: Final = logging.getLogger(__name__)

# How long a batch that is not staged may still be under way: the function's time-out (template.yaml), which is less
# than the queue's visibility time-out, so that a dead delivery's messages wait for no second redelivery.
PATIENCE: Final = timedelta(seconds=30)
_KIND: Final = "queue"
_AT_ONCE: Final = 16  # claims in flight: a Lambda batch of 100 messages takes seven round trips


class Message(NamedTuple):
    """A queue message. `id`: the queue's, None where it gives none; such a message is staged without a receipt.
    `table`: the source table that it names, of rows; `sender`: who sent it, as SQS says (SenderId)."""

    id: str | None
    body: bytes
    table: str | None = None
    sender: str = ""


@dataclass(frozen=True)
class Taken:
    """What became of the messages of a delivery, by their places in it. Those in no list are in `batch`."""

    batch: Accepted | None  # None: nothing was left to stage
    duplicates: list[int]  # staged before, by another delivery or twice in this one
    again: list[int]  # the queue has to bring them again


class _Standing(Enum):
    STAGED = "the messages that name it are in it"
    UNDER_WAY = "it may be staged yet"
    VOID = "it never will be"


class _Claim:
    """A message on its way to a batch."""

    def __init__(self, place: int, message_id: str, body: bytes) -> None:
        self.place = place
        self.body = body
        self.key = message_id
        self.link = 1
        self.refused: EventError | None = None
        self.standing: _Standing | None = None  # of the batch that has it; None: this delivery's own

    def refuse(self, digest: str) -> None:
        """The id was used for another body: from here on this message is one of its own, and a dead letter."""
        self.refused = EventError(
            "message_conflict",
            f"the queue message id {self.key} came before with another body; that one was taken, this one is kept here",
        )
        self.key, self.link = f"{self.key}\n{digest}", 1


def take(
    store: Store,
    config: Config,
    stream: str,
    messages: Sequence[Message],
    *,
    now: datetime,
    limits: EventLimits = LIMITS,
    random: Random = os.urandom,
    patience: timedelta = PATIENCE,
    waits: Callable[[Writer], object] = lambda _: None,
) -> Taken:
    """Stage the messages of one stream that no other delivery has staged, as one batch. `now`: aware. `waits`: whether
    a writer's messages wait in the queue for now.

    A message that can't be read, that holds more than `limits`, from one who may not send it (`sender_not_allowed`), or
    whose id came before with another body (`message_conflict`), becomes a dead letter of that batch. Raises
    RequestError (404 unknown stream), StorageUnavailable, UnknownOutcome: all have to come again.
    """
    senders = QueueSenders(stream_config(config, stream))
    sent = [senders.of(message.sender) for message in messages]
    ready = [place for place, (writer, _) in enumerate(sent) if writer is None or not waits(writer)]
    late = sorted({*range(len(messages))} - {*ready})
    mine = [(messages[place], *sent[place]) for place in ready]
    done = _take(store, config, stream, mine, now, limits, random, patience)
    again = sorted([*late, *(ready[place] for place in done.again)])
    return Taken(done.batch, [ready[place] for place in done.duplicates], again)


def _take(
    store: Store,
    config: Config,
    stream: str,
    sent: Sequence[tuple[Message, Writer | None, EventError | None]],
    now: datetime,
    limits: EventLimits,
    random: Random,
    patience: timedelta,
) -> Taken:
    """As `take`, of messages with their writers, and why one is refused whatever is in it."""
    messages = [message for message, _, _ in sent]
    batch = layout.batch_id(stream, now, random(8))
    most = _first(messages, limits)
    left = [*range(most, len(messages))]
    messages = messages[:most]
    claims, twice = _claims(messages)
    _settle(store, config, batch, claims, now, patience)
    mine = {claim.place: claim for claim in claims if claim.standing is None}
    taken = [claim.place for claim in claims if claim.standing is _Standing.STAGED]
    again = [claim.place for claim in claims if claim.standing is _Standing.UNDER_WAY]
    places = sorted([*mine, *(place for place, message in enumerate(messages) if message.id is None)])
    if not places:
        return Taken(None, sorted(taken + twice), sorted(again + left))
    # Who sent it first: a replay takes no message of a stranger's, and one that came with another body by and by.
    refused = {
        at: sent[place][2] or (mine[place].refused if place in mine else None) for at, place in enumerate(places)
    }
    done = accept_messages(
        store,
        config,
        stream,
        [messages[place].body for place in places],
        tables=[messages[place].table for place in places],
        writers=[sent[place][1] for place in places],
        now=now,
        batch=batch,
        refused={at: error for at, error in refused.items() if error is not None},
        limits=limits,
    )
    if done.duplicate:  # void: this delivery was taken for dead
        _log.warning("batch %s was made void while it was under way: its %d messages come again", batch, len(places))
        return Taken(None, sorted(taken + twice), sorted(again + places + left))
    return Taken(done, sorted(taken + twice), sorted(again + left))


def _first(messages: Sequence[Message], limits: EventLimits) -> int:
    """How many messages, from the first on, hold so few events together that they are read in time; one at least."""
    total = 0
    for place, message in enumerate(messages):
        total += count_alone(message.body, limits)
        if place and total > limits.alone:
            return place
    return len(messages)


def _claims(messages: Sequence[Message]) -> tuple[list[_Claim], list[int]]:
    """A claim for each message with an id, and the places of those that this delivery holds twice."""
    claims: dict[tuple[str, bytes], _Claim] = {}
    twice: list[int] = []
    for place, message in enumerate(messages):
        if message.id is None:
            continue
        if (message.id, message.body) in claims:
            twice.append(place)
        else:
            claims[message.id, message.body] = _Claim(place, message.id, message.body)
    return list(claims.values()), twice


def _settle(
    store: Store, config: Config, batch: str, claims: Sequence[_Claim], now: datetime, patience: timedelta
) -> None:
    """Find for each claim the batch that has it, or win it for `batch`. Raises if one stays unclear."""
    stream = layout.stream_of(batch)

    def put(claim: _Claim) -> receipts.Receipt:
        path = layout.receipt_path(stream, claim.key, _KIND, claim.link)
        return receipts.put(store, path, receipts.receipt(batch, claim.body))

    def look(other: str) -> _Standing:
        return _standing(store, config, other, now, patience)

    unsettled = list(claims)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        while unsettled:
            found = list(zip(unsettled, pool.map(put, unsettled), strict=True))
            unsettled = []
            others = sorted({receipt.batch for _, receipt in found if receipt.batch != batch})
            standing = dict(zip(others, pool.map(look, others), strict=True))
            for claim, receipt in found:
                own = receipts.receipt(batch, claim.body)
                if receipt.body != own.body:
                    claim.refuse(own.body)
                    unsettled.append(claim)
                elif receipt.batch != batch:
                    claim.standing = standing[receipt.batch]
                    if claim.standing is _Standing.VOID:
                        claim.standing = None
                        claim.link += 1
                        unsettled.append(claim)


def _standing(store: Store, config: Config, batch: str, now: datetime, patience: timedelta) -> _Standing:
    """Is `batch`, which a receipt names, staged? If it is not and should be by now, it is made void."""
    path = layout.staged_path(batch)
    try:
        meta = read_meta(store, path)
        if meta is None:
            # Clocks may differ either way: a batch from far in the future is not waited for.
            if abs(now - layout.time_of(batch)) < patience:
                return _Standing.UNDER_WAY
            _log.warning("batch %s was claimed and never staged: it is made void, its messages are taken again", batch)
            if put_if_absent(store, path, _void(config, batch)):
                return _Standing.VOID
            meta = read_meta(store, path)
    except UnreadableBatch as error:
        _log.error("%s; the messages that name it wait", error)
        return _Standing.UNDER_WAY
    if meta is None:
        return _Standing.UNDER_WAY
    return _Standing.VOID if is_void(meta) else _Standing.STAGED


def is_void(meta: BatchMeta) -> bool:
    """Does the batch hold nothing? Then no message is in it, whoever wrote it; dead letters of its id don't count."""
    return meta.accepted == meta.rejected == 0 and not meta.ignored


def _void(config: Config, batch: str) -> bytes:
    nothing = Parsed(**{name: [] for name in Parsed.__struct_fields__ if name != "ignored"}, ignored={})
    received = layout.instant(layout.time_of(batch))
    return write_batch(nothing, BatchMeta(FORMAT, layout.stream_of(batch), batch, received, config.sha, 0, 0, {}, {}))
