"""Positions order what a source wrote as the source ordered it."""

import gzip
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.changes.change import Change
from firn.changes.envelopes.parser import parse
from firn.changes.positions import WIDTH, field_position, order_key, position
from firn.errors import EventError

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "tests" / "data" / "corpus"
PGBENCH = ROOT / "examples" / "pgbench" / "pgbench_plain.ndjson.gz"


def at(order: str | None, *, op: str = "u", connector: str = "postgresql", generation: int = 1) -> bytes:
    place = position(connector, op, order, generation)
    assert place is not None
    return place


def sequence(commit: int | None, lsn: int) -> str:
    return json.dumps([None if commit is None else str(commit), str(lsn)])


def recorded(path: Path) -> Iterator[tuple[Change, bytes | None]]:
    """Each change of a recording with its position, in the order in which Debezium wrote them."""
    for change in parse(gzip.decompress(path.read_bytes()), "auto").changes():
        yield change, position(change.connector, change.op, change.order, 1)


# --- PostgreSQL


@pytest.mark.parametrize("path", [PGBENCH, CORPUS / "spec" / "plain.ndjson.gz"], ids=["pgbench", "spec"])
def test_streamed_positions_never_fall_in_commit_order_where_the_lsn_does(path: Path) -> None:
    streamed = [(change, place) for change, place in recorded(path) if change.op != "r"]
    places = [place for _, place in streamed]
    assert all(place is not None for place in places)
    assert places == sorted(p for p in places if p)
    if path == PGBENCH:
        lsns = [int(json.loads(change.order or "")[1]) for change, _ in streamed]
        assert sum(later < earlier for earlier, later in itertools.pairwise(lsns)) == 8144


def test_every_change_of_a_recording_has_a_position_of_one_width() -> None:
    for name in ("plain", "schema", "flat", "cloudevents"):
        widths = {len(place or b"") for _, place in recorded(CORPUS / "spec" / f"{name}.ndjson.gz")}
        assert widths == {WIDTH}, name


def test_an_incremental_snapshot_read_has_a_position_though_its_lsn_is_null() -> None:
    body = gzip.decompress((CORPUS / "spec" / "plain.ndjson.gz").read_bytes())
    reads = [line for line in body.splitlines() if b'"snapshot":"incremental"' in line]
    assert len(reads) == 51
    assert all(b'"lsn":null' in line for line in reads)
    for change in parse(b"\n".join(reads), "auto").changes():
        assert position(change.connector, change.op, change.order, 1) is not None


def test_an_incremental_read_lies_after_what_was_committed_and_before_what_comes_next() -> None:
    read = at(sequence(100, 130), op="r")
    assert at(sequence(90, 95)) < read < at(sequence(100, 110))


def test_lsns_are_compared_as_numbers_not_as_text() -> None:
    assert at('["9","9"]') < at('["10","10"]')
    assert at('["100","9"]') < at('["100","10"]')
    assert at("9") < at("10")


def test_a_commit_decides_before_an_lsn() -> None:
    assert at(sequence(100, 900)) < at(sequence(200, 150))


def test_the_first_streamed_transaction_beats_a_snapshot_read_with_a_higher_lsn() -> None:
    read, first = at(sequence(None, 500), op="r"), at(sequence(None, 300), op="c")
    assert read < first < at(sequence(400, 350))


def test_a_flattened_row_is_ordered_by_its_lsn() -> None:
    assert at("32474000", op="r") < at("100") < at("101")


def test_numbers_and_text_say_the_same() -> None:
    assert at("[1,2]") == at('["1","2"]') == at(' [ "1" , 2 ]')


# --- other sources


def test_binlog_files_are_ordered_by_their_number() -> None:
    mysql = [["mysql-bin.000009", 99, 5], ["mysql-bin.000010", 4, 0], ["mysql-bin.000010", 4, 1], ["b.1000000", 4, 0]]
    places = [at(json.dumps(order), connector="mysql") for order in mysql]
    assert places == sorted(set(places))


def test_a_change_at_the_binlog_position_of_a_snapshot_beats_its_reads() -> None:
    order = '["mariadb-bin.000003",157,0]'
    assert at(order, op="r", connector="mariadb") < at(order, op="c", connector="mariadb")


def test_sql_server_lsns_are_ordered_by_commit_then_change_then_serial_number() -> None:
    orders = [
        ["00000027:00000758:0005", "00000027:00000758:0003", 1],
        ["00000027:00000758:0005", "00000027:00000758:0003", 2],
        ["00000027:00000758:0005", "00000027:00000758:0004", 1],
        ["00000027:00000758:000a", "00000027:00000100:0001", 1],
        ["00000028:00000001:0001", "00000027:00000001:0001", 1],
    ]
    places = [at(json.dumps(order), connector="sqlserver") for order in orders]
    assert places == sorted(set(places))


