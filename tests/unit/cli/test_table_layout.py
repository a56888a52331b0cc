"""Tables for people at 80 and 100 columns: what is left out, what is wrapped, and that no name is broken."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios

import pytest
from rich.cells import cell_len

from firn.deployment.table_layout import GAP, fitted, harmless, readable, wrapped
from firn.deployment.terminal import counted, print_table, say

_CODE = re.compile(r"\x1b\[[0-9;]*m")
HEADER = ["table", "rows", "size", "key", "source"]
CELLS = [
    ["a_long_namespace.the_orders_of_all_customers", "1,234,567", "12.3 MB", "order_id, line_no", "public.the_orders"],
    ["web.users", "2", "1 kB", "id", "-"],
]
FOLD = ("source", "size", "key")


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (None, ("table", "rows", "size", "key", "source")),
        (110, ("table", "rows", "size", "key", "source")),
        (100, ("table", "rows", "size", "key")),
        (80, ("table", "rows", "key")),
        (60, ("table", "rows")),
    ],
)
def test_the_less_important_columns_go_first_and_the_others_stay_whole(
    width: int | None, shown: tuple[str, ...]
) -> None:
    fit = fitted(HEADER, CELLS, width, FOLD)
    assert tuple(HEADER[place] for place in fit.shown) == shown
    assert not fit.records
    for place, cells in zip(fit.shown, fit.widths, strict=True):
        assert cells >= max(len(row[place]) for row in CELLS)
    assert width is None or sum(fit.widths) + GAP * (len(fit.widths) - 1) <= width


def test_a_column_that_holds_nothing_goes_before_all_others() -> None:
    cells = [["web.users", "2", "1 kB", "-", "public.users"]]
    fit = fitted(HEADER, cells, 36, FOLD)
    assert [HEADER[place] for place in fit.shown] == ["table", "rows", "size", "source"]


def test_prose_is_wrapped_before_a_column_is_left_out_and_only_at_spaces() -> None:
    text = "snapshots: 120 are older than 5 d; compact: 14 small files"
    fit = fitted(["table", "next"], [["shop.orders", text]], 50, ("table",), ("next",))
    assert fit.shown == (0, 1)
    assert fit.widths == (11, 37)
    lines = wrapped(text, 37)
    assert " ".join(lines) == text
    assert all(len(line) <= 37 for line in lines)


def test_what_fits_in_no_way_is_printed_as_records() -> None:
    header = [f"column_{number}" for number in range(12)]
    assert fitted(header, [["value"] * 12], 80).records
    assert not fitted(header, [["value"] * 12], None).records
    assert wrapped("a_name_that_is_longer than all", 10) == ["a_name_that_is_longer", "than all"]


def test_a_terminal_obeys_nothing_that_a_row_holds() -> None:
    assert harmless("\x1b[2Jgone\x9b1m\u202eright\ttab\nline") == r"\x1b[2Jgone\x9b1m\u202eright" + "\ttab\nline"


@pytest.mark.parametrize("columns", [80, 100])
def test_no_name_is_broken_in_a_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_table(HEADER, CELLS, fold=FOLD)
    said = capsys.readouterr()
    assert CELLS[0][0] in said.out
    assert max(map(len, _CODE.sub("", said.out).splitlines())) <= columns
    assert "not shown: " in said.err
    print_table(HEADER, CELLS, fold=FOLD, wide=True)
    said = capsys.readouterr()
    assert "public.the_orders" in said.out
    assert said.err == ""
    names = [f"a_column_of_a_name_{number}" for number in range(9)]
    print_table(names, [["\x1b[31m" + "v" * 20] * 9])
    records = capsys.readouterr().out.splitlines()
    assert len(records) == 9
    assert records[0].split() == ["a_column_of_a_name_0", r"\x1b[31m" + "v" * 20]


def test_one_is_not_several() -> None:
    assert [counted(1, "letter"), counted(0, "letter"), counted(1200, "batch", "batches")] == [
        "1 letter",
        "0 letters",
        "1,200 batches",
    ]


def test_a_sentence_is_broken_at_spaces_and_a_command_in_it_nowhere() -> None:
    batch = "shop.01a216017f4b3e3098063c2c4d5c"
    said = f"shop: 1 event: 0 committed, 1 dead letter (no_key), see firn dead show {batch}; up to epoch 2 in 1 table"
    lines = readable(said, 60, length=cell_len)
    assert lines == [
        "shop: 1 event: 0 committed, 1 dead letter (no_key), see",
        f"firn dead show {batch}; up to",
        "epoch 2 in 1 table",
    ]
    assert " ".join(lines) == said
    assert max(map(len, readable(said, 57, length=cell_len))) <= 57
    assert readable("state   a b c d e f g h i j k l m n o p q r s t", 32, 8)[1:] == ["        m n o p q r s t"]


@pytest.mark.parametrize("width", [80, 100])
def test_a_command_says_its_sentences_so_in_a_terminal_and_in_one_line_elsewhere(
    capfd: pytest.CaptureFixture[str], width: int
) -> None:
    text = "w" * 60 + " " + "firn dead show " + "x" * 60
    say(text)
    assert capfd.readouterr().out == text + "\n"
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    with os.fdopen(terminal, "w") as opened, contextlib.redirect_stdout(opened):
        say(text)
        opened.flush()
        shown = os.read(reader, 4096).decode()
    os.close(reader)
    assert shown.split() == text.split()
    assert shown.splitlines() == text.replace(" firn", "\nfirn").split("\n")


def test_a_sentence_has_nothing_that_a_terminal_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    say("shop: \x1b[2Jgone is quarantined\nand this")
    assert capsys.readouterr().out == "shop: \\x1b[2Jgone is quarantined\nand this\n"
