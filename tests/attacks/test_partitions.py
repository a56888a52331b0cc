"""One commit whose rows lie in more partitions than there is memory for as many open files: a driver of 1 GB, as jobs
get it here (less in the quick form), and a Python process of half as much.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from firn.ingest import accept
from firn.log import cuts, epochs, published_configs
from firn.log.store import open_store
from firn_local.image import Prepared
from firn_local.spark_submit import SparkSubmit
from tests.integration.snapshots import epochs_of
from tests.integration.spark.spark_lake import ROOT, START, ndjson
from tests.integration.spark.test_commit import event
from tests.soak import LONG, long_only

# As many open files would take more memory than there is: a third of them did at 1 GB.
PARTITIONS, MEMORY = (5_000, "1g") if LONG else (800, "640m")
PAD = "x" * 2_000
CONFIG = """
streams:
  spec:
    commit: {{linger: 0s}}
    tables:
      app.t:
        to: lake.t
        key: [id]
        columns: {{id: long, d: date}}
        partition_by: [day(d)]
        {rule}
"""


class Job:
    """One stream and its commit job, in a driver of its own."""

    def __init__(self, folder: Path, rule: str) -> None:
        self.folder = folder
        self.store = open_store(f"file://{folder}/staging")
        self.config = published_configs.publish(self.store, CONFIG.format(rule=rule))
        self.catalog = SqlCatalog("firn", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")

    def land(self, events: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Posts, seals and commits in one epoch. -> what the job logged about the table."""
        for first in range(0, len(events), 1_000):
            accept.accept(self.store, self.config, "spec", ndjson([*events[first : first + 1_000]]), now=START)
        found = epochs.candidates(self.store, "spec", START, above=cuts.newest(self.store, "spec"))
        epoch = epochs.seal(self.store, "spec", found, now=START, config=self.config.sha, nonce=str(found.next_n))
        assert epoch is not None
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        submit = SparkSubmit(memory=MEMORY)
        given = [
            *("--stream", "spec", "--staging", f"file://{self.folder}/staging"),
            *("--warehouse", f"file://{self.folder}/warehouse"),
            *("--catalog-uri", f"sqlite:///{self.folder}/catalog.db"),
            *("--first", str(epoch.n), "--last", str(epoch.n)),
        ]
        script = str(ROOT / "spark_emr" / "commit.py")
        command = submit.arguments({"entryPointArguments": given}, {}, script, scratch, Prepared([]))
        environment = submit.process_environment(scratch, Prepared([]))
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1_800)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        line: dict[str, Any] = next(one for one in lines if one.get("table") == "lake.t")
        print(epoch.n, line["way"], line.get("stages"))
        return line


def row(number: int, v: Any) -> dict[str, Any]:
    return {"id": number, "v": v, "d": number if number % 100 else None, "pad": PAD}


def updated(number: int) -> Any:
    return f"t{number}"


@pytest.mark.spark
@pytest.mark.parametrize(
    "rule",
    [pytest.param(how, marks=long_only) for how in ("", "write: copy-on-write", "mode: append")],
)
def test_a_small_driver_commits_to_any_number_of_partitions(tmp_path: Path, rule: str) -> None:
    """New rows in each, and then in each an update, by which a column becomes text, or a delete."""
    job = Job(tmp_path, rule)
    made = [event("c", 10 + n, row(n, n)) for n in range(PARTITIONS)]
    changed = [
        event("u", 100_000 + n, row(n, updated(n))) if n % 3 else event("d", 100_000 + n, None, before=row(n, n))
        for n in range(PARTITIONS)
    ]
    assert job.land(made)["way"]["lookup"] == "driver"
    job.land(changed)
    table = job.catalog.load_table("lake.t")
    found = [(one["id"], one["v"]) for one in table.scan(selected_fields=("id", "v")).to_arrow().to_pylist()]
    if rule == "mode: append":
        assert sorted(n for n, _ in found) == sorted([*range(PARTITIONS)] * 2)
    else:
        assert sorted(found) == [(n, updated(n)) for n in range(PARTITIONS) if n % 3]
    assert epochs_of(table, "spec") == [1, 2]
    days = {json.dumps(one["partition"], default=str) for one in table.inspect.data_files().to_pylist()}
    assert len(days) >= len({one["d"] for one in (row(n, n) for n in range(PARTITIONS) if n % 3)})


SMALL_WAY = """
import sys
from datetime import date, timedelta
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from firn_lake.lake import Lake

folder, count, pad = sys.argv[1], int(sys.argv[2]), "x" * 20_000
names = pa.schema([("id", pa.int64()), ("d", pa.date32()), ("pad", pa.string())])

def batches():
    for first in range(0, count, 100):
        ids = list(range(first, min(count, first + 100)))
        days = [date(1970, 1, 1) + timedelta(n) for n in ids]
        yield pa.record_batch([ids, days, [f"{n}{pad}" for n in ids]], schema=names)

lake = Lake(SqlCatalog("firn", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"))
rows = pa.RecordBatchReader.from_batches(names, batches())
table = lake.create("lake.t", rows, partition_by=["day(d)"]).iceberg
files = table.inspect.files()
assert (len(files), sum(files["record_count"].to_pylist()), len(table.metadata.snapshots)) == (count, count, 1)
# ru_maxrss would tell of the process that this one was forked from, if that was larger.
print(*(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_the_small_way_holds_one_file_open_whatever_the_number_of_partitions(tmp_path: Path) -> None:
    given = [sys.executable, "-c", SMALL_WAY, str(tmp_path), str(PARTITIONS)]
    done = subprocess.run(given, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    print(f"{PARTITIONS} partitions, rows of 20 kB: {done.stdout.strip()} MB")
    assert int(done.stdout) < 512
