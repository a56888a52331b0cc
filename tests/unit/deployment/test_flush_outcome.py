"""What a flush says of its events: those that the commit took, and those that are dead letters."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from firn.deployment.flush_outcome import DeadOfFlush, events_and_letters
from firn.deployment.flush_run import StreamFlushed
from firn.dispatch.dispatcher import Terms, dispatch
from firn.ingest.accept import accept
from firn.log import epochs, layout, published_configs
from firn.log.dead_letters.letters import read_dead, write_dead
from firn.log.store import open_store
from firn_cli.commands.flush import told

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def event(number: int) -> str:
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "sequence": f'["{number}","{number}"]'}
    return json.dumps({"before": None, "after": {"id": number}, "source": source, "op": "c"}) + "\n"


def test_letters_of_ingest_and_of_the_commit_are_told_apart(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/staging")
    config = published_configs.publish(
        store, "streams: {shop: {tables: {public.orders: {to: shop.orders, key: [id]}}}}"
    )
    accept(store, config, "shop", (event(1) + "{broken\n" + event(2)).encode(), now=NOW)
    dispatch(store, "shop", None, now=NOW + timedelta(seconds=1), terms=Terms(config.sha), force=True)
    (epoch,) = epochs.read_many(store, "shop", epochs.numbers(store, "shop"))
    (batch,) = epoch.batches
    at_ingest = layout.batch_dead_path(batch.id)
    (letter,) = read_dead(store, at_ingest)
    write_dead(store, layout.dead_path("shop", NOW, "commit-1"), [letter])
    events, letters = events_and_letters(store, "shop", [epoch.n])
    assert events == 2
    assert letters == [
        DeadOfFlush(batch.id, "bad_json", 1, at_ingest=True),
        DeadOfFlush("commit-1", "bad_json", 1, at_ingest=False),
    ] or letters == [
        DeadOfFlush("commit-1", "bad_json", 1, at_ingest=False),
        DeadOfFlush(batch.id, "bad_json", 1, at_ingest=True),
    ]
    assert events_and_letters(store, "shop", []) == (0, [])


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (StreamFlushed("shop"), "nothing was sent yet"),
        (
            StreamFlushed("shop", 3, committed_at="2026-01-31T11:59:48.000Z"),
            "nothing new: the schedule has committed all up to epoch 3, 12 s ago",
        ),
        (
            StreamFlushed("shop", 3, 0, 2, ["run"], {"shop.orders": 1}),
            "what came since holds no rows (heartbeats and the like); all is committed up to epoch 3",
        ),
        (
            StreamFlushed("shop", 3, 1, 1, ["run"], {"shop.orders": 1}, seconds=2.0),
            "1 event, committed up to epoch 3 in 1 table: 2.0 s",
        ),
        (
            StreamFlushed("shop", 3, 1, 1, ["run"], {"shop.orders": 1}, {"shop.lines": "failed"}),
            "1 event, committed or held up to epoch 3 in 1 table: 0.0 s",
        ),
        (
            StreamFlushed("shop", 3, 1, 1, ["run"], dead=[DeadOfFlush("x", "missing_key", 1, at_ingest=False)]),
            "1 event: 0 committed, 1 dead letter (missing_key), see firn dead show x; up to epoch 3 in 0 tables: 0.0 s",
        ),
        (
            StreamFlushed("shop", 3, 0, 0, ["run"], earlier=2, dead=[DeadOfFlush("x", "bad_json", 1, at_ingest=True)]),
            "3 events: 2 committed, 1 dead letter (bad_json), see firn dead show x; up to epoch 3 in 0 tables: 0.0 s "
            "(2 of them the schedule had sealed before)",
        ),
    ],
)
def test_a_flush_says_what_became_of_its_events(done: StreamFlushed, said: str) -> None:
    assert told(done, NOW) == said
