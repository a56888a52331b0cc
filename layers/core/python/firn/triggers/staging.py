"""A batch of records -> staged batches, in its order, as far as it comes (docs/adr/0062).

Nothing here remembers what came before. Each event has its place, its source's or its record's, and folds away by it
when a batch comes again, whole or in other parts. What can't be read is a dead letter and counts as staged; if storage
or a schema registry is away, or the stream's backlog is full, the batch comes again from the first record that is not
staged.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from firn.changes.envelopes import registry
from firn.changes.envelopes.json_text import count_alone
from firn.changes.record import Record
from firn.config.event_sources import Kafka, Registry, fed_by_arn, fed_by_topic
from firn.config.model import Config, StreamConfig
from firn.errors import ConfigError, EventError, FirnError, RequestError
from firn.ingest.accept import Accepted, Random, accept_messages
from firn.ingest.bodies import Limits
from firn.log.store import Store
from firn.triggers.deliveries import Delivery, Entry
from firn.triggers.kafka_values import Schemas, key_json, value_json
from firn.triggers.kinesis_data import user_records

Registries = Callable[[Registry], Schemas]
Refusal = Callable[[str], FirnError | None]
"""A stream -> why nothing is taken for it now, None if it is (its backlog is full)."""

_MOST_BYTES: Final = 32 * 1024 * 1024  # of values that become one staged batch


class Staged(NamedTuple):
    """What became of one stream's part of a batch. `bytes`: of the values; `accepted`: a staged batch each."""

    stream: str
    accepted: list[Accepted]
    bytes: int
    refused: FirnError | None


@dataclass
class Outcome:
    """What became of a batch. `failed`: the place of the first record that is not staged, None if all are; `why`."""

    staged: list[Staged] = field(default_factory=list)
    failed: int | None = None
    why: FirnError | None = None

    def fail(self, place: int, why: FirnError) -> None:
        """Bring it again from here on."""
        if self.failed is None or place < self.failed:
            self.failed, self.why = place, why


class _Message(NamedTuple):
    """One value with events, of the record at `entry`."""

    entry: int
    body: bytes
    record: Record
    events: int
    refused: EventError | None = None


def take(
    store: Store,
    config: Config,
    delivery: Delivery,
    *,
    now: datetime,
    limits: Limits,
    registries: Registries,
    refusal: Refusal = lambda _stream: None,
    random: Random = os.urandom,
) -> Outcome:
    """Stage the records of a batch, of each stream that they are for in their order. `now`: aware.

    Raises nothing of FirnError: what can't be taken now is `failed` in the answer.
    """
    outcome = Outcome()
    for stream, places in _by_stream(config, delivery, outcome).items():
        settings, accepted, size = config.streams[stream], list[Accepted](), 0
        why = refusal(stream)
        if why is not None:
            outcome.fail(places[0], why)
        else:
            at = places[0]
            try:
                for part in _parts(_messages(delivery, places, settings, limits, registries), limits):
                    at = part[0].entry
                    accepted += _stage(store, config, stream, part, now, limits, random)
                    size += sum(len(message.body) for message in part)
            except _Stopped as stopped:
                outcome.fail(stopped.entry, stopped.why)
            except FirnError as error:
                outcome.fail(at, error)
        outcome.staged.append(Staged(stream, accepted, size, why))
    return outcome


def _by_stream(config: Config, delivery: Delivery, outcome: Outcome) -> dict[str, list[int]]:
    """The places of the records by the stream that they are for."""
    found: dict[str, list[int]] = {}
    streams = config.streams.values()
    owners = {topic: fed_by_topic(streams, delivery.clusters, topic) for topic in {e.topic for e in delivery.entries}}
    if delivery.kind != "kafka":
        owners = {"": fed_by_arn(streams, delivery.arn)}
    for place, entry in enumerate(delivery.entries):
        owner = owners[entry.topic]
        if owner is None:
            setting = f"kafka: {{topics: [{entry.topic}]}}" if entry.topic else f"{delivery.kind}: {delivery.arn}"
            text = (
                f"no stream of firn.yaml says that this feeds it; write {setting[:300]} under the stream that it is for"
            )
            outcome.fail(place, ConfigError(text))
        else:
            found.setdefault(owner.name, []).append(place)
    return found


