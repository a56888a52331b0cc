#!/usr/bin/env python3
"""What ingest costs: a 1 MB body of Debezium events to staged bytes, on one core.

    python benchmarks/ingest.py [--runs N] [--best] [--formats] [--imports] [--check]

Compared with the floor: a bare msgspec typed decode of the same body plus zstd-1 of it, which validates nothing but
types and keeps nothing apart. The target is a ratio of at most 1.6 (`--check` exits 1 beyond it).
The cases take turns, so that a busy machine slows all alike, and the CPU time of the process is what is compared: its
median, or with `--best` its minimum, which a busy machine (whose other work empties the caches) disturbs least.
`--formats` measures the ways to stage the same rows (docs/adr/0002-staging-format.md), `--imports` handlers' imports.
"""

import argparse
import gc
import io
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LAYER = ROOT / "layers" / "core" / "python"
sys.path.insert(0, str(LAYER))

import arro3.core  # noqa: E402
import arro3.io  # noqa: E402
import msgspec  # noqa: E402
import zstandard  # noqa: E402

from firn.changes.change import Parsed  # noqa: E402
from firn.changes.envelopes.parser import parse  # noqa: E402
from firn.config.reader import parse as parse_config  # noqa: E402
from firn.ingest.accept import routed  # noqa: E402
from firn.log import batches as staged  # noqa: E402
from firn.log import layout  # noqa: E402

TARGET = 1.6
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG = parse_config("streams: {bank: {tables: {public.accounts: {to: bank.accounts, key: [id]}}}}")
META = staged.BatchMeta(
    1, "bank", layout.batch_id("bank", NOW, bytes(8)), layout.instant(NOW), CONFIG.sha, 0, 0, {}, {}
)  # fmt: skip
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


class Row(msgspec.Struct, gc=False):
    id: int
    name: str | None
    balance: str | None
    branch: int | None
    updated_at: int | None
    note: str | None


class Source(msgspec.Struct, gc=False):
    lsn: int
    txId: int
    ts_ms: int
    table: str


class Envelope(msgspec.Struct, gc=False):
    op: str
    source: Source
    before: Row | None
    after: Row | None
    ts_ms: int


def events(size: int) -> list[bytes]:
    """Bare Debezium values (70 % u, 20 % c, 10 % d; no schema, decimals as text), `size` bytes of NDJSON in all."""
    rng = random.Random(20260601)
    found: list[bytes] = []
    total, lsn = 0, 23_800_000_000
    while True:
        n = len(found)
        lsn += rng.randint(57, 556)
        ident, ts = rng.randint(1, 1_000_000), 1_769_904_000_000_000 + n * 500
        op = rng.choices("ucd", (7, 2, 1))[0]
        row: dict[str, Any] = {
            "id": ident, "name": f"account-{ident:08d}", "balance": f"{rng.randrange(10**6)}.{rng.randrange(100):02d}",
            "branch": rng.randint(1, 500), "updated_at": ts, "note": "".join(rng.choices(ALPHABET, k=60)),
        }  # fmt: skip
        event = {
            "before": {**dict.fromkeys(row), "id": ident} if op == "d" else None,
            "after": None if op == "d" else row,
            "source": {
                "version": "3.6.0.Final", "connector": "postgresql", "name": "bank", "ts_ms": ts // 1000,
                "snapshot": "false", "db": "bank", "sequence": f'["{lsn - 56}","{lsn}"]', "ts_us": ts,
                "ts_ns": ts * 1000, "schema": "public", "table": "accounts", "txId": 500_000 + n // 5, "lsn": lsn,
                "xmin": None,
            },
            "transaction": None, "op": op, "ts_ms": ts // 1000 + 120, "ts_us": ts + 120_000,
            "ts_ns": (ts + 120_000) * 1000,
        }  # fmt: skip
        line = json.dumps(event, separators=(",", ":")).encode()
        total += len(line) + 1
        if total > size:
            return found
        found.append(line)


def measure(cases: Mapping[str, Callable[[], object]], runs: int) -> dict[str, tuple[float, ...]]:
    """(median wall, median CPU, least CPU) in ms of each case, in turns; the collector is off, as in timeit."""
    wall: dict[str, list[float]] = {name: [] for name in cases}
    cpu: dict[str, list[float]] = {name: [] for name in cases}
    for case in cases.values():
        case()
    gc.collect()
    gc.disable()
    for _ in range(runs):
        for name, case in cases.items():
            before = time.perf_counter(), time.process_time()
            case()
            after = time.perf_counter(), time.process_time()
            wall[name].append(after[0] - before[0])
            cpu[name].append(after[1] - before[1])
    gc.enable()
    median = statistics.median
    return {name: (median(wall[name]) * 1e3, median(cpu[name]) * 1e3, min(cpu[name]) * 1e3) for name in cases}


