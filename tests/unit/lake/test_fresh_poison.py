"""Fresh reads beside what can't be explained: it is not fresh, with the reason, and every other table is."""

from pathlib import Path
from typing import Any

import obstore
import pytest

from firn.errors import StorageUnavailable
from firn.ingest import accept
from firn.log import layout
from firn.log.batches import UnreadableBatch
from firn_lake.fresh import pending, pending_table
from firn_lake.fresh.pending import Look, NotFresh
from firn_lake.http_api import as_refusal
from firn_lake.lake import Lake
from tests.integration.spark.spark_lake import ndjson
from tests.integration.spark.test_commit import event
from tests.unit.lake.test_fresh import START, Ground

CONFIG = """
warehouse: file:///set/by/the/deployment
catalog: {type: sql}
streams:
  spec:
    tables: {app.t: {to: lake.t, key: [id]}, app.two: {to: lake.two, key: [id]}}
  other:
    tables: {app.t: {to: lake.other, key: [id]}}
"""


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    made = Ground(tmp_path, CONFIG)
    for stream, table in (("spec", "t"), ("spec", "two"), ("other", "t")):
        one = event("c", 10, {"id": 1, "v": "a", "n": 1})
        one["source"] |= {"table": table}
        accept.accept(made.store, made.config, stream, ndjson([one]), now=START)
    return made


def rows(ground: Ground, table: str) -> list[dict[str, Any]]:
    lake = Lake(ground.catalog, lambda: ground.store)
    return lake.sql(f"SELECT id, v FROM lake.{table}", fresh=True).pylist()


class Fails(Exception):
    """A mistake of Firn's own."""


def test_a_stream_whose_changes_break_their_reader_is_not_fresh_and_the_others_are(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pending.raw_changes

    def fails(body: bytes, epoch: int, batch: str, *more: Any) -> Any:
        if batch.startswith("spec."):
            raise Fails
        return real(body, epoch, batch, *more)

    monkeypatch.setattr(pending, "raw_changes", fails)
    assert rows(ground, "other") == [{"id": 1, "v": "a"}]
    with pytest.raises(NotFresh, match=r"what waits of the stream spec can't be shown .Fails."):
        Look(ground.store).pending("spec")


def test_a_table_whose_plan_fails_is_not_fresh_and_its_neighbour_is(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pending_table.settled

    def fails(target: Any, *more: Any, **how: Any) -> Any:
        if target.name.table == "two":
            raise Fails
        return real(target, *more, **how)

    monkeypatch.setattr(pending_table, "settled", fails)
    assert rows(ground, "t") == [{"id": 1, "v": "a"}]
    with pytest.raises(NotFresh, match=r"what waits for lake\.two can't be shown") as told:
        rows(ground, "two")
    answer = as_refusal(told.value)
    assert (answer.status, answer.code) == (409, "not_fresh")


def test_storage_that_is_away_is_said_to_be(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise StorageUnavailable("away")

    monkeypatch.setattr(pending, "raw_changes", fails)
    with pytest.raises(StorageUnavailable):
        rows(ground, "t")


def test_a_staged_object_that_is_no_parquet_is_unreadable_and_no_panic(ground: Ground) -> None:
    (path,) = [one["path"] for some in obstore.list(ground.store, layout.staged_prefix("other")) for one in some]
    body = bytes(obstore.get(ground.store, path).bytes())
    at = body.rfind(b"\x15\x02\x19")  # the footer begins: ours at its end stays as it is
    obstore.put(ground.store, path, body[:at] + b"\xff\xff\xff" + body[at + 3 :])
    with pytest.raises(UnreadableBatch):
        Look(ground.store).pending("other")
    assert rows(ground, "t") == [{"id": 1, "v": "a"}]