class _Stopped(Exception):
    """A record can't be read now, though nothing is wrong with it."""

    def __init__(self, entry: int, why: FirnError) -> None:
        super().__init__(str(why))
        self.entry, self.why = entry, why


def _messages(
    delivery: Delivery, places: Sequence[int], settings: StreamConfig, limits: Limits, registries: Registries
) -> Iterator[_Message | _Stopped]:
    for place in places:
        entry = delivery.entries[place]
        try:
            yield from _read(place, entry, settings, limits, registries)
        except EventError as error:
            yield _Message(place, entry.data or b"", entry.record(), 1, error)
        except FirnError as error:  # what came before it is staged
            yield _Stopped(place, error)
            return


def _read(
    place: int, entry: Entry, settings: StreamConfig, limits: Limits, registries: Registries
) -> Iterator[_Message]:
    if entry.unreadable is not None:
        raise entry.unreadable
    bare = registry.KNOWN.bare(settings.envelope) is not None
    kafka = settings.fed_by.kafka
    if entry.topic and kafka is not None:
        schemas, id_bytes = _schemas(kafka, registries)
        record = entry.record(key=key_json(entry.key, schemas, id_bytes), by_time=kafka.order == "timestamp")
        body = b"" if entry.data is None else value_json(entry.data, schemas, id_bytes, typed=not bare)
        yield _Message(place, body, record, _count(body, limits))
        return
    for sub, body in enumerate(user_records(entry.data or b"", limits)):
        yield _Message(place, body, entry.record(sub), _count(body, limits))


def _schemas(kafka: Kafka, registries: Registries) -> tuple[Schemas | None, int]:
    return (None, 0) if kafka.registry is None else (registries(kafka.registry), kafka.registry.id_bytes)


def _count(body: bytes, limits: Limits) -> int:
    """How many events a value holds at most."""
    return 1 if body[:1] == b"{" and b"\n" not in body else count_alone(body, limits.events)


def _parts(messages: Iterator[_Message | _Stopped], limits: Limits) -> Iterator[list[_Message]]:
    """Messages that are staged together: no more events than may be read one by one, nor more bytes than memory has
    room for. Those before one that can't be read now come first, then _Stopped is raised."""
    part: list[_Message] = []
    events = size = 0
    for message in messages:
        if isinstance(message, _Stopped):
            if part:
                yield part
            raise message
        events, size = events + message.events, size + len(message.body)
        if part and (events > limits.events.alone or size > _MOST_BYTES):
            yield part
            part, events, size = [], message.events, len(message.body)
        part.append(message)
    if part:
        yield part


def _stage(
    store: Store, config: Config, stream: str, part: list[_Message], now: datetime, limits: Limits, random: Random
) -> list[Accepted]:
    """One staged batch of these messages; more, if they can't be staged together. What can't be staged alone is a dead
    letter. Raises TransientError, UnknownOutcome, ConfigError."""
    try:
        done = accept_messages(
            store,
            config,
            stream,
            [message.body for message in part],
            records=[message.record for message in part],
            now=now,
            refused={place: message.refused for place, message in enumerate(part) if message.refused is not None},
            limits=limits.events,
            random=random,
        )
    except RequestError as error:
        if len(part) > 1:
            half = len(part) // 2
            halves = (part[:half], part[half:])
            return [one for some in halves for one in _stage(store, config, stream, some, now, limits, random)]
        if part[0].refused is not None:
            raise
        alone = part[0]._replace(refused=EventError(error.code, str(error)))
        return _stage(store, config, stream, [alone], now, limits, random)
    return [done]
