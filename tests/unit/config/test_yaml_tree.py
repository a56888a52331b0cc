"""Hostile and broken YAML: bounded, never constructed into objects, and told plainly."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.config.reader import parse
from firn.errors import ConfigError


def told(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse(text)
    return str(raised.value)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "null", "~"])
def test_an_empty_file_points_to_firn_init(text: str) -> None:
    assert told(text).startswith("firn.yaml:1: the file is empty")
    assert "firn init" in told(text)


def test_a_tab_is_named_with_its_line() -> None:
    assert told("streams:\n  shop:\n\t  tables: {}\n") == "firn.yaml:3: is indented with a tab; write spaces"


def test_a_star_without_quotes_is_told_to_stand_in_quotes() -> None:
    text = "streams:\n  shop:\n    tables:\n      *:\n        to: shop.b\n"
    assert told(text) == "firn.yaml:4: a name that starts with * must be quoted; write '*': or 'public.*':"
    assert told("streams: {s: {tables: {*a: {to: a.b}}}}").endswith("in quotes it is a text: '*a'")


def test_broken_yaml_names_its_line() -> None:
    assert told("streams:\n  shop: {tables: [\n").startswith("firn.yaml:2: is not YAML: ")


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system", "!!python/name:os.system", "!Ref", "!!binary", "!!set", "!<tag:x>"]
)
def test_tags_are_refused_and_nothing_is_constructed(tag: str) -> None:
    assert "is not allowed; write plain values" in told(f"warehouse: {tag} ['echo x']\n")
    assert "is not allowed; write plain values" in told(f"warehouse: {tag} x\n")


def test_a_file_over_a_megabyte_is_refused_unread() -> None:
    assert "at most 1000000 are read" in told("#" * 1_000_001)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused(opening: str) -> None:
    started = time.monotonic()
    assert "is nested more than 30 deep" in told(opening * 100_000)
    assert time.monotonic() - started < 5


def test_an_alias_bomb_is_refused() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]
    assert "holds more than 200000 values, aliases written out" in told("\n".join(levels))


def test_an_alias_to_itself_is_refused() -> None:
    assert "stands for nothing" in told("streams: &a {shop: *a}\n")


def test_a_second_document_is_refused() -> None:
    assert told("streams: {}\n---\nstreams: {}\n").startswith("firn.yaml:2: a second document starts here")


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\ud800"])
def test_control_characters_are_refused_with_their_line(character: str) -> None:
    assert told(f"streams:\n  shop: {character}\n").startswith("firn.yaml:2: ")


def test_a_mapping_is_no_key() -> None:
    assert "a key must be one word or text" in told("? {a: b}\n: c\n")
    assert "a key must be one word or text" in told("[a, b]: c\n")


def test_thousands_of_problems_are_cut_short() -> None:
    lines = told("streams:\n" + "".join(f"  S{n}: {{}}\n" for n in range(3000))).splitlines()
    assert len(lines) == 101
    assert lines[-1].endswith(" more")


def test_a_byte_order_mark_and_windows_line_ends_are_read() -> None:
    assert parse("\ufeffstreams:\r\n  shop:\r\n    tables: {a.b: {to: c.d}}\r\n").streams["shop"].name == "shop"


@given(st.text(alphabet=st.sampled_from("ab:{}[]'\"*&!|>-?#%@`, \n\tstreams~0")))
def test_any_text_is_a_configuration_or_a_config_error(text: str) -> None:
    try:
        parse(text)
    except ConfigError:
        return
