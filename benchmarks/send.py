"""What a user does: `firn send` of a file of events to an embedded stack that has just started, then `firn flush`.
One JSON line; its seconds are those of both commands, Spark's start and the first commit's code among them.

    python -m benchmarks.send --events FOLDER --work FOLDER [--partition BY]

The events are those of workload.wide; the table is new.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.fresh import embedded_stack
from firn.deployment.stack import Stack
from firn_lake.catalogs.stack_catalog import catalog_of

STREAM, TABLE = "bank", "bank.wide"
_CONFIG = """
streams:
  bank:
    envelope: debezium
    backlog: {bytes: 100GB}
    tables:
      public.wide: {to: bank.wide, key: [id]PARTITION}
"""


def firn(stack: Path, *arguments: str) -> float:
    """Runs a command of Firn's. -> its seconds."""
    began = time.perf_counter()
    command = [str(Path(sys.executable).parent / "firn"), *arguments, "--dir", str(stack)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def found(stack: Stack) -> dict[str, int]:
    """The rows that the table has, and the sum of their `n`."""
    rows = catalog_of(stack).load_table(TABLE).scan(selected_fields=("n",)).to_arrow()
    return {"rows": len(rows), "sum": sum(rows["n"].to_pylist())}


def measure(events: Path, partition: str, work: Path) -> None:
    """The two commands."""
    wanted = json.loads((events / "expected.json").read_text())
    by = f", partition_by: ['{partition}']" if partition else ""
    with embedded_stack(work, _CONFIG.replace("PARTITION", by)) as stack:
        print(json.dumps({"begin": str(events)}), flush=True)
        sent = firn(work / "stack", "send", STREAM, *map(str, sorted(events.glob("*.ndjson"))))
        flushed = firn(work / "stack", "flush", STREAM)
        told: dict[str, Any] = {"seconds": sent + flushed, "sent": sent, "flushed": flushed}
        print(json.dumps(told | {"wrong": int(found(stack) != wanted)}), flush=True)


def main() -> None:
    """One shape of events."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--events", type=Path, required=True)
    arguments.add_argument("--partition", default="", help="what the table is partitioned by, as in firn.yaml")
    arguments.add_argument("--work", type=Path, required=True)
    given = arguments.parse_args()
    measure(given.events.absolute(), given.partition, given.work.absolute())


if __name__ == "__main__":
    main()