def test_a_sql_server_read_has_only_a_commit() -> None:
    read = at('["00000027:00000758:0005",null,null]', op="r", connector="sqlserver")
    assert read < at('["00000027:00000758:0005","00000027:00000001:0001",1]', op="c", connector="sqlserver")


def test_oracle_changes_are_ordered_by_commit_scn_then_scn_then_record_set() -> None:
    orders = [
        ["99", "98", " 0x00000a.00000001.0010 ", 0],
        ["100", "97", "0x00000a.00000001.0010", 0],
        ["100", "97", "0x00000a.00000001.0010", 1],
        ["100", "97", "0x00000b.00000001.0010", 0],
        ["100", "98", None, None],
    ]
    places = [at(json.dumps(order), connector="oracle") for order in orders]
    assert places == sorted(set(places))


def test_an_oracle_read_stands_at_its_scn() -> None:
    read = at('[null,"100",null,null]', op="r", connector="oracle")
    before = at('["99","99",null,0]', connector="oracle")
    assert before < read < at('["100","99",null,0]', connector="oracle")


@pytest.mark.parametrize("connector", ["mongodb", "firn"])
def test_a_time_and_a_counter(connector: str) -> None:
    places = [at(order, connector=connector) for order in ("[9,10]", "[10,9]", "[10,10]", "[1795215283187,1]")]
    assert places == sorted(set(places))


def test_all_connectors_have_one_width() -> None:
    orders = {
        "postgresql": '["1","2"]',
        "mysql": '["f.1",2,3]',
        "sqlserver": '["ffffffff:ffffffff:ffff","ffffffff:ffffffff:ffff",3]',
        "oracle": '["18446744073709551615","18446744073709551615","0xffffff.ffffffff.ffff",4294967295]',
        "mongodb": "[1,2]",
        "firn": "[1,2]",
    }
    assert {len(at(order, connector=connector)) for connector, order in orders.items()} == {WIDTH}


# --- generation, hostile values


def test_a_new_generation_beats_all_that_was() -> None:
    assert at(sequence(2**60, 2**60), generation=1) < at(sequence(None, 1), op="r", generation=2)
    assert at("5", generation=9) < at("5", generation=10)


def test_no_order_is_no_position() -> None:
    assert position("postgresql", "u", None, 1) is None
    assert position("", "u", None, 1) is None


HOSTILE = {
    "postgresql": [
        "", "x", "null", "{}", "[]", "true", "-1", "1.5", "1e400", '["-1","5"]', '["5",null]', '[null,"x"]',
        '["1","2","3"]',
        '["1"]', '["18446744073709551616","1"]', "9" * 5000, "[" * 5000, '["\\ud800","1"]', '[true,"1"]', '["1","2"',
    ],
    "mysql": ['["mysql-bin",1,0]', '["mysql-bin.x",1,0]', '["f.1",-1,0]', '["f.1",null,0]', '[null,1,0]',
              '["f.1",1,-1]',
              '["f.' + "9" * 50 + '",1,0]', '["f.1",18446744073709551616,0]', '["f.٣",1,0]', "5"],
    "sqlserver": ['["27:758:5","00000027:00000758:0005",1]', '["00000027:00000758:0005",null,1]', '["","",0]', "[]",
                  '["00000027:00000758:0005","00000027:00000758:0005",-1]', '["0000002g:00000758:0005",null,null]'],
    "oracle": ['[null,"5",null,0]', '["x","5",null,0]', '["5","5","0x1",0]', '["5","5",null,4294967296]',
               '["-5","5",null,0]'],
    "mongodb": ["[1]", "[1,-1]", "[-1,1]", "[null,1]", '["a",1]', "5"],
    "firn": ["[1]", "[1,-1]", "[18446744073709551616,1]", "[1.5,1]"],
    "cassandra": ["[1,2]"],
}  # fmt: skip


@pytest.mark.parametrize(("connector", "order"), [(c, o) for c, orders in HOSTILE.items() for o in orders])
def test_an_order_that_can_not_be_read_is_an_error_of_this_event(connector: str, order: str) -> None:
    with pytest.raises(EventError) as error:
        position(connector, "u", order, 1)
    assert error.value.code == "bad_position"
    assert len(str(error.value)) < 500


@settings(max_examples=50, deadline=None)
@given(st.text() | st.lists(st.none() | st.integers() | st.text() | st.floats()).map(json.dumps))
def test_any_text_gives_a_position_or_an_event_error(order: str) -> None:
    for connector in HOSTILE:
        try:
            assert len(at(order, connector=connector)) == WIDTH
        except EventError as error:
            assert error.code == "bad_position"  # noqa: PT017


U64 = st.integers(0, 2**64 - 1)


@given(st.tuples(st.none() | U64, U64), st.tuples(st.none() | U64, U64))
def test_positions_compare_like_the_numbers_they_are_made_of(
    a: tuple[int | None, int], b: tuple[int | None, int]
) -> None:
    as_numbers = (a[0] or 0, a[1]) < (b[0] or 0, b[1])
    assert (at(sequence(*a)) < at(sequence(*b))) == as_numbers


