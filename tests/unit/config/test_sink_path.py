"""The folders of files: whatever a row holds, a name that every storage takes and no other row's value gives."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import LocalStore

from firn.config.sink_path import MOST_VALUE, encoded, parse

NOON = int(datetime(2026, 3, 9, 12, 5, 7, tzinfo=UTC).timestamp() * 1000)
HOSTILE = [
    "", ".", "..", "...", "/", "//", "a/b", "../../etc/passwd", "a/../b", "\\", "..\\..", "C:", "nul", "a\0b", "\n",
    "\r", "\x7f", "\u2028", "%", "%2e%2e", "%2F", "__null__", "__empty__", "_", "__", " ", " a ", "~", "a~b", "é",
    "ü" * 200, "x" * 5_000, "😀", "\ud800", "*", "?", "a?b#c", "&=+", "'\"`", "$(reboot)", "{region}", "%Y", "<>|:",
    ".hidden", "a.", "-",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("dt=%Y-%m-%d/region={region}", "dt=2026-03-09/region=eu"),
        ("%Y/%m/%d/%H/%M/%S", "2026/03/09/12/05/07"),
        ("day=%j", "day=068"),
        ("{region}{region}", "eueu"),
        ("a.b,c+d@e", "a.b,c+d@e"),
        ("", ""),
    ],
)
def test_a_path_is_filled_in_from_a_time_and_columns(text: str, folder: str) -> None:
    assert parse(text).folder(NOON, {"region": "eu"}) == folder


@pytest.mark.parametrize("value", HOSTILE)
def test_no_value_leaves_its_folder(value: str, tmp_path: Path) -> None:
    folder = parse("r={region}/x").folder(NOON, {"region": value})
    first, last = folder.split("/")
    assert last == "x"
    assert re.fullmatch(r"r=[A-Za-z0-9_.~%-]{1,96}", first)
    store = LocalStore(tmp_path)
    store.put(f"{folder}/one.json", b"{}", mode="create")
    assert [one["path"] for chunk in store.list() for one in chunk] == [f"{folder}/one.json"]
    assert [path.relative_to(tmp_path).parts[:-1] for path in tmp_path.rglob("one.json")] == [(first, "x")]


def test_no_two_values_give_one_folder() -> None:
    values = [*HOSTILE, None, "x" * 4_999, "x" * 5_000 + "y", "ü" * 199]
    assert len({encoded(one) for one in values}) == len(values)
    assert (encoded(None), encoded("")) == ("__null__", "__empty__")


@given(st.text(), st.text())
def test_values_that_differ_lie_apart(one: str, other: str) -> None:
    assert (encoded(one) == encoded(other)) is (one == other)
    assert 1 <= len(encoded(one)) <= MOST_VALUE
    assert encoded(one) not in (".", "..")


@pytest.mark.parametrize("ms", [-(2**63), -1, 0, 253_402_300_799_999, 253_402_300_800_000, 2**63 - 1])
def test_a_time_that_no_calendar_has_is_null(ms: int) -> None:
    folder = parse("dt=%Y-%m-%d").folder(ms, {})
    assert re.fullmatch(r"dt=\d{4}-\d\d-\d\d|dt=__null__-__null__-__null__", folder)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/abs", "begins with a slash"),
        ("..", "holds . or .."),
        ("a/../b", "holds . or .."),
        ("./a", "holds . or .."),
        ("a//b", "has an empty folder"),
        ("a/", "has an empty folder"),
        ("%q", "'%q' is not a part of a time; write one of %Y %m %d %H %M %S %j"),
        ("%", "'%' is not a part of a time"),
        ("%%", "'%%' is not a part of a time"),
        ("{}", "names no column; write {region} for the column region"),
        ("{" + "x" * 300 + "}", "names no column"),
        ("a{b", "'{' can't be in a path"),
        ("a}b", "'}' can't be in a path"),
        ("a b", "' ' can't be in a path; write letters, digits"),
        ("a\\b", "can't be in a path"),
        ("a\0b", "can't be in a path"),
        ("é", "'é' can't be in a path"),
        ("a:b", "':' can't be in a path"),
        ("{a}{b}{c}", "could make a folder's name 288 bytes, with 96 for each column"),
        ("{a}/" * 5 + "{a}" + "x" * 100, "could make the path"),
        ("x" * 241, "could make a folder's name 241 bytes"),
        ("/".join("{" + c + "}" for c in "abcdefghi"), "names 9 columns; at most 8 make a path"),
    ],
)
def test_a_path_that_can_not_be_says_what_to_write(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        parse(text)
