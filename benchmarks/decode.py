#!/usr/bin/env python3
"""What the commit job's Python costs: from staged bytes to typed rows, on one core, without Spark.

    python -m benchmarks.decode [--events N] [--requests N] [--runs N] [--memory]

The events are those of benchmarks/ingest.py, staged by the real ingest code in requests of `--requests` events. CPU
time of the process, the least of the runs: a busy machine disturbs it least. `--memory` prints by how much the process
grows.
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from benchmarks.ingest import events, stage
from firn.changes.decode.codec import DecodeSettings, declared_column
from firn.changes.decode.declared_types import parse_declared
from firn.changes.decode.row_decoder import AppendDecoder, Decoding, MirrorDecoder
from firn.changes.merge.ordering import Order
from firn_spark.staged.decode import decoded
from firn_spark.staged.packed import Packer, unpacked
from firn_spark.staged.read import SealedBatch, rows_of_all

DECLARED = "id long, name string, balance decimal(18,2), branch int, updated_at timestamptz, note string"
INFERRED = "id long, name string, balance string, branch long, updated_at long, note string"
BYTES_PER_EVENT = 790


def decoding(declared: str) -> Decoding:
    pairs = [column.split() for column in declared.split(", ")]
    settings = DecodeSettings(decimal="string")
    return Decoding(tuple(declared_column(n, *parse_declared(kind), settings) for n, kind in pairs), (0,), settings)


def staged(count: int, per_request: int) -> list[bytes]:
    lines = events(count * BYTES_PER_EVENT)[:count]
    parts = (lines[first : first + per_request] for first in range(0, len(lines), per_request))
    return [stage(b"[" + b",".join(part) + b"]") for part in parts]


def read(bodies: list[bytes]) -> Iterator[pa.RecordBatch]:
    """What a reading task gives: rows with packed changes, a flush of the packer after the other."""
    packer = Packer()
    objects = ((SealedBatch(1, n, f"bank.{n:06}", "p", len(body)), body) for n, body in enumerate(bodies))
    for rows in rows_of_all(objects, Order()):
        packer.add(1, rows.changes, rows.said)
        if packer.full:
            yield packer.packed()
    yield packer.packed()


def raw(bodies: list[bytes]) -> list[pa.RecordBatch]:
    """What the job gives to the decoders."""
    return list(unpacked(batch.filter(batch["changes"].is_valid()).select(["changes"]) for batch in read(bodies)))


def drain(batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def least(case: Callable[[], Any], runs: int) -> float:
    found = []
    for _ in range(runs):
        before = time.process_time()
        case()
        found.append(time.process_time() - before)
    return min(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--requests", type=int, default=1_250, help="events a request (about 1 MB)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    bodies = staged(options.events, options.requests)
    if options.memory:
        memory(bodies)
        return 0
    batches = raw(bodies)
    count = sum(batch.num_rows for batch in batches)
    cases: dict[str, Callable[[], Any]] = {
        "staged bytes -> placed rows and facts": lambda: drain(read(bodies)),
        "mirror, declared": lambda: drain(decoded(batches, decoding(DECLARED), MirrorDecoder)),
        "mirror, inferred": lambda: drain(decoded(batches, decoding(INFERRED), MirrorDecoder)),
        "append, declared": lambda: drain(decoded(batches, decoding(DECLARED), AppendDecoder)),
    }
    print(f"{count} events in {len(bodies)} staged objects of {sum(map(len, bodies)):,} bytes; least of {options.runs}")
    for name, case in cases.items():
        seconds = least(case, options.runs)
        print(f"{name:40} {seconds / count * 1e6:8.2f} µs/event {count / seconds:12,.0f} events/s")
    return 0


def memory(bodies: list[bytes]) -> None:
    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    before, first = peak(), time.process_time()
    packed = (batch.filter(batch["changes"].is_valid()).select(["changes"]) for batch in read(bodies))
    batches = unpacked(packed)
    count = drain(decoded(batches, decoding(DECLARED), MirrorDecoder))
    print(f"{count} rows, {time.process_time() - first:.1f} s, {peak() - before:.0f} MB more than {before:.0f} MB")


if __name__ == "__main__":
    sys.exit(main())
