"""What commands print: JSON for programs on stdout, tables for people, notes and progress on stderr."""

import base64
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

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


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    grouped: bool = True,
    styles: Sequence[str] | None = None,
) -> None:
    """A table for people; numbers to the right. Values are shown as they are, never read as markup.

    `grouped`: thousands are set apart, which suits counts and not ids. `styles`: one of rich's for each row.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = list(rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        numeric = bool(shown) and all(_is_number(row[number]) or row[number] is None for row in shown)
        table.add_column(Text(str(column)), justify="right" if numeric else "left", overflow="fold")
    for number, row in enumerate(shown):
        style = styles[number] if styles else None
        table.add_row(*(Text(cell(value, grouped=grouped)) for value in row), style=style)
    out().print(table)


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
