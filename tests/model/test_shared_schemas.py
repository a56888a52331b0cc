"""A job that stays commits the other streams that share it too, each epoch by the schema that it names."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from firn.commit import job, warm_job
from firn.config.model import Config
from firn.config.names import TableName
from firn.dispatch.dispatcher import Terms, dispatch
from firn.ingest.accept import accept
from firn.log import cuts, epochs, published_configs
from tests.model.memory_ground import MemoryGround

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
TABLE = TableName.parse("lake.other")


def config(required: str) -> str:
    """Two streams of one job. `required`: whether the other's rows have to have a value in `m`."""
    fields = f"[{{name: id, type: int64, required: true}}, {{name: m, type: int64{required}}}]"
    return (
        "streams:\n"
        "  one: {envelope: rows, tables: {t: {to: lake.one, mode: append}}}\n"
        f"  other: {{envelope: rows, tables: {{t: {{to: lake.other, mode: append, schema: {{fields: {fields}}}}}}}}}\n"
    )


def times() -> Iterator[datetime]:
    return (NOW + timedelta(seconds=10 * n) for n in count())


def test_a_job_that_stays_judges_each_epoch_of_a_stream_that_shares_it_by_its_own_schema() -> None:
    """An epoch of the other stream waits from before its schema was changed."""
    ground, time = MemoryGround(), times()

    def sealed(under: Config, stream: str, **row: Any) -> None:
        accept(ground.store, under, stream, json.dumps(row).encode(), now=next(time), table="t")
        dispatch(ground.store, stream, None, now=next(time), terms=Terms(under.sha), force=True)

    old = published_configs.publish(ground.store, config(""))
    sealed(old, "other", id=1)
    new = published_configs.publish(ground.store, config(", required: true"))
    assert new.sharing("one") == ("one", "other")
    sealed(new, "one", id=1)
    accept(ground.store, new, "other", json.dumps({"id": 2, "m": 2}).encode(), now=next(time), table="t")
    passing = count(0.0, 20.0)
    lines: list[dict[str, Any]] = []
    code = warm_job.run(
        ground.store, ground.lake, published_configs.CurrentConfig(ground.store, 0), lambda: False, "one", 1, 1,
        log=lines.append, clock=warm_job.Clock(lambda: next(time), lambda: next(passing), lambda _: None),
    )  # fmt: skip
    assert code == 0, lines
    # What the job left is the next one's, which dispatch starts for each schema by itself.
    for n in epochs.numbers(ground.store, "other", cuts.newest(ground.store, "other")):
        assert job.run(
            ground.store, ground.lake, "other", n, n, log=lines.append, now=lambda: next(time)
        ) == 0, lines  # fmt: skip
    assert sorted(row["id"] for row in ground.rows(TABLE)) == [1, 2], lines
