"""In which folder each row of a sink lies."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.config.sink_path import SinkPath
from firn.errors import TerminalError

_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000  # ms


@dataclass(frozen=True)
class Folders:
    """The folders of a sink's rows. `time`: the column with their time, None: when their batch was accepted."""

    path: SinkPath
    time: str | None

    def check(self, schema: pa.Schema) -> list[str]:
        """-> the columns that the SQL does not give, or not yet: they are null. Raises TerminalError for those that no
        folder can be named by."""
        for name in self.path.columns:
            kind = schema.field(name).type if name in schema.names else pa.string()
            if pa.types.is_nested(kind) or not _is_text(kind):
                raise TerminalError(f"{{{name}}} in path is {kind}, which names no folder; select a text for it")
        if self.time is not None and self.time in schema.names and not _is_time(schema.field(self.time).type):
            kind = schema.field(self.time).type
            raise TerminalError(f"time: {self.time} is {kind}; select a timestamp or a date, with a cast for example")
        return [name for name in (*self.path.columns, self.time) if name is not None and name not in schema.names]

    def of(self, rows: pa.Table, accepted: pa.Array) -> tuple[list[str], pa.Array]:
        """(the folders, the place of each row's among them). `accepted`: ms, of each row's batch."""
        if not len(rows):
            return [], pa.array([], pa.int64())
        found: list[tuple[Any, ...]] = [()]
        codes = pa.repeat(pa.scalar(0, pa.int64()), len(rows))
        # Column by column: which combination of values a row has, as one number.
        for values in (self._times(rows, accepted), *(_texts(rows, name) for name in self.path.columns)):
            told = _whole(values).dictionary_encode(null_encoding="encode")
            each = told.dictionary.to_pylist()
            both = pc.add(pc.multiply(codes, len(each)), told.indices.cast(pa.int64())).dictionary_encode()
            found = [(*found[code // len(each)], each[code % len(each)]) for code in both.dictionary.to_pylist()]
            codes = both.indices
        names = [self.path.folder(time, dict(zip(self.path.columns, of, strict=True))) for time, *of in found]
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        return list(places), pa.array([places[name] for name in names], pa.int64()).take(codes)

    def _times(self, rows: pa.Table, accepted: pa.Array) -> pa.Array:
        """ms, as exact as the path tells them: else each row had one of its own."""
        if not self.path.codes:
            return pa.repeat(pa.scalar(0, pa.int64()), len(rows))
        codes = self.path.codes
        unit = _SECOND if "S" in codes else _MINUTE if "M" in codes else _HOUR
        times = accepted
        if self.time is not None and self.time in rows.column_names:
            own = rows[self.time]
            if pa.types.is_date(own.type):
                own = own.cast(pa.timestamp("ms"))
            own = own.cast(pa.timestamp("ms", own.type.tz), safe=False)
            times = pc.coalesce(_whole(own.cast(pa.int64())), accepted)
        # Arrow divides towards zero, and there are times before 1970.
        rest = pc.subtract(times, pc.multiply(pc.divide(times, unit), unit))
        down = pc.if_else(pc.less(rest, 0), pc.add(rest, unit), rest)
        return pc.subtract(times, down)


def _texts(rows: pa.Table, name: str) -> pa.Array:
    return rows[name].cast(pa.string()) if name in rows.column_names else pa.nulls(len(rows), pa.string())


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _is_text(kind: pa.DataType) -> bool:
    """Whether its values have a text."""
    try:
        pa.array([], kind).cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))
