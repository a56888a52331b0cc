"""The changes of a PostgreSQL's tables, posted to Firn as Debezium's events: a logical slot with test_decoding, which
comes with every PostgreSQL. For examples; a stream of your own takes Debezium, or Firn's own pull."""

import re
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from firn.backfill.postgres_connection import Session, session
from firn.backfill.read_position import lsn_of
from firn.backfill.source_address import read_address
from firn.client import StreamClient

SLOT: Final = "firn_example"
_AT_ONCE: Final = 20_000  # changes that are asked for; a transaction comes whole
_TABLE: Final = re.compile(r"table (\w+)\.(\w+): (INSERT|UPDATE|DELETE|TRUNCATE): ?(.*)", re.DOTALL)
_COLUMN: Final = re.compile(r"(\w+)\[([^\]]+)\]:('(?:[^']|'')*'|\S+)")
_OPS: Final = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}


class LogStream(threading.Thread):
    """Reads the slot and posts, until `finish`. A change is asked for again until it was taken."""

    def __init__(self, address: str, url: str, stream: str) -> None:
        super().__init__(name="stream", daemon=True)
        self._address, self._url, self._stream = address, url, stream
        self._until: int | None = None
        self.sent = 0
        self.failed: BaseException | None = None

    def run(self) -> None:
        """Until it is told to end and has brought everything up to there."""
        try:
            given = read_address(self._address)
            with (
                session(given.address, given.password, "stream") as server,
                StreamClient(self._url) as client,
            ):
                before = "null"
                while True:
                    until = self._until
                    before, read = self._round(server, client, before)
                    if until is not None and not read:
                        return
                    if not read:
                        threading.Event().wait(0.2)
        except BaseException as error:
            self.failed = error
            raise

    def _round(self, server: Session, client: StreamClient, before: str) -> tuple[str, bool]:
        rows = server.rows(
            "SELECT lsn::text, data FROM pg_logical_slot_peek_changes(CAST(:slot AS name), NULL, :most, "
            "'include-xids', '0', 'skip-empty-xacts', '1')",
            slot=SLOT, most=_AT_ONCE,
        )  # fmt: skip
        events, commit = [], before
        for lsn, data in rows:
            if data.startswith("COMMIT"):
                commit = f'"{lsn_of(lsn)}"'
            elif data != "BEGIN":
                events.append(event(data, f'[{commit},"{lsn_of(lsn)}"]'))
        for first in range(0, len(events), 2_000):
            body = b"\n".join(map(msgspec.json.encode, events[first : first + 2_000]))
            client.post(self._stream, body, key=f"{rows[0][0]}-{first}")
        if rows:
            server.rows(
                "SELECT pg_replication_slot_advance(CAST(:slot AS name), CAST(:upto AS pg_lsn))",
                slot=SLOT,
                upto=rows[-1][0],
            )
        self.sent += len(events)
        return commit, bool(rows)

    def finish(self, seconds: float) -> None:
        """Brings what was written until now, and ends. Raises what went wrong."""
        self._until = 1
        self.join(seconds)
        if self.failed is not None or self.is_alive():
            raise RuntimeError("the stream did not come to its end") from self.failed


def event(data: str, sequence: str) -> dict[str, Any]:
    """A change as test_decoding writes it, as an event without schema (decimals as text, times in ISO)."""
    found = _TABLE.fullmatch(data)
    if found is None:
        raise ValueError("test_decoding wrote a line that is no change")
    schema, table, kind, columns = found.groups()
    row = dict(_values(columns))
    source: dict[str, Any] = {"connector": "postgresql", "schema": schema, "table": table, "sequence": sequence}
    source |= {"ts_ms": int(time.time() * 1000)}
    op = _OPS[kind]
    return {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row, "source": source}


def _values(columns: str) -> Iterator[tuple[str, Any]]:
    for name, kind, text in _COLUMN.findall(columns):
        if text == "null":
            yield name, None
        elif text.startswith("'"):
            plain = text[1:-1].replace("''", "'")
            yield name, _iso(plain) if kind.startswith("timestamp") else plain
        else:
            yield name, text if kind == "numeric" else int(text)


def _iso(text: str) -> str:
    return text.replace(" ", "T").replace("+00", "Z")
