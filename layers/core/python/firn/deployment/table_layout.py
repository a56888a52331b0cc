"""How a table for people fits a terminal: which columns it shows, how wide they are, or that it is printed as records.

No name, number or id is broken in two. A table that is too wide first wraps its prose at spaces, then leaves out the
columns that its command calls less important, and is printed as records, a line a value, if that is not enough.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

GAP: Final = 2
"""Spaces between two columns."""

_LEAST_PROSE: Final = 24
_COMMAND: Final = re.compile(r"(?<![\w./-])firn(?: [^\s;,()`]+){1,8}")
_KEPT: Final = "\ue000"  # for a space at which nothing is broken: of nobody's alphabet, and one cell wide
# Codes that a terminal obeys, or that turn the order of a line around: rows may hold them, and are only shown.
_OBEYED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Fitted:
    """`shown`: columns by place, in order; `widths`: of each of them in cells; `records`: it fits only so."""

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    records: bool = False


def fitted(
    header: Sequence[str],
    cells: Sequence[Sequence[str]],
    width: int | None,
    fold: Sequence[str] = (),
    prose: Collection[str] = (),
    length: Callable[[str], int] = len,
) -> Fitted:
    """How the cells (rows of texts) are printed in `width` cells; None: however wide they are.

    fold    columns that may be left out, the least important first; those that hold nothing ("-") go before
    prose   columns that may be wrapped, at spaces only
    length  how many cells a text takes
    """
    columns = [[row[place] for row in cells] for place in range(len(header))]
    natural = [
        max(length(line) for text in (name, *column) for line in text.split("\n") or [""])
        for name, column in zip(header, columns, strict=True)
    ]
    least = [
        min(full, max(_LEAST_PROSE, _longest_word(name, column, length))) if name in prose else full
        for name, column, full in zip(header, columns, natural, strict=True)
    ]
    shown = list(range(len(header)))
    if width is None:
        return Fitted(tuple(shown), tuple(natural))
    empty = [name for name in fold if all(text == "-" for text in columns[header.index(name)])]
    for name in (*empty, *(one for one in fold if one not in empty)):
        if _needed(least, shown) <= width:
            break
        shown.remove(header.index(name))
    needed = _needed(least, shown)
    if needed > width:
        return Fitted(tuple(range(len(header))), tuple(natural), records=True)
    left, widths = width - needed, []
    for place in shown:  # what is left goes to the prose, from the left
        more = min(left, natural[place] - least[place])
        widths.append(least[place] + more)
        left -= more
    return Fitted(tuple(shown), tuple(widths))


def harmless(text: str) -> str:
    r"""The text with what a terminal would obey written out: an escape as \x1b."""
    return _OBEYED.sub(lambda code: f"\\x{ord(code[0]):02x}" if ord(code[0]) < 256 else f"\\u{ord(code[0]):04x}", text)


def wrapped(text: str, width: int, length: Callable[[str], int] = len) -> list[str]:
    """The lines of a text, broken at single spaces alone: a word that is longer than `width` stays whole."""
    lines: list[str] = []
    for given in text.split("\n"):
        line, *words = given.split(" ")
        for word in words:
            if length(line) + 1 + length(word) <= width:
                line += f" {word}"
            else:
                lines.append(line)
                line = word
        lines.append(line)
    return lines


def readable(text: str, width: int, hang: int = 0, length: Callable[[str], int] = len) -> list[str]:
    """The lines of a sentence, broken at spaces alone, and a `firn …` command in it nowhere: it is there to be copied.

    hang  cells by which all lines but the first are moved in; so many the first begins with
    """
    whole = _COMMAND.sub(lambda command: command[0].replace(" ", _KEPT), text[hang:])
    lines = (line.replace(_KEPT, " ") for line in wrapped(whole, max(_LEAST_PROSE, width - hang), length))
    return [(" " * hang if number else text[:hang]) + line for number, line in enumerate(lines)]


def _longest_word(name: str, column: Sequence[str], length: Callable[[str], int]) -> int:
    return max((length(word) for text in (name, *column) for word in text.split()), default=0)


def _needed(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[place] for place in shown) + GAP * (len(shown) - 1)
