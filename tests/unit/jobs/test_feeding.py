"""What a mirror table says of the source tables that feed it, and of the version that wrote it."""

import json

import pytest

from firn.errors import TerminalError
from firn.jobs.progress import FORMAT, SOURCES, TableState, check_format, fed_by, feeding, of_unnamed


def state(**properties: str) -> TableState:
    return TableState("file:///t", properties, (), None, ())


def told(*sources: str | None) -> TableState:
    return state(**{SOURCES: json.dumps(sources)})


def test_a_table_that_is_made_names_its_source_table_and_needs_no_column_for_it() -> None:
    assert feeding(None, ["a.t"]) == {SOURCES: '["a.t"]'}
    assert feeding(told("a.t"), ["a.t"]) == {}
    assert of_unnamed(("a.t",)) == "a.t"


def test_a_second_source_table_makes_it_a_table_of_the_second_format() -> None:
    assert feeding(told("a.t"), ["b.t", "a.t"]) == {SOURCES: '["a.t", "b.t"]', FORMAT: "2"}
    assert of_unnamed(("a.t", "b.t")) == "a.t"
    assert feeding(told("a.t", "b.t"), ["b.t"]) == {}


def test_a_table_from_before_does_not_know_whose_its_rows_are_once_another_comes() -> None:
    old = state(**{"firn.source": "a.t"})
    assert feeding(old, ["a.t"]) == {}
    assert of_unnamed(fed_by(old, ["a.t"])) == "a.t"
    assert feeding(old, ["b.t"]) == {SOURCES: '[null, "a.t", "b.t"]', FORMAT: "2"}
    assert of_unnamed(fed_by(old, ["b.t"])) is None


def test_a_table_that_another_tool_made_notes_who_feeds_it() -> None:
    assert feeding(state(), ["a.t"]) == {SOURCES: '[null, "a.t"]'}


@pytest.mark.parametrize("number", ["1", "2"])
def test_a_known_format_is_written_to(number: str) -> None:
    check_format(state(**{FORMAT: number}))
    check_format(None)


@pytest.mark.parametrize("number", ["3", "10", "", "one", "٢", "-1"])
def test_a_table_of_a_newer_version_is_refused_by_name(number: str) -> None:
    with pytest.raises(TerminalError, match=r"firn.format .*knows 2 at most: a newer one has written it"):
        check_format(state(**{FORMAT: number}))
