"""Arrow tables that are many: the first in memory, the others in files of this machine that are mapped into it."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

IN_MEMORY = 256 * 1024 * 1024  # bytes


class Spool:
    """Tables, in the order that they were added."""

    def __init__(self, most: int = IN_MEMORY) -> None:
        """`most`: bytes that it keeps in memory."""
        self._left = most
        self._tables: list[pa.Table] = []
        self._folder: TemporaryDirectory[str] | None = None

    def __len__(self) -> int:
        """How many tables there are."""
        return len(self._tables)

    def __iter__(self) -> Iterator[pa.Table]:
        """The tables."""
        return iter(self._tables)

    def __getitem__(self, number: int) -> pa.Table:
        """One of them."""
        return self._tables[number]

    def add(self, table: pa.Table) -> None:
        """Take one more. Raises OSError if the disk is full."""
        if table.nbytes <= self._left:
            self._left -= table.nbytes
            self._tables.append(table)
        else:
            self._left = 0  # what comes next is on disk too: so that small ones don't crowd the memory
            self._tables.append(self._mapped(table))

    def _mapped(self, table: pa.Table) -> pa.Table:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="firn-sink-")
        path = Path(self._folder.name) / f"{len(self._tables)}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()

    def close(self) -> None:
        """Let go of them and of their files."""
        self._tables = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
