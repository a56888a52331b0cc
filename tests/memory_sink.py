"""Rows of file sinks without Arrow and without SQL: each staged change of the source as a line of JSON."""

import json
from collections.abc import Mapping
from typing import Any

from firn.changes.merge.ordering import Order
from firn.commit.lake import place_of
from firn.commit.staged_changes import raw_changes
from firn.errors import TerminalError
from firn.log import layout
from firn.log.store import Store, get
from firn.sinks.file_rows import SinkRange, reads


class MemoryFileRows:
    """A firn.sinks.file_rows.FileRows. A change whose row is {"bad": true} is a dead letter, and "kills" raises."""

    def __init__(self, store: Store, sink: SinkRange) -> None:
        files = sink.pipeline.files
        assert files is not None
        self.events = self.dead = 0
        self.columns = f"{sink.columns}+" if sink.columns else "+"
        self._rows: dict[str, list[str]] = {}
        for n, epoch in sorted(sink.epochs.items()):
            for number, batch in enumerate(epoch.batches):
                body = get(store, batch.path)
                assert body is not None, batch.path
                for one in raw_changes(body, n, batch.id, place_of(n, number), Order(0)):
                    if reads(sink.settings, sink.pipeline, one["table"]):
                        self._add(sink, batch.id, one)

    def _add(self, sink: SinkRange, batch: str, one: Mapping[str, Any]) -> None:
        row = json.loads(one["after"] or one["before"] or "{}")
        if row.get("kills"):
            raise TerminalError("this row can't be read")
        self.events += 1
        if row.get("bad"):
            self.dead += 1
            return
        path = sink.pipeline.files.path if sink.pipeline.files else None
        assert path is not None
        values = {name: None if row.get(name) is None else str(row[name]) for name in path.columns}
        folder = path.folder(layout.accepted(batch), values)
        self._rows.setdefault(folder, []).append(json.dumps({"of": batch, "index": one["index"], **row}))

    unseen: tuple[str, ...] = ()

    @property
    def folders(self) -> Mapping[str, int]:
        """Rows by folder."""
        return {folder: len(rows) for folder, rows in self._rows.items()}

    def bury(self) -> Mapping[str, Mapping[str, int]]:
        """Writes no letters."""
        return {}

    def body(self, folder: str, first: int, rows: int) -> bytes:
        """A line a row."""
        return "".join(f"{row}\n" for row in self._rows[folder][first : first + rows]).encode()

    def rows_in(self, body: bytes) -> int:
        """Lines."""
        return body.count(b"\n")

    def close(self) -> None:
        """Nothing is held."""