# --- order keys


def test_of_two_changes_at_one_position_the_create_beats_the_delete() -> None:
    place = at("5")
    ranked = [order_key(place, op, b"row") for op in "tdrcu"]
    assert ranked == sorted(ranked)


def test_a_position_decides_before_the_op() -> None:
    assert order_key(at("5"), "u", b"") < order_key(at("6"), "t", b"")


def test_equal_changes_have_equal_keys_and_others_differ() -> None:
    assert order_key(at("5"), "u", b"a") == order_key(at("5"), "u", b"a") != order_key(at("5"), "u", b"b")


def test_no_position_is_older_than_any() -> None:
    assert order_key(None, "u", b"a") < order_key(at("0", op="r", generation=1), "t", b"a")
    assert len(order_key(None, "u", b"")) == len(order_key(at("5"), "u", b""))


def test_a_number_of_many_digits_is_refused_before_it_is_made() -> None:
    began = time.process_time()
    for text in ("1e900000", "-1e999999", "9" * 60):  # made first, the first takes 18 seconds
        with pytest.raises(EventError) as raised:
            field_position([f'{{"v": "{text}"}}'], ("v",), "u", 0)
        assert raised.value.code == "bad_position"
    assert field_position(['{"v": "1e-900000"}'], ("v",), "u", 0) == field_position(['{"v": 0}'], ("v",), "u", 0)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "", "é", "\u2028"])
def test_a_field_may_be_called_anything(name: str) -> None:
    row = json.dumps({name: 7, "other": 1})
    assert field_position([row], (name,), "u", 0) == field_position(['{"v": 7}'], ("v",), "u", 0)
    with pytest.raises(EventError) as raised:
        field_position(['{"other": 1}'], (name,), "u", 0)
    assert raised.value.code == "bad_position"


def test_where_the_first_field_of_order_by_is_equal_the_second_counts() -> None:
    def by(at: str, version: str, op: str = "u") -> bytes:
        return field_position([f'{{"at": "{at}", "version": {version}}}'], ("at", "version"), op, 0)

    early, late = "2026-01-31T09:00:00Z", "2026-01-31T09:00:00.000001Z"
    told = [
        by(early, "-5"),
        by(early, "0"),
        by(early, "0.000000001"),
        by(early, "1e3"),
        by(late, "-9"),
        by(late, '"7"'),
    ]
    assert sorted(told) == told
    assert len(set(told)) == len(told)
    assert by(early, "9", "r") < by(early, "-9"), "a read loses, as to the first field alone"
    assert by(early, "9") > field_position([f'{{"at": "{early}"}}'], ("at",), "u", 0)
    row, key = '{"at": 1}', '{"version": 2}'
    assert field_position([row, key], ("at", "version"), "d", 0) == field_position(
        ['{"at": 1, "version": 2}'], ("at", "version"), "d", 0
    )
    for image in ('{"at": 1}', '{"version": 1}', '{"at": 1, "version": null}', '{"at": 1, "version": 1e60}'):
        with pytest.raises(EventError) as raised:
            field_position([image], ("at", "version"), "u", 0)
        assert raised.value.code == "bad_position"


def test_order_by_compares_numbers_and_times_as_what_they_are() -> None:
    def by(value: str) -> bytes:
        return field_position([f'{{"id": 1, "version": {value}}}'], ("version",), "u", 0)

    assert by("9") < by("10") < by("10.5") < by('"11"')
    assert by("-1") < by("0")
    assert by('"2024-01-01T00:00:00+02:00"') < by('"2024-01-01T00:00:00Z"') == by('"2024-01-01 00:00:00"')
    assert by("1") < field_position(['{"version": 0}'], ("version",), "u", 1)
    assert len(by("1")) == WIDTH


@pytest.mark.parametrize("image", ["{}", '{"version": null}', '{"version": "new"}', '{"version": {}}', "[]"])
def test_order_by_on_a_row_that_does_not_hold_it_is_a_bad_position(image: str) -> None:
    with pytest.raises(EventError, match="version") as caught:
        field_position([image], ("version",), "u", 0)
    assert caught.value.code == "bad_position"


EDGES = st.none() | st.sampled_from([-1, 0, 2**63, 2**64 - 1, 2**64]) | U64


@given(EDGES, EDGES, st.sampled_from("cudrt"), st.sampled_from([0, 2**32 - 1, 2**32]), st.booleans())
def test_a_pair_of_lsns_is_packed_as_the_rules_for_all_connectors_pack_it(
    commit: int | None, lsn: int | None, op: str, generation: int, as_text: bool
) -> None:
    pair = [None if number is None else str(number) if as_text else number for number in (commit, lsn)]
    text = json.dumps(pair)

    def outcome(order: str) -> bytes | str | None:
        try:
            return position("postgresql", op, order, generation)
        except EventError as error:
            return str(error).replace(order, "")

    assert outcome(text) == outcome(" " + text), "a blank before it takes the way of all connectors"
