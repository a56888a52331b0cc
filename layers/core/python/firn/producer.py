"""firn.Producer: for applications that emit their own changes."""

import base64
import itertools
import json
import math
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from firn.client import Receipt, Retry, StreamClient
from firn.errors import ConfigError, FirnError, RequestError

MAX_BATCH_BYTES = 3_000_000
"""A batch is sent before its body grows beyond this: ingress takes 4 MB by default."""

_FOUND_WITHIN = 0.9  # twice that, since leaving the `with` block tries again, is less than two seconds
Row = Mapping[str, Any]
_OPS = {"c": "insert", "u": "update", "d": "delete"}
_ROW = "row"


@dataclass(frozen=True)
class Flushed:
    """What was handed over since the last `flush()`, background sends included.

    `counts`: changes by kind ({"insert": 2, "update": 0, "delete": 0}), plain rows as "row". `batch_ids`: for
    GET /v1/batches/{id}. `bytes`: size of the JSON bodies. `rejected` of the changes are dead letters, `errors` says
    why: one dict each with batch_id, index (place in that batch) and reason. `duplicates`: batches that an earlier try
    had already staged.
    """

    counts: Mapping[str, int]
    batch_ids: tuple[str, ...]
    bytes: int
    rejected: int = 0
    duplicates: int = 0
    errors: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class _Batch:
    key: str
    body: bytes
    counts: Mapping[str, int]
    table: str | None


@dataclass
class _Sent:
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_OPS.values(), 0))
    batch_ids: list[str] = field(default_factory=list)
    bytes: int = 0
    rejected: int = 0
    duplicates: int = 0
    errors: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, batch: _Batch, receipt: Receipt) -> None:
        for kind, number in batch.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + number
        self.batch_ids.append(receipt.batch_id)
        self.bytes += len(batch.body)
        self.rejected += receipt.rejected
        self.duplicates += receipt.duplicate
        self.errors.extend({"batch_id": receipt.batch_id, **error} for error in receipt.errors)