def stage(body: bytes) -> bytes:
    """What the function does between body and put."""
    parsed, tables = routed(parse(body, "debezium", "auto"), CONFIG.streams["bank"])
    return staged.write_batch(parsed, msgspec.structs.replace(META, accepted=len(parsed), tables=tables))


def ratio(lines: list[bytes], runs: int, *, best: bool) -> float:
    """Print the floor, the product and its steps; the ratio in CPU time."""
    ndjson, array = b"\n".join(lines) + b"\n", b"[" + b",".join(lines) + b"]"
    decode = msgspec.json.Decoder(Envelope).decode_lines
    compress = zstandard.ZstdCompressor(level=1).compress
    parsed = parse(array, "debezium", "auto")
    size = len(stage(array))
    found = measure(
        {
            "floor: msgspec typed decode": lambda: decode(ndjson),
            "floor: zstd-1 of the body": lambda: compress(ndjson),
            "body -> staged bytes (array)": lambda: stage(array),
            "body -> staged bytes (NDJSON)": lambda: stage(ndjson),
            "  of it: parse": lambda: parse(array, "debezium", "auto"),
            "  of it: route and count": lambda: routed(parsed, CONFIG.streams["bank"]),
            "  of it: write the batch": lambda: staged.write_batch(parsed, META),
        },
        runs,
    )
    print(f"{len(lines)} events, {len(array):,} bytes -> {size:,} staged bytes; medians of {runs} runs")
    report(found)
    column = 2 if best else 1
    floor = found["floor: msgspec typed decode"][column] + found["floor: zstd-1 of the body"][column]
    product = found["body -> staged bytes (array)"][column]
    print(f"\nfloor {floor:.2f} ms, product {product:.2f} ms: ratio {product / floor:.2f} (target <= {TARGET})")
    return product / floor


def formats(lines: list[bytes], runs: int) -> None:
    """Print the ways to stage the same rows: time to write and size."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    body = b"[" + b",".join(lines) + b"]"
    parsed = parse(body, "debezium", "auto")
    rows = rows_of(parsed)
    compress = zstandard.ZstdCompressor(level=1).compress
    few = dict.fromkeys(("table", "op", "connector", "schema_id"), True)
    delta = {"index": "delta_binary_packed", "ts": "delta_binary_packed"}
    lengths = dict.fromkeys(("key", "before", "after"), "delta_length_byte_array")
    text = dict.fromkeys(("order", "key", "before", "after", "schema"), "zstd(1)")
    encode = msgspec.json.Encoder().encode_lines
    as_lines = [{**dict(zip(rows, row, strict=True))} for row in zip(*rows.values(), strict=True)]
    texts = {name: [v.decode() if isinstance(v, bytes) else v for v in column] for name, column in rows.items()}
    kinds = {name: pa.field(field).type for name, field in staged._FIELDS.items()}

    def arrow() -> Any:
        return pa.table({name: pa.array(column, kinds[name]) for name, column in texts.items()})

    def ipc(codec: str | None) -> bytes:
        sink, table = io.BytesIO(), arrow()
        with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
            writer.write_table(table)
        return sink.getvalue()

    def by_pyarrow(**options: Any) -> bytes:
        sink = io.BytesIO()
        pq.write_table(arrow(), sink, compression="zstd", compression_level=1, **options)
        return sink.getvalue()

    def by_arro3(**options: Any) -> bytes:
        sink = io.BytesIO()
        options = {"compression": "zstd(1)", "skip_arrow_metadata": True, **options}
        arro3.io.write_parquet(record_batch(rows), sink, **options)
        return sink.getvalue()

    plain: dict[str, Any] = {"dictionary_enabled": False}
    cases: dict[str, Callable[[], bytes]] = {
        "NDJSON, zstd-1: the body as it came": lambda: compress(body),
        "NDJSON, zstd-1: one line a change": lambda: compress(encode(as_lines)),
        "Arrow IPC, zstd": lambda: ipc("zstd"),
        "Arrow IPC, lz4": lambda: ipc("lz4"),
        "pyarrow Parquet, zstd-1, dictionaries": by_pyarrow,
        "pyarrow Parquet, zstd-1, four dictionaries, no statistics": lambda: by_pyarrow(
            use_dictionary=list(few), write_statistics=False
        ),
        "arro3 Parquet, zstd-1, all dictionaries": lambda: by_arro3(),
        "arro3 Parquet, zstd-1, no dictionary": lambda: by_arro3(**plain),
        "arro3 Parquet, zstd-1, four dictionaries": lambda: by_arro3(**plain, column_dictionary_enabled=few),
        "arro3 Parquet, … zstd-1 for text only": lambda: by_arro3(
            **plain, column_dictionary_enabled=few, compression="uncompressed", column_compression=text
        ),
        "arro3 Parquet, … and delta index, ts, no empty columns (chosen)": lambda: staged.write_batch(parsed, META),
        "arro3 Parquet, … and delta lengths of images": lambda: by_arro3(
            **plain,
            column_dictionary_enabled=few,
            compression="uncompressed",
            column_compression=text,
            column_encoding=delta | lengths,
        ),
        "arro3 Parquet, lz4, four dictionaries": lambda: by_arro3(
            **plain, column_dictionary_enabled=few, compression="lz4_raw"
        ),
        "arro3 Parquet, zstd-3, four dictionaries": lambda: by_arro3(
            **plain, column_dictionary_enabled=few, compression="zstd(3)"
        ),
    }
    sizes = {name: len(case()) for name, case in cases.items()}
    print("\nrows of one batch -> bytes")
    report(measure(cases, runs), sizes)


def record_batch(rows: Mapping[str, list[Any]]) -> Any:
    """The rows as an arro3 record batch of the staged schema, with all columns."""
    binary = arro3.core.DataType.binary()
    arrays = [
        arro3.core.Array(rows[name], binary).cast(field.type)
        if name in ("key", "before", "after", "schema")
        else arro3.core.Array(rows[name], field.type)
        for name, field in staged._FIELDS.items()
    ]
    return arro3.core.RecordBatch.from_arrays(arrays, schema=arro3.core.Schema(list(staged._FIELDS.values())))


def rows_of(parsed: Parsed) -> dict[str, list[Any]]:
    """The staged columns, in the file's order."""
    nothing: list[Any] = [None] * len(parsed)
    extra = {"schema_id": nothing, "schema": nothing}
    return {name: extra.get(name) or getattr(parsed, name) for name in staged._COLUMNS}


