"""A condition of a reader's rows says of Arrow's rows what it says of the same rows as JSON; and each reader is the one
that comparing with all of them finds."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import bind, rewrite_not
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
)

from firn.config.callers import is_one_of
from firn.config.condition_text import parse
from firn.config.model import Auth
from firn.config.readable_rows import check_rows
from firn.config.reader_scopes import Scope, ScopedReader, ScopedReaders
from firn.config.secret_addresses import SecretPlaces, is_same_place
from firn_lake.reading.needed_files import needed_for
from firn_lake.reading.row_filter import UnfitRows, kept, require_fit
from tests.row_conditions import conditions
from tests.soak import times

SCHEMA = pa.schema(
    [("n", pa.int64()), ("i", pa.int32()), ("d", pa.decimal128(38, 10)), ("e", pa.decimal128(9, 2)),
     ("s", pa.string()), ("t", pa.string()), ("b", pa.bool_()), ("f", pa.float64()), ("l", pa.list_(pa.int64()))]
)  # fmt: skip
ICEBERG = Schema(
    *(NestedField(id, name, type, required=False) for id, (name, type) in enumerate(
        {"n": LongType(), "i": IntegerType(), "d": DecimalType(38, 10), "e": DecimalType(9, 2), "s": StringType(),
         "t": StringType(), "b": BooleanType(), "f": DoubleType(), "l": ListType(99, LongType(), False)}.items(), 1
    ))
)  # fmt: skip
DECIMALS = st.sampled_from(["0.5", "-1.5", "2", "1E+1", "12345678901234567890123456.0000000001"]).map(Decimal)
TEXTS_THERE = st.sampled_from(["", "a", "ab", "abc", "é", "Ab", "a%b", "a\nb", "a\\b", "𝄞", "\uffff", "_", "a_"])
ROWS = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-2, 2) | st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63)]),
        "i": st.none() | st.integers(-2, 2),
        "d": st.none() | DECIMALS,
        "e": st.none() | st.sampled_from(["0.50", "-1.50", "2.00", "9999999.99"]).map(Decimal),
        "s": st.none() | TEXTS_THERE,
        "t": st.none() | TEXTS_THERE,
        "b": st.none() | st.booleans(),
        "f": st.none() | st.just(0.5),
        "l": st.none() | st.just([1]),
    }
)
CONDITIONS = conditions(
    2,
    numbers=[
        *("n", "i", "d", "e", "0", "-1", "+2", "0.5", "1e1", "9007199254740993", "9223372036854775808", "1e37"),
        *("12345678901234567890123456.0000000001", "0.00000000000000000000000000000000000001"),
    ],
    texts=["s", "t", "'a'", "''", "'ab'", "'é'", "'\U0001d11e'", "'\uffff'"],
    fields=sorted(SCHEMA.names),
    letters="ab%_A\\\n𝄞é.*",
)


def fits(where: BooleanExpression, table: pa.RecordBatch) -> set[int]:
    """The rows of which an expression is true."""
    bound = rewrite_not(bind(ICEBERG, where, case_sensitive=True))
    numbered = pa.Table.from_batches([table]).append_column("#", pa.array(range(table.num_rows)))
    return set(numbered.filter(expression_to_pyarrow(bound)).column("#").to_pylist())


def as_json(row: dict[str, object]) -> bytes:
    parts = (
        f"{json.dumps(name)}: {format(value, 'f') if isinstance(value, Decimal) else json.dumps(value)}"
        for name, value in row.items()
    )
    return f"{{{', '.join(parts)}}}".encode()


@settings(max_examples=times(67, 10_000, 300), deadline=None)
@given(st.lists(CONDITIONS, min_size=1, max_size=2), st.lists(ROWS, min_size=1, max_size=4))
def test_a_condition_keeps_of_arrow_what_it_holds_of_json(texts: list[str], rows: list[dict[str, object]]) -> None:
    found = [parse(text) for text in texts]
    table = pa.Table.from_pylist(rows, SCHEMA).combine_chunks().to_batches()[0]
    for one in found:
        require_fit(one.test, dict(zip(SCHEMA.names, SCHEMA.types, strict=True)))
    columns = dict(zip(SCHEMA.names, table.columns, strict=True))
    told = kept([one.test for one in found], columns, len(rows)).to_pylist()
    needed = fits(needed_for([one.test for one in found], {one.name: one for one in ICEBERG.fields}), table)
    assert all(id in needed for id, keeps in enumerate(told) if keeps)
    assert told == [all(one.holds(as_json(row)) for one in found) for row in rows]


@pytest.mark.parametrize(
    "text",
    ["s = 1", "n = 'a'", "b = 1", "f = 1", "f > n", "l = 1", "n LIKE 'a'", "1 LIKE 'a'", "n", "s IS TRUE", "nope = 1",
     "nope IS NULL", "NOT (n = 1 AND nope = 2)", "b IN (true, 1)", "n BETWEEN 1 AND 'x'"],
)  # fmt: skip
def test_what_does_not_fit_is_no_condition(text: str) -> None:
    with pytest.raises(UnfitRows):
        require_fit(parse(text).test, dict(zip(SCHEMA.names, SCHEMA.types, strict=True)))


@pytest.mark.parametrize("text", ["o.x = 1", "1 = 1", "n = 1e39", "n = 0.000000000000000000000000000000000000001"])
def test_what_no_table_can_be_asked_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        check_rows(text)


NAMES = st.sampled_from(["a", "b", "a-123456", "a-abcdef", "a-123456-abcdef"])
PLACES = st.one_of(
    NAMES.map("secretsmanager:{}".format),
    st.builds("secretsmanager:arn:aws:secretsmanager:eu:{}:secret:{}".format, st.sampled_from("12"), NAMES),
    NAMES.map("ssm:/{}".format),
    NAMES.map("ssm:{}:3".format),
    st.builds("ssm:arn:aws:ssm:eu:{}:parameter/{}".format, st.sampled_from("12"), NAMES),
    NAMES.map("file:/x/../{}".format),
    st.just(""),
)


@settings(max_examples=times(67, 5_000, 300), deadline=None)
@given(st.lists(PLACES, max_size=6))
def test_a_secret_is_found_as_comparing_with_each_does(places: list[str]) -> None:
    known = SecretPlaces()
    for number, place in enumerate(places):
        holder = known.holder(place)
        known.add(place, str(number))
        assert (holder is not None) == any(is_same_place(place, other) for other in places[:number])
        assert holder is None or is_same_place(place, places[int(holder)])


ARN = "arn:aws:iam::123456789012:"
STS = "arn:aws:sts::123456789012:"
PATTERNS = st.sampled_from(
    [f"{ARN}role/a", f"{ARN}role/x/a", f"{ARN}role/*", f"{ARN}role/a*", f"{ARN}user/a", f"{ARN}user/*", f"{ARN}root",
     f"{STS}assumed-role/a/s", f"{STS}assumed-role/a/*", f"{STS}federated-user/a", f"{ARN}user/x/a"]
)  # fmt: skip
CALLERS = st.sampled_from(
    [f"{STS}assumed-role/a/s", f"{STS}assumed-role/ab/s", f"{ARN}user/a", f"{ARN}user/x/a", f"{ARN}root", "", "x",
     f"{STS}assumed-role/a", f"{STS}assumed-role/a/s/t", f"{ARN}role/a", f"{STS}federated-user/a"]
)  # fmt: skip


@settings(max_examples=times(67, 5_000, 300), deadline=None)
@given(st.lists(st.lists(PATTERNS, min_size=1, max_size=2), max_size=3), CALLERS)
def test_a_caller_is_found_as_comparing_with_each_does(patterns: list[list[str]], caller: str) -> None:
    readers = {
        f"r{number}": ScopedReader(Auth("iam", callers=tuple(some)), Scope(f"r{number}", ("*.*",)))
        for number, some in enumerate(patterns)
    }
    found = [one.scope.reader for one in ScopedReaders(readers).of_caller(caller)]
    assert found == [name for name, one in readers.items() if is_one_of(caller, one.auth.callers)]
