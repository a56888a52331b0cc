"""What commands print: JSON for programs on stdout, tables for people, notes and progress on stderr."""

import base64
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TextIO
from uuid import UUID

from firn.deployment.table_layout import GAP, Fitted, fitted, harmless, readable, wrapped

if TYPE_CHECKING:
    from rich.console import Console


def out() -> "Console":
    """The console on stdout. Into a file or a pipe it prints wide, because nobody can widen that window."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 240)


def notes() -> "Console":
    """The console on stderr: progress and remarks that are not the command's answer."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


@contextmanager
def spinner(*, shown: bool = True) -> Iterator[Callable[[str], None]]:
    """Shows that something goes on, and for how long; what, is the last text that its result was called with."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=notes(), transient=True, disable=not shown) as progress:
        task = progress.add_task("")
        yield lambda text: progress.update(task, description=text)


def print_json(value: Any) -> None:
    """`value` as indented JSON. Decimals, dates and UUIDs are text, bytes base64, dataclasses objects."""
    json.dump(value, sys.stdout, default=_plain, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_json_line(value: Any) -> None:
    """`value` as JSON in one line."""
    json.dump(value, sys.stdout, default=_plain, ensure_ascii=False)
    sys.stdout.write("\n")


def say(text: str, *, err: bool = False, hang: int = 0) -> None:
    """A sentence for people, on stdout or, `err`, on stderr; in a terminal with no name and no command broken in two.
    What a terminal would obey is written out: names and values in it come from sources.

    hang  cells by which its further lines are moved in there (table_layout.readable)
    """
    stream = sys.stderr if err else sys.stdout
    width = _width(stream)
    text = "\n".join(map(harmless, text.split("\n")))
    if width:
        from rich.cells import cell_len

        text = "\n".join(readable(text, width, hang, cell_len))
    print(text, file=stream)


def _width(stream: TextIO) -> int:
    """Of the terminal that a stream goes to; 0 if it goes elsewhere."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):  # it is none, or is closed
        return 0


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    grouped: bool = True,
    styles: Sequence[str] | None = None,
    fold: Sequence[str] = (),
    prose: Collection[str] = (),
    wide: bool = False,
) -> None:
    """A table for people; numbers to the right. Values are shown as they are, never read as markup or as codes.

    grouped  thousands are set apart, which suits counts and not ids
    styles   one of rich's for each row
    fold     columns that a narrow terminal may leave out, the least important first (table_layout.py); says so
    prose    columns that may be wrapped at spaces; all others stay whole
    wide     with all columns, however wide
    """
    from rich.cells import cell_len

    shown = list(rows)
    header = [harmless(str(column)) for column in columns]
    cells = [[harmless(cell(value, grouped=grouped)) for value in row] for row in shown]
    console = out()
    fit = fitted(header, cells, console.width if sys.stdout.isatty() and not wide else None, fold, prose, cell_len)
    if fit.records:
        _print_records(header, cells, styles, console)
        return
    numeric = [
        bool(shown) and all(_is_number(row[place]) or row[place] is None for row in shown) for place in fit.shown
    ]
    _print_columns([header[place] for place in fit.shown], cells, fit, numeric, styles, console)
    hidden = [name for place, name in enumerate(header) if place not in fit.shown]
    if hidden:
        notes().print(f"not shown: {', '.join(hidden)} (--wide shows all)", style="dim", markup=False)


def _print_columns(
    header: Sequence[str],
    cells: Sequence[Sequence[str]],
    fit: Fitted,
    numeric: Sequence[bool],
    styles: Sequence[str] | None,
    console: "Console",
) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, GAP - 1, 0, 0))
    for name, width, right in zip(header, fit.widths, numeric, strict=True):
        table.add_column(Text(name), justify="right" if right else "left", width=width, overflow="fold")
    for number, row in enumerate(cells):
        style = styles[number] if styles else None
        table.add_row(*(Text(row[place]) for place in fit.shown), style=style)
    console.width = max(console.width, sum(fit.widths) + GAP * len(fit.widths))
    console.print(table, soft_wrap=False)


def _print_records(
    header: Sequence[str], cells: Sequence[Sequence[str]], styles: Sequence[str] | None, console: "Console"
) -> None:
    """Each row as lines of `name value`, for what no terminal of this width holds side by side."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    names = max(map(cell_len, header))
    for number, row in enumerate(cells):
        lines = []
        for name, value in zip(header, row, strict=True):
            first, *more = wrapped(value, max(20, console.width - names - GAP), cell_len)
            lines.append(f"{set_cell_size(name, names + GAP)}{first}")
            lines += [f"{'':{names + GAP}}{line}" for line in more]
        style = styles[number] if styles else ""
        console.print(Text("\n".join(lines)), style=style, soft_wrap=True)
        if number < len(cells) - 1:
            console.print()


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 letter, 1,200 letters; `plural` where it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def cell(value: Any, *, grouped: bool = True) -> str:
    """A value as one cell of a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}" if grouped else str(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def size(count: int) -> str:
    """Bytes for people: 1.4 MB."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("unreachable")


def ago(moment: datetime | None, now: datetime) -> str:
    """How long before `now`: 12 s ago."""
    if moment is None:
        return "never"
    seconds = max(0, int((now - moment).total_seconds()))
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // divisor} {unit} ago"
    return f"{seconds // 86_400} d ago"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime | date | time_of_day):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