def imports(runs: int) -> None:
    """Print what it costs to import each handler and its parts: wall time (ms) and peak memory (MB)."""
    cases = {
        "python alone": "pass",
        "functions/ingest_http/app.py": "import app",
        "aws_lambda_powertools Logger, Metrics": "from aws_lambda_powertools import Logger, Metrics",
        "aws_lambda_powertools APIGatewayRestResolver": "from aws_lambda_powertools.event_handler import "
        "APIGatewayRestResolver",
        "msgspec": "import msgspec",
        "obstore": "import obstore.store",
        "arro3": "import arro3.core, arro3.io",
        "pyarrow": "import pyarrow, pyarrow.parquet",
        "boto3 and an S3 client": "import boto3; boto3.client('s3', region_name='us-east-1')",
    }
    print(f"\nimports, medians of {runs} processes (ms, peak MB)")
    probe = (
        "import time; t = time.perf_counter()\n{}\nt = time.perf_counter() - t\n"
        "print(t * 1e3, [int(w[1]) / 1024 for w in map(str.split, open('/proc/self/status')) if w[0] == 'VmHWM:'][0])"
    )
    env = {**os.environ, "PYTHONPATH": str(LAYER)}
    for name, code in cases.items():
        found = []
        for _ in range(runs):
            ran = subprocess.run(
                [sys.executable, "-c", probe.format(code)],
                cwd=ROOT / "functions" / "ingest_http", env=env, capture_output=True, text=True, check=True,
            )  # fmt: skip
            found.append([float(word) for word in ran.stdout.split()])
        ms, mb = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"  {name:<58}{ms:8.1f}{mb:8.0f}")


def report(found: Mapping[str, tuple[float, ...]], sizes: Mapping[str, int] | None = None) -> None:
    """One line a case."""
    print(f"  {'ms':<62}{'wall':>7}{'CPU':>7}{'least':>7}" + (f"{'bytes':>10}" if sizes else ""))
    for name, times in found.items():
        print(f"  {name:<62}" + "".join(f"{t:7.2f}" for t in times) + (f"{sizes[name]:10,}" if sizes else ""))


def main() -> int:
    """Exit code 1 with --check if the ratio is over the target."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=200)
    for name in ("best", "formats", "imports", "check"):
        arguments.add_argument(f"--{name}", action="store_true")
    options = arguments.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    lines = events(1_000_000)
    reached = ratio(lines, options.runs, best=options.best)
    if options.formats:
        formats(lines, max(20, options.runs // 4))
    if options.imports:
        imports(max(5, options.runs // 20))
    return int(options.check and reached > TARGET)


if __name__ == "__main__":
    sys.exit(main())
