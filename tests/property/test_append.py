"""Who a change of an append table is: what Firn says equals the specification, and the specification is true of what
happened as far as the sources tell."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from firn.changes.decode.codec import DecodeSettings
from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.types import STRING, Column
from firn.changes.merge import decoded_rows
from firn.changes.merge.append import Identity, identified
from firn.changes.merge.ordering import Order
from firn.commit.staged_changes import raw_changes
from firn.ingest import accept
from firn.log import layout, published_configs
from firn.log.store import get
from tests.appending import CONFIG, STREAMS, Happened, Sent, Source, requests, source, ticking

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DECODING = Decoding((Column("v", STRING),), (), DecodeSettings())
dices = st.integers(0, 2**32).map(random.Random)
Requests = Sequence[tuple[str, Sequence[Sent]]]


def identities(sent: Requests) -> list[list[str]]:
    """Who each change of each request is, by ingest and the decoder of append tables."""
    store = MemoryStore()
    config = published_configs.publish(store, CONFIG)
    found = []
    for stream, some in sent:
        body = b"\n".join(msgspec.json.encode(one.event) for one in some)
        batch = accept.accept(store, config, stream, body, now=NOW).batch_id
        staged = get(store, layout.staged_path(batch))
        assert staged is not None
        rows, _ = decoded_rows.decoded(raw_changes(staged, 1, batch, 0, Order()), DECODING, mirror=False)
        found.append([decoded_rows.identity(row, stream) for row in rows])
    return found


def specified(sent: Requests) -> list[Identity]:
    """Who each change of each request is, by the specification."""
    return [who for who, _ in identified((str(n), [one.delivery for one in some]) for n, (_, some) in enumerate(sent))]


def kept(sent: Requests) -> Counter[Happened]:
    """The rows that the specification makes of requests, as what happened."""
    changes = (one.what for _, some in sent for one in some)
    return Counter(dict(zip(specified(sent), changes, strict=True)).values())


def sources(
    dice: random.Random, *, numbered: bool | None = None, restarts: bool | None = None, binlog: bool | None = None
) -> list[Source]:
    clock = ticking()
    coin = lambda given: dice.random() < 0.5 if given is None else given  # noqa: E731
    return [
        source(one, dice, clock, numbered=coin(numbered), restarts=coin(restarts), binlog=coin(binlog))
        for one in STREAMS
    ]


def happened(some: Iterable[Source]) -> Counter[Happened]:
    return Counter(one for each in some for one in each.happened)


@given(dices)
def test_two_deliveries_are_one_row_where_the_specification_says_so(dice: random.Random) -> None:
    sent = requests(sources(dice), dice)
    found = [one for some in identities(sent) for one in some]
    by_both = set(zip(found, specified(sent), strict=True))
    assert len(by_both) == len(set(found)) == len(set(specified(sent)))


@given(dices)
def test_a_numbered_source_that_was_not_restarted_has_each_of_its_changes_once_in_any_split(
    dice: random.Random,
) -> None:
    some = sources(dice, numbered=True, restarts=False)
    assert kept(requests(some, dice)) == happened(some)


@given(dices)
def test_a_numbered_source_that_was_restarted_loses_nothing_in_any_split(dice: random.Random) -> None:
    some = sources(dice, numbered=True)
    found = kept(requests(some, dice))
    assert found >= happened(some)
    assert found.keys() == happened(some).keys()
    assert found <= Counter(one.what for each in some for run in each.runs for one in run)


@given(dices)
def test_a_change_with_a_place_of_its_own_is_there_once_with_numbers_or_without_and_restarted_anywhere(
    dice: random.Random,
) -> None:
    some = sources(dice)
    own = Counter(one for one in happened(some).elements() if one.own_place)
    assert Counter(one for one in kept(requests(some, dice)).elements() if one.own_place) == own
    assert max(own.values(), default=1) == 1


def test_inserts_of_postgresql_that_are_sent_again_are_in_two_histories_the_same_events() -> None:
    """So no rule tells them apart: a row that a restarted connector sends again, and the next row of the same COPY.

    Debezium numbers what it sends of a transaction from 1 after a restart, and goes on between two rows of one LSN,
    after as many as the offset that it last stored says: of what it sent since, nobody knows.
    """
    first = Happened("a", "app.t", "c", 1, 1, "x")
    copied = Happened("a", "app.t", "c", 1, 2, "y")

    def sent(rows: Sequence[Happened], killed_after: int, goes_on_at: int) -> set[Sent]:
        told = Source("a", numbered=True, happened=list(rows))
        told.run(0, killed_after, iter([10, 20]))
        told.run(goes_on_at, len(rows), iter([30]))
        return {one for run in told.runs for one in run}

    one_row = sent([first, copied], killed_after=2, goes_on_at=1)  # the offset was stored after `first`
    two_rows = sent([first, copied, copied], killed_after=2, goes_on_at=2)  # it was stored after `copied`
    assert one_row == two_rows


@given(dices)
def test_the_specification_of_a_source_without_numbers_has_each_different_change_once_in_any_split(
    dice: random.Random,
) -> None:
    """Restarted or not. Of equal ones there are at least as many as a request shows, and never more than happened."""
    some = sources(dice, numbered=False)
    streamed = [one for one in happened(some).elements() if one.op != "r"]
    sent = requests(some, dice)
    found = Counter(one for one in kept(sent).elements() if one.op != "r")
    assert found.keys() == set(streamed)
    assert found <= Counter(streamed)
    for _, brought in sent:
        at = Counter(one.what for one in set(brought) if one.what.op != "r")
        assert at <= found


@given(dices)
def test_equal_rows_of_a_snapshot_are_as_many_as_were_read(dice: random.Random) -> None:
    some = sources(dice, numbered=False, restarts=False)
    reads = Counter(one for one in happened(some).elements() if one.op == "r")
    assert Counter(one for one in kept(requests(some, dice)).elements() if one.op == "r") == reads


@given(dices, dices)
def test_no_order_and_no_split_of_epochs_changes_the_rows(dice: random.Random, other: random.Random) -> None:
    sent = requests(sources(dice), dice)
    again = [*sent, *other.choices(sent, k=3)]
    other.shuffle(again)
    assert kept(again) == kept(sent)