class Producer:
    """Sends an application's own changes to a stream, in order, in batches, each batch once.

    >>> with Producer("shop", url="http://127.0.0.1:8181") as shop:  # doctest: +SKIP
    ...     shop.insert("public.orders", {"order_id": 1, "total": Decimal("9.90")})
    ...     shop.update("public.orders", {"order_id": 1, "total": Decimal("8.90")})
    ...     shop.delete("public.orders", {"order_id": 1})

    A change is sent when `batch_size` changes wait, at most `flush_interval` seconds after it was taken, or by
    `flush()`; leaving the `with` block flushes too. A full batch is sent by the thread that fills it, so a slow stream
    slows its writers. All methods may be called by many threads. When `insert`, `update` or `delete` raise RequestError
    or StreamUnreachable, the change has been taken and waits for the next `flush()`: don't repeat the call.

    Where the stream takes plain rows (`envelope: rows`), `send` hands over rows as they are.

    Changes are Debezium envelopes of connector `firn`; their position is [ms at the producer's start, counter], so of
    two producers that write the same rows the one started later wins. Run one at a time.

    Within a process a later producer of a stream starts after the earlier ones, whatever the clock says. From run to
    run that rests on the clock: where it may go back, name a file in `state`, on a disk that outlives the run. It
    remembers the last start.

    `secret` is the sender's, where the stream asks for one (firn.client.StreamClient).

    Where nothing listens at `url` from the first, a send gives up within a second and says so; once the stack was
    reached, and where `retry` is given, it is tried again as Retry says.

    Values: Decimal, datetime, date, time and UUID are sent as text, bytes as base64, NaN and infinities as text. Where
    firn.yaml declares such columns, give the stream `debezium: {decimal.handling.mode: string,
    time.precision.mode: isostring}`.
    """

    def __init__(
        self,
        stream: str,
        url: str = "http://127.0.0.1:8181",
        batch_size: int = 1000,
        flush_interval: float = 5.0,
        *,
        retry: Retry | None = None,
        headers: Mapping[str, str] | None = None,
        secret: str | None = None,
        state: str | Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Raises ConfigError if `state` can't be read or written; the rest as StreamClient does."""
        if batch_size < 1 or flush_interval <= 0:
            raise ValueError("batch_size must be at least 1, flush_interval more than 0 seconds")
        self._stream, self._batch_size, self._flush_interval = stream, batch_size, flush_interval
        self._client = StreamClient(
            url, retry=retry, headers=headers, secret=secret, found_within=_FOUND_WITHIN if retry is None else None
        )
        self._clock = clock
        self._start = _start(url, stream, int(clock() * 1000), None if state is None else Path(state))
        self._run = uuid.uuid4().hex  # makes the batches' idempotency keys this producer's own
        self._counter = itertools.count(1)
        self._batches = itertools.count(1)
        self._lock = threading.Lock()  # guards _lines, _size, _counts, _table, _waiting and _counter
        self._sending = threading.Lock()  # one batch under way at a time, in order; guards _sent and the connection
        self._lines: list[bytes] = []
        self._size = 0
        self._counts: dict[str, int] = {}
        self._table: str | None = None  # of the rows in _lines
        self._waiting: list[_Batch] = []
        self._sent = _Sent()
        self._wake = threading.Event()
        self._closed = False
        self._timer: threading.Thread | None = None

    def insert(self, table: str, row: Row) -> None:
        """A new row of `table` (`schema.table` or `table`): column names to values."""
        self._take("c", table, None, row)

    def update(self, table: str, row: Row, before: Row | None = None) -> None:
        """The whole row as it is now. Give `before` where the key changed: the old key's row is then removed."""
        self._take("u", table, before, row)

    def delete(self, table: str, before: Row) -> None:
        """The row is gone; `before` holds its key columns at least."""
        self._take("d", table, before, None)

    def send(self, rows: Row | Iterable[Row], table: str | None = None) -> None:
        """Plain rows, one or many, for a stream with `envelope: rows`: column names to values. `table`: the source
        table; None where the stream has one alone, or its `table_by` names a column that says it.

        Where it raises RequestError or StreamUnreachable, all of the rows have been taken, as for the other methods;
        after a TypeError those before the row that can't be sent.
        """
        failed: FirnError | None = None
        for row in (rows,) if isinstance(rows, Mapping) else rows:
            if self._add(_ROW, f"{_json(_row(row))}\n".encode, table) and failed is None:
                try:
                    with self._sending:
                        self._send_waiting()
                except FirnError as error:
                    failed = error
        if failed is not None:
            raise failed

    def flush(self) -> Flushed:
        """Send all that waits and say what was handed over since the last flush.

        Raises RequestError if the stream refuses a batch, StreamUnreachable if it can't be reached: the changes then
        still wait, and the next flush sends them with the same idempotency keys.
        """
        with self._lock:
            self._seal()
        with self._sending:
            self._send_waiting()
            sent, self._sent = self._sent, _Sent()
        return Flushed(
            sent.counts, tuple(sent.batch_ids), sent.bytes, sent.rejected, sent.duplicates, tuple(sent.errors)
        )

    def close(self) -> Flushed:
        """Flush and stop; the producer takes no more changes. Raises as `flush` does, and may then be called again."""
        with self._lock:
            self._closed = True
        self._wake.set()
        flushed = self.flush()
        self._client.close()
        return flushed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take(self, op: str, table: str, before: Row | None, after: Row | None) -> None:
        schema, _, name = table.partition(".") if "." in table else ("", "", table)
        images = _json({"before": _row(before), "after": _row(after)})

        def line() -> bytes:
            now = int(self._clock() * 1000)
            source = {
                "connector": "firn",
                "name": self._stream,
                **({"schema": schema} if schema else {}),
                "table": name,
                "ts_ms": now,
                "sequence": f"[{self._start},{next(self._counter)}]",
            }
            rest = _json({"source": source, "op": op, "ts_ms": now})
            return f"{images[:-1]},{rest[1:]}\n".encode()

        if self._add(_OPS[op], line, None):
            with self._sending:
                self._send_waiting()

    def _add(self, kind: str, made: Callable[[], bytes], table: str | None) -> bool:
        """Take one event -> whether a batch waits to be sent. `made` is called under the lock, so that a position and
        the place in the batch tell the same order; `table`: of a plain row."""
        with self._lock:
            if self._closed:
                raise FirnError("the producer is closed: make a new one")
            line = made()
            if self._lines and (self._size + len(line) > MAX_BATCH_BYTES or table != self._table):
                self._seal()
            self._table = table
            self._lines.append(line)
            self._size += len(line)
            self._counts[kind] = self._counts.get(kind, 0) + 1
            if len(self._lines) >= self._batch_size:
                self._seal()
            self._start_timer()
            return bool(self._waiting)

    def _seal(self) -> None:
        """Make a batch of what was taken. The caller holds the lock."""
        if self._lines:
            key = f"firn-producer-{self._run}-{next(self._batches)}"
            self._waiting.append(_Batch(key, b"".join(self._lines), self._counts, self._table))
            self._lines, self._size, self._counts = [], 0, {}

    def _send_waiting(self) -> None:
        """Send the sealed batches, oldest first. The caller holds `_sending`; a batch leaves the list when it is in.

        Of a table of which one is refused those behind it wait too, and those of others go on: the refusal is raised
        then. Raises StreamUnreachable at once.
        """
        refused: dict[str | None, RequestError] = {}
        while True:
            with self._lock:
                batch = next((one for one in self._waiting if one.table not in refused), None)
            if batch is None:
                break
            try:
                receipt = self._client.post(self._stream, batch.body, key=batch.key, table=batch.table)
            except RequestError as error:
                refused[batch.table] = error
                continue
            self._sent.add(batch, receipt)
            with self._lock:
                self._waiting.remove(batch)
        if refused:
            raise next(iter(refused.values()))

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = threading.Thread(target=self._flush_now_and_then, name="firn-producer", daemon=True)
            self._timer.start()

    def _flush_now_and_then(self) -> None:
        while not self._wake.wait(self._flush_interval):
            with self._lock:
                self._seal()
            try:
                with self._sending:
                    self._send_waiting()
            except FirnError:
                # The batch still waits. The next insert or flush meets the same error and raises it where it is seen.
                continue


_started: dict[tuple[str, str], int] = {}  # the newest start of each stream's producers in this process
_starting = threading.Lock()


def _start(url: str, stream: str, now: int, state: Path | None) -> int:
    """`now` (ms), or just after the last start of a producer of the stream if the clock has gone back since."""
    with _starting:
        start = max(now, 1 + _started.get((url, stream), -1), 1 + (-1 if state is None else _remembered(state)))
        if state is not None:
            _remember(state, start)
        _started[url, stream] = start
    return start


def _remembered(state: Path) -> int:
    try:
        return int(state.read_text())
    except FileNotFoundError:
        return -1
    except (OSError, ValueError) as error:
        raise ConfigError(f"the producer's state {state} can't be read: {error}; fix or remove it") from error


def _remember(state: Path, start: int) -> None:
    """On the disk before the first change is taken, whole or not at all."""
    new = state.with_name(f"{state.name}.new")
    try:
        with new.open("w") as file:
            file.write(f"{start}\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(state)
    except OSError as error:
        raise ConfigError(f"the producer's state {state} can't be written: {error}") from error


def _json(value: Any) -> str:
    return json.dumps(value, default=_encoded, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _row(row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {name: _as_text(value) if value.__class__ is float else value for name, value in row.items()}


def _as_text(value: float) -> float | str:
    # JSON has no word for these; changes/decode/values.py reads the words that Debezium uses.
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _encoded(value: Any) -> Any:
    if isinstance(value, Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, datetime | date | time_of_day):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(f"a value of type {type(value).__name__} can't be sent: send text, numbers, bytes, dates, decimals")
