"""docs/types.md and docs/format-3.md say of engines what was recorded, as tests/integration/spark/read_matrix.py writes
it: all of it, and loudly where an engine shows rows that are gone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spark import read_matrix
from tests.integration.spark.engine_types import told
from tests.integration.spark.read_matrix import FORMATS, NAMES, VALUES, WHOLE, Seen, values_of


@pytest.mark.parametrize("form", FORMATS)
def test_each_engine_was_read_of_each_type(form: int) -> None:
    found = read_matrix.written()[form]
    assert list(found) == list(NAMES)
    for seen in found.values():
        assert list(seen.cells) == list(values_of(form))
        assert all((seen.version, seen.day, *seen.cells.values()))
        assert "not read yet" not in seen.cells.values()


def test_no_page_was_written_by_hand() -> None:
    for file, text in read_matrix.pages(read_matrix.written()):
        assert read_matrix.between(file) == text, f"{file.name}: make read-matrix"


def test_what_is_written_is_read_again_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAGE", "FORMAT_3"):
        monkeypatch.setattr(read_matrix, name, tmp_path / name)
        (tmp_path / name).write_text(f"before\n{read_matrix.BEGIN}{read_matrix.END}after\n")
    cells = read_matrix.cells_of({kind: {"error": f"a | of `{kind}` in it"} for kind in values_of(3)})
    seen = {engine: Seen("1.0", "2026-11-26", cells) for engine in NAMES}
    read_matrix.write({3: seen})
    assert read_matrix.written() == {3: seen}
    read_matrix.write({2: {"duckdb": Seen("2.0", "2026-11-27", dict.fromkeys(VALUES, "`int`"))}})
    assert read_matrix.written()[3] == seen
    assert list(read_matrix.written()[2]) == ["duckdb"]
    assert (tmp_path / "PAGE").read_text().startswith("before\n")
    assert (tmp_path / "PAGE").read_text().endswith("after\n")


def values(kind: str, *more: Any) -> dict[str, Any]:
    return {"type": "t", "values": [*(told(kind, one) for one in values_of(3)[kind][1]), *more]}


def cell(kind: str, one: dict[str, Any]) -> str:
    return read_matrix.cells_of({kind: one})[kind]


@pytest.mark.parametrize("kind", values_of(3))
def test_a_row_that_is_gone_and_is_shown_is_wrong_whatever_else_is_told(kind: str) -> None:
    assert cell(kind, values(kind)) == "`t`"
    assert "**WRONG" in cell(kind, values(kind, told(kind, values_of(3)[kind][1][0])))
    assert "**WRONG" in cell(kind, {"type": "t", "values": ["?"] * (len(values_of(3)[kind][1]) + 1)})
    assert "**but** `no row`" in cell(kind, {"type": "t", "values": values(kind)["values"][:-1]})


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({}, "| not shown |  |  |"),
        (dict.fromkeys(values_of(3), "**no**: format 3"), "| **not read** | **any table of format 3** |  |"),
        (
            dict.fromkeys(values_of(3), "**no**: a vector") | {WHOLE: "`t`"},
            "| **not read** | **any table that had deleted rows** |  |",
        ),
        ({"variant": "**no**: no such type", "int": "`int`, **but** `1` for `2`"}, "| not shown | `variant` | `int` |"),
        ({"int": f"`int`, {read_matrix.WRONG}"}, "| **WRONG: it shows them**, of `int` |  |  |"),
        (
            dict.fromkeys(values_of(3), f"`t`, {read_matrix.WRONG}") | {WHOLE: "`t`", "variant": "**no**: none"},
            "| **WRONG: it shows them** | `variant` |  |",
        ),
    ],
)
def test_the_summary_says_the_worst_first(cells: dict[str, str], said: str) -> None:
    seen = Seen("1.0", "2026-11-26", dict.fromkeys(values_of(3), "`t`") | cells)
    assert f"| DuckDB 1.0 | 2026-11-26 {said}" in lines(read_matrix.who_reads({"duckdb": seen}))


def lines(text: str) -> Sequence[str]:
    return text.splitlines()
