"""Tables for people at 80 and 100 columns: what is left out, what is wrapped, and that no name is broken."""

import re

import pytest

from firn.deployment.table_layout import GAP, fitted, harmless, wrapped
from firn.deployment.terminal import counted, print_table

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
