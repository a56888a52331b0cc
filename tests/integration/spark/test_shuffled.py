"""The corpora shuffled, doubled and split anyhow over HTTP and SQS and several epochs: the same tables as in order.

Whole, through the stack and with killed jobs, tests/e2e/test_shuffled_corpora.py does the same.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.ingest import accept
from firn.tables import table_state
from tests.integration.spark.spark_lake import CORPUS, Lake, records, values
from tests.integration.spark.test_corpus import COMPARED, KEYLESS, KEYS, config
from tests.soak import long_only

pytestmark = [pytest.mark.spark, long_only]  # CI shuffles through the whole stack


def deliver(lake: Lake, events: list[dict[str, Any]], seed: int, epochs: int) -> None:
    """All events in any order, each with probability 0.3 twice, in batches of 1 to 300, over HTTP or a queue."""
    dice = random.Random(seed)
    delivered = [*events, *(event for event in events if dice.random() < 0.3)]
    dice.shuffle(delivered)
    sealings = sorted(dice.sample(range(len(delivered)), epochs - 1))
    sent = 0
    while sent < len(delivered):
        some = delivered[sent : sent + dice.randint(1, 300)]
        if dice.random() < 0.5:
            lake.post(some)
        else:
            messages = [json.dumps(event, ensure_ascii=False).encode() for event in some]
            accept.accept_messages(lake.store, lake.config, lake.stream, messages, now=lake.now)
        sent += len(some)
        while sealings and sealings[0] < sent:
            sealings.pop(0)
            assert lake.commit(lake.seal()) == 0, lake.lines
    assert lake.commit(lake.seal()) == 0, lake.lines


def content(lake: Lake, table: str) -> list[str]:
    """The rows by column name, without Firn's own columns that tell of the delivery; nulls are as good as no column.
    A row without a source is of the first that came (docs/adr/0036-several-source-tables.md): that one stands here."""
    own = {"_firn_held", "_firn_id"}
    rows = [{k: v for k, v in row.items() if k not in own and v is not None} for row in lake.rows(f"spec.{table}")]
    said = lake.catalog.load_table(("spec", table)).properties.get(table_state.SOURCES)
    if said is not None and len(sources := json.loads(said)) > 1:
        rows = [{"_firn_source": sources[0], **row} for row in rows]
    return sorted(repr(sorted(row.items())) for row in rows)


@pytest.mark.parametrize(("encoding", "seed"), [("plain", 1), ("schema", 2)])
def test_a_shuffled_corpus_gives_the_tables_of_the_ordered_one(
    spark: SparkSession, tmp_path: Path, encoding: str, seed: int
) -> None:
    file = CORPUS / "spec" / f"{encoding}.ndjson.gz"
    events = values(file) if encoding == "plain" else records(file)
    # Records of the table's first name have a key, those of its second none: then the configuration has to say.
    settings = config(KEYS if encoding == "plain" else {"uidx": ["a", "b"], "ren_new": ["id"]})
    ordered, shuffled = Lake(spark, tmp_path / "ordered", settings), Lake(spark, tmp_path / "shuffled", settings)
    ordered.land(events)
    deliver(shuffled, events, seed, epochs=4)
    both = {table: (content(ordered, table), content(shuffled, table)) for table in COMPARED}
    assert set(both) >= KEYLESS
    assert {table: pair for table, pair in both.items() if pair[0] != pair[1]} == {}
