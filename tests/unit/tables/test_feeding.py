"""What a mirror table says of the source tables that feed it, and of the version that wrote it."""

import json
from dataclasses import replace

import pytest

from firn.changes.merge import decoded_rows
from firn.config.reader import parse
from firn.errors import TerminalError
from firn.tables.batch_facts import TableFacts
from firn.tables.routing import route
from firn.tables.table_state import FORMAT, SOURCES, TableState, check_format, fed_by, of_unnamed, source_properties


def state(**properties: str) -> TableState:
    return TableState("file:///t", properties, (), None, ())


def named(*sources: str | None) -> TableState:
    return state(**{SOURCES: json.dumps(sources)})


def test_a_table_that_is_made_names_its_source_table_and_needs_no_column_for_it() -> None:
    assert source_properties(None, ["a.t"]) == {SOURCES: '["a.t"]'}
    assert source_properties(named("a.t"), ["a.t"]) == {}
    assert of_unnamed(("a.t",)) == "a.t"


def test_a_second_source_table_makes_it_a_table_of_the_second_format() -> None:
    assert source_properties(named("a.t"), ["b.t", "a.t"]) == {SOURCES: '["a.t", "b.t"]', FORMAT: "2"}
    assert of_unnamed(("a.t", "b.t")) == "a.t"
    assert source_properties(named("a.t", "b.t"), ["b.t"]) == {}


def test_a_table_from_before_does_not_know_whose_its_rows_are_once_another_comes() -> None:
    old = state(**{"firn.source": "a.t"})
    assert source_properties(old, ["a.t"]) == {}
    assert of_unnamed(fed_by(old, ["a.t"])) == "a.t"
    assert source_properties(old, ["b.t"]) == {SOURCES: '[null, "a.t", "b.t"]', FORMAT: "2"}
    assert of_unnamed(fed_by(old, ["b.t"])) is None


def test_a_table_that_another_tool_made_notes_who_feeds_it() -> None:
    assert source_properties(state(), ["a.t"]) == {SOURCES: '[null, "a.t"]'}


def test_a_table_of_the_third_format_stays_one() -> None:
    patched = replace(named("a.t"), properties={**named("a.t").properties, FORMAT: "3"})
    assert source_properties(patched, ["b.t"]) == {SOURCES: '["a.t", "b.t"]', FORMAT: "3"}


@pytest.mark.parametrize("number", ["1", "2", "3"])
def test_a_known_format_is_written_to(number: str) -> None:
    check_format(state(**{FORMAT: number}))
    check_format(None)


@pytest.mark.parametrize("number", ["4", "10", "", "one", "٢", "-1"])
def test_a_table_of_a_newer_version_is_refused_by_name(number: str) -> None:
    with pytest.raises(TerminalError, match=r"firn.format .*knows 3 at most: a newer one has written it"):
        check_format(state(**{FORMAT: number}))


def test_a_source_table_that_events_name_without_its_schema_is_the_same_table() -> None:
    config = parse("warehouse: file:///x\ncatalog: {type: sql}\nstreams:\n  s:\n    tables:\n      a.t: {to: lake.t}\n")
    (target,) = route(config.streams["s"], {"t": TableFacts(), "a.t": TableFacts()}).targets
    assert (target.sources, target.fed, target.names) == (("a.t", "t"), ("a.t",), {"t": "a.t"})
    changes = [{"op": "t", "fault": None, "pos": b"p", "ord": b"\1p", "table": name} for name in ("t", "a.t")]
    assert [one.source for one in decoded_rows.truncates(changes, target.names)] == ["a.t"]
