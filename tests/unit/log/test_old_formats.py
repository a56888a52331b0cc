"""Objects that the first version of each format wrote are still read (tests/data/formats)."""

import io
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from firn.audit.batch_status import batch_status
from firn.errors import RequestError
from firn.ingest import accept
from firn.log import cuts, epochs, layout, published_configs
from firn.log.batches import read_meta
from firn.log.dead_letters import letters
from firn.log.store import Store, exists, get, open_store, paths
from tests.data.formats.old_formats import expected, unpack

STREAM = "shop"


@pytest.fixture
def old() -> dict[str, Any]:
    return expected(1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """The old staging area, in a folder of the test's own."""
    return open_store(f"file://{unpack(1, tmp_path)}/staging")


@pytest.fixture
def later(old: dict[str, Any]) -> datetime:
    """A minute after the newest object of the fixture."""
    return max(layout.time_of(told["batch"]) for told in old["posted"].values()) + timedelta(minutes=1)


def test_the_configuration_is_read(store: Store, old: dict[str, Any]) -> None:
    assert published_configs.current_sha(store) == old["config"]
    stream = published_configs.load(store, old["config"]).streams[STREAM]
    assert {rule.source: (str(rule.to), rule.mode, rule.key) for rule in stream.tables} == {
        "public.orders": ("shop.orders", "mirror", ("id",)),
        "public.customers": ("shop.customers", "mirror", ("id",)),
        "public.typed": ("shop.typed", "mirror", ("id",)),
        "public.flat_rows": ("shop.flat_rows", "mirror", ("id",)),
        "public.visits": ("shop.visits", "append", None),
    }


def test_the_footers_of_batches_say_what_the_senders_were_told(store: Store, old: dict[str, Any]) -> None:
    written = [told for name, told in old["posted"].items() if name != "key-4"]
    assert len(written) == 6
    for told in written:
        meta = read_meta(store, layout.staged_path(told["batch"]))
        assert meta is not None
        assert (meta.format, meta.stream, meta.batch, meta.config) == (1, STREAM, told["batch"], old["config"])
        assert (meta.accepted, meta.rejected, meta.ignored) == (told["accepted"], told["rejected"], told["ignored"])
        assert sum(meta.tables.values()) == meta.accepted


def test_the_rows_of_a_batch_are_read(store: Store, old: dict[str, Any]) -> None:
    flat = batch_rows(store, old["posted"]["queue-1"]["batch"])
    assert [(row["table"], row["op"], row["flat"]) for row in flat] == [("public.flat_rows", "c", True)] * 2
    typed = batch_rows(store, old["posted"]["none"]["batch"])
    assert [row["after"] for row in typed] == ['{"id": 1, "price": "ZA=="}', '{"id": 2, "price": "AMg="}']
    assert typed[0]["schema_id"] == typed[1]["schema_id"]
    assert [row["schema"] is None for row in typed] == [False, True]


def test_dead_letters_of_ingest_and_of_the_commit_job_are_read(store: Store, old: dict[str, Any]) -> None:
    found = [
        {"path": path, "reason": x.reason, "table": x.table, "batch": x.batch, "index": x.index}
        | {"original": x.original.decode()}
        for path in paths(store, layout.dead_prefix(STREAM))
        for x in letters.read_dead(store, path)
    ]
    assert found == old["dead"]
    assert {letter["reason"] for letter in found} == {"bad_json", "type_mismatch", "unknown_op"}


@pytest.mark.parametrize("key", ["key-1", "key-2", "key-3"])
def test_a_retry_with_an_old_key_gets_the_old_answer(
    store: Store, old: dict[str, Any], later: datetime, key: str
) -> None:
    told = old["posted"][key]
    before = paths(store, "staged")
    again = send(store, told["body"], key, later)
    assert (again.batch_id, again.duplicate) == (told["batch"], True)
    assert (again.accepted, again.rejected, again.ignored) == (told["accepted"], told["rejected"], told["ignored"])
    assert paths(store, "staged") == before


def test_an_old_key_with_another_body_is_a_409(store: Store, old: dict[str, Any], later: datetime) -> None:
    with pytest.raises(RequestError) as caught:
        send(store, old["posted"]["key-2"]["body"], "key-1", later)
    assert caught.value.status == 409


def test_a_batch_that_an_old_receipt_promised_is_written_by_the_retry(
    store: Store, old: dict[str, Any], later: datetime
) -> None:
    told = old["posted"]["key-4"]
    assert not exists(store, layout.staged_path(told["batch"]))
    again = send(store, told["body"], "key-4", later)
    assert (again.batch_id, again.accepted, again.duplicate) == (told["batch"], 1, True)
    assert exists(store, layout.staged_path(told["batch"]))


def test_epochs_and_cuts_are_read(store: Store, old: dict[str, Any]) -> None:
    assert epochs.numbers(store, STREAM) == [1, 2, 3]
    for n, batches in old["epochs"].items():
        epoch = epochs.read(store, STREAM, int(n))
        assert epoch is not None
        assert ([batch.id for batch in epoch.batches], epoch.config) == (batches, old["config"])
        assert epoch.events == sum(epoch.tables.values())
    assert cuts.numbers(store, STREAM) == [1, 2]
    for n, tables in old["cuts"].items():
        cut = cuts.read(store, STREAM, int(n))
        assert cut is not None
        assert cut.tables == tables


def test_sealing_goes_on_after_the_old_epochs(store: Store, old: dict[str, Any], later: datetime) -> None:
    free = epochs.candidates(store, STREAM, later, above=cuts.newest(store, STREAM))
    assert (free.next_n, [batch.id for batch in free.batches]) == (4, [old["posted"]["queue-2"]["batch"]])
    epoch = epochs.seal(store, STREAM, free, now=later, config=old["config"], nonce="new")
    assert epoch is not None
    assert epoch.tables == {"public.orders": 1, "public.flat_rows": 1}
    assert epochs.candidates(store, STREAM, later).batches == []


def test_the_state_of_old_batches_is_told(store: Store, old: dict[str, Any]) -> None:
    states = {name: batch_status(store, told["batch"]) for name, told in old["posted"].items()}
    assert {name: status and (status.state, status.epoch) for name, status in states.items()} == {
        "key-1": ("committed", 1),
        "none": ("committed", 1),
        "queue-1": ("committed", 1),
        "key-2": ("committed", 2),
        "key-3": ("sealed", 3),
        "queue-2": ("staged", None),
        "key-4": None,
    }


def send(store: Store, body: str, key: str, now: datetime) -> accept.Accepted:
    config = published_configs.load(store, published_configs.current_sha(store))
    return accept.accept(store, config, STREAM, body.encode(), now=now, key=key)


def batch_rows(store: Store, batch: str) -> list[dict[str, Any]]:
    data = get(store, layout.staged_path(batch))
    assert data is not None
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(data)).to_pylist()
    return rows
