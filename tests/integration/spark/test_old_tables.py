"""Tables and a staging area of the first formats: the present code commits onto them and gives the right rows."""

import fcntl
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.ingest import accept
from firn.log import cuts, epochs, layout, published_configs
from firn.log.dead_letters import letters as dead
from firn.log.store import paths
from tests.data.formats.old_formats import expected, rows_as_json, unpack
from tests.integration.spark.spark_lake import Lake

pytestmark = pytest.mark.spark

STREAM = "shop"
# Iceberg's metadata and its catalog name files by absolute path, so a table can be opened only where it was written.
WRITTEN_IN = Path("/tmp")
FOLDER = WRITTEN_IN / "firn-format-1"


@pytest.fixture
def old_lake(spark: SparkSession) -> Iterator[Lake]:
    """The fixture where it was written, one test at a time on this machine, and nothing left of it afterwards."""
    with (WRITTEN_IN / "firn-format-1.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(FOLDER, ignore_errors=True)
        assert unpack(1, WRITTEN_IN) == FOLDER
        text = (FOLDER / "staging" / layout.config_path(expected(1)["config"])).read_text(encoding="utf-8")
        lake = Lake(spark, FOLDER, text, STREAM)
        yield lake
        lake.catalog.engine.dispose()
        shutil.rmtree(FOLDER)


def test_pending_epochs_land_on_old_tables_with_the_rows_that_the_old_code_gave(old_lake: Lake) -> None:
    old = expected(1)
    lake = old_lake
    assert lake.config.sha == published_configs.current_sha(lake.store) == old["config"]
    assert rows(lake, old) == old["rows"]["now"]
    letters = dead_letters(lake)
    sealed = epochs.read(lake.store, STREAM, 3)
    assert sealed is not None

    assert lake.commit(3) == 0, lake.lines
    assert rows(lake, old) == old["rows"]["after epoch 3"]
    assert lake.commit(1, 3) == 0, lake.lines
    assert rows(lake, old) == old["rows"]["after epoch 3"], "old epochs are not applied again"

    lake.now = sealed.time
    promised = old["posted"]["key-4"]
    retry = accept.accept(lake.store, lake.config, STREAM, promised["body"].encode(), now=lake.now, key="key-4")
    assert retry.batch_id == promised["batch"]
    assert lake.seal() == 4
    assert lake.commit(4) == 0, lake.lines
    after = old["rows"]["after epoch 4"]
    healed = json.loads(promised["body"])["after"]
    orders = rows_as_json([*after["orders"], healed])
    assert rows(lake, old) == after | {"orders": orders}
    cut = cuts.read(lake.store, STREAM, 4)
    assert cut is not None
    assert {name: cut.tables[name] for name in old["cuts"]["2"]} == {
        name: lake.catalog.load_table(name).metadata.current_snapshot_id for name in old["cuts"]["2"]
    }
    assert dead_letters(lake) == letters, "nothing of the pending epochs is refused"


def test_what_an_old_table_holds_already_changes_nothing_when_it_is_delivered_again(old_lake: Lake) -> None:
    """The rows carry the positions, and the append table the identities, that the old code gave them."""
    old = expected(1)
    lake = old_lake
    sealed = epochs.read(lake.store, STREAM, 3)
    assert sealed is not None
    assert lake.commit(3) == 0, lake.lines
    lake.now = sealed.time
    for name in ("key-3", "key-2", "none", "key-1"):  # the newest first, and without their keys
        accept.accept(lake.store, lake.config, STREAM, old["posted"][name]["body"].encode(), now=lake.now)
    assert lake.seal() == 4
    assert lake.commit(4) == 0, lake.lines
    assert rows(lake, old) == old["rows"]["after epoch 4"]


def test_an_old_cut_is_still_what_it_was(old_lake: Lake) -> None:
    old = expected(1)
    assert old_lake.commit(3) == 0, old_lake.lines
    cut = cuts.read(old_lake.store, STREAM, 2)
    assert cut is not None
    then = {
        name.rpartition(".")[2]: rows_as_json(
            old_lake.catalog.load_table(name).scan(snapshot_id=snapshot).to_arrow().to_pylist()
        )
        for name, snapshot in cut.tables.items()
    }
    assert then == old["rows"]["now"]


def rows(lake: Lake, old: dict[str, Any]) -> dict[str, Any]:
    return {table: rows_as_json(lake.rows(f"{STREAM}.{table}")) for table in old["rows"]["now"]}


def dead_letters(lake: Lake) -> list[tuple[str, str, int]]:
    found = [(path, dead.read_dead(lake.store, path)) for path in paths(lake.store, layout.dead_prefix(STREAM))]
    return [(path, letter.batch, letter.index) for path, letters in found for letter in letters]
