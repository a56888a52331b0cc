"""How lakes, tables and moments look in a notebook: HTML of bounded size, in which nothing of the data is markup."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

MOST_ROWS: Final = 20
_MOST_COLUMNS: Final = 30
_MOST_TEXT: Final = 200


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """A table: the first MOST_ROWS rows and 30 columns, 200 characters a value. `note` stands below it."""
    shown: list[str] = []
    more = False
    for row in rows:
        if len(shown) == MOST_ROWS:
            more = True
            break
        shown.append("".join(f"<td>{_text(value)}</td>" for value in row[:_MOST_COLUMNS]))
    said = [note] if note else []
    said += [f"the first {MOST_ROWS} are shown"] if more else []
    said += [f"{len(header) - _MOST_COLUMNS:,} more columns"] if len(header) > _MOST_COLUMNS else []
    head = "".join(f"<th>{_text(name)}</th>" for name in header[:_MOST_COLUMNS])
    body = "".join(f"<tr>{row}</tr>" for row in shown)
    below = f"<div>{_text('; '.join(said))}</div>" if said else ""
    return (
        f"<div><strong>{_text(title)}</strong><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{below}</div>"
    )


def _text(value: object) -> str:
    text = "" if value is None else value.hex() if isinstance(value, bytes) else str(value)
    return escape(text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "…")
