"""`path` of a file sink: the folders that its files lie in, such as `dt=%Y-%m-%d/region={region}`. Pure.

A folder's name is made of the row: %-codes of a time, in UTC, and `{column}` of what the SQL selects. Whatever a row
holds, the name is one that every storage takes: values are percent-encoded and bounded, and no two values give one.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

MOST_VALUE: Final = 96  # bytes of a value in a path
_MOST_SEGMENT: Final = 240  # bytes between two slashes; file systems take 255
_MOST_PATH: Final = 500
_MOST_COLUMNS: Final = 8
NULL: Final = "__null__"
EMPTY: Final = "__empty__"

# The codes that are digits alone: no locale changes them, and they sort as the times do.
CODES: Final[Mapping[str, int]] = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "j": 3}
_TOKEN: Final = re.compile(r"%(?P<code>.?)|\{(?P<column>[^{}]*)\}|(?P<text>[^%{}]+)|(?P<odd>.)", re.DOTALL)
_TEXT: Final = re.compile(r"[A-Za-z0-9_.=+,@/-]*")
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_EXAMPLE: Final = "dt=%Y-%m-%d/region={region}"
Kind = Literal["text", "code", "column"]


@dataclass(frozen=True)
class SinkPath:
    """`text` as it was written; `parts`: (kind, what) in order: plain text, a code of CODES, the name of a column."""

    text: str = ""
    parts: tuple[tuple[Kind, str], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names, each once."""
        return tuple(dict.fromkeys(what for kind, what in self.parts if kind == "column"))

    @property
    def codes(self) -> tuple[str, ...]:
        """The %-codes that it holds, each once."""
        return tuple(dict.fromkeys(what for kind, what in self.parts if kind == "code"))

    def folder(self, ms: int, values: Mapping[str, str | None]) -> str:
        """The folder of a row, without a slash at its ends; "" for none. `ms`: its time, Unix milliseconds; `values`:
        of the columns, as text."""
        when = _time(ms) if self.codes else None
        return "".join(
            what if kind == "text" else _code(what, when) if kind == "code" else encoded(values[what])
            for kind, what in self.parts
        )


NO_FOLDERS: Final = SinkPath()


def parse(text: str) -> SinkPath:
    """`dt=%Y-%m-%d/region={region}` -> SinkPath. Raises ValueError, whose text says what to write."""
    parts: list[tuple[Kind, str]] = []
    for found in _TOKEN.finditer(text.strip()):
        code, column, plain = found["code"], found["column"], found["text"]
        if code is not None:
            if code not in CODES:
                raise ValueError(f"{_cut(f'%{code}')} is not a part of a time; write one of %Y %m %d %H %M %S %j")
            parts.append(("code", code))
        elif column is not None:
            if not column.strip() or len(column) > 255:
                raise ValueError(f"{_cut(found.group())} names no column; write {{region}} for the column region")
            parts.append(("column", column.strip()))
        elif plain is not None and _TEXT.fullmatch(plain):
            parts.append(("text", plain))
        else:
            odd = next(one for one in found.group() if not _TEXT.fullmatch(one))
            raise ValueError(f"{odd!r} can't be in a path; write letters, digits and _.=+,@- such as {_EXAMPLE}")
    path = SinkPath(text.strip(), tuple(parts))
    if len(path.columns) > _MOST_COLUMNS:
        raise ValueError(f"names {len(path.columns)} columns; at most {_MOST_COLUMNS} make a path")
    _check_segments(path)
    return path


def _check_segments(path: SinkPath) -> None:
    """Raises ValueError for what is no relative path, or may get longer than storages take."""
    # What a row fills in is never a slash, never nothing and never a dot at its start.
    shape = "".join(what if kind == "text" else "\0" for kind, what in path.parts)
    if shape.startswith("/"):
        raise ValueError(f"{_cut(path.text)} begins with a slash; it is below `to`: write {_EXAMPLE}")
    segments = shape.split("/") if shape else []
    if "" in segments:
        raise ValueError(
            f"{_cut(path.text)} has an empty folder; write one slash between two names, and none at the end"
        )
    if "." in segments or ".." in segments:
        raise ValueError(f"{_cut(path.text)} holds . or .. as a folder; write the folders' own names")
    total, longest = _lengths(path)
    if longest > _MOST_SEGMENT or total > _MOST_PATH:
        most = f"a folder's name {longest} bytes" if longest > _MOST_SEGMENT else f"the path {total} bytes"
        raise ValueError(
            f"could make {most}, with {MOST_VALUE} for each column; at most {_MOST_SEGMENT} and {_MOST_PATH} are "
            "taken: write fewer columns or shorter names"
        )


def _lengths(path: SinkPath) -> tuple[int, int]:
    """(bytes of the longest path, bytes of its longest folder)."""
    sizes = [0]
    for kind, what in path.parts:
        if kind != "text":
            sizes[-1] += MOST_VALUE if kind == "column" else CODES[what]
            continue
        first, *others = what.split("/")
        sizes[-1] += len(first)
        sizes += map(len, others)
    return sum(sizes) + len(sizes) - 1, max(sizes)


def encoded(value: str | None) -> str:
    """A value as a part of a path: letters, digits, `_`, `-` and `.` as they are, all else percent-encoded as UTF-8. A
    long one is cut, with a hash of the whole behind `~`."""
    if value is None:
        return NULL
    if not value:
        return EMPTY
    data = value.encode("utf-8", "surrogatepass")
    # No value looks like NULL or EMPTY, or like `.` and `..`.
    start = 1 if data[:1] == b"." or data[:2] == b"__" else 0
    text = "".join(
        f"%{one:02X}" if i < start or one not in _PLAIN else chr(one) for i, one in enumerate(data[:MOST_VALUE])
    )
    if len(data) <= MOST_VALUE and len(text) <= MOST_VALUE:
        return text
    mark = f"~{hashlib.sha256(data).hexdigest()[:16]}"
    kept = text[: MOST_VALUE - len(mark)]
    return re.sub(r"%[0-9A-F]?$", "", kept) + mark


def _time(ms: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _code(code: str, when: datetime | None) -> str:
    if when is None:
        return NULL
    # strftime does not pad years on every platform.
    return f"{when.year:04d}" if code == "Y" else when.strftime(f"%{code}")


def _cut(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
