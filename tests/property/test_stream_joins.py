"""A pipeline's join is DuckDB's own, whatever is looked up, however rows are split, and in any order of a table."""

import random
from collections import Counter
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from firn_sql.check import check
from firn_sql.isolation import TooLarge
from firn_sql.partners import Lookup
from firn_sql.transform import Result, Transform
from tests.soak import long_only, times

CLICKS = pa.schema({"id": pa.int64(), "cid": pa.int64(), "t": pa.string(), "n": pa.int32(), "l": pa.list_(pa.int64())})
CUSTOMERS = pa.schema({"id": pa.int64(), "t": pa.string(), "name": pa.string(), "rid": pa.int64()})
REGIONS = pa.schema({"id": pa.decimal128(9, 2), "label": pa.string()})
JOINED = {"shop.customers": CUSTOMERS, "shop.regions": REGIONS}
LISTS = st.none() | st.lists(st.integers(0, 2), max_size=2)
KEYS, WORDS = st.none() | st.integers(0, 3), st.none() | st.sampled_from(["a", "b", "7"])
NUMBERS = st.none() | st.sampled_from(["0.00", "1.00", "1.50", "2.00"])

JOINS = st.sampled_from(
    [
        ("JOIN shop.customers c ON k.cid = c.id", "c"),
        ("LEFT JOIN shop.customers c ON k.cid = c.id", "c"),
        ("LEFT JOIN shop.customers AS C ON c.t = k.t AND k.cid = c.id", "c"),
        ("JOIN shop.regions r ON k.n = r.id", "r"),
        ("JOIN shop.customers c ON k.cid = c.id LEFT JOIN shop.regions r ON r.id = c.rid", "cr"),
        ("LEFT JOIN shop.customers c ON k.cid = c.id JOIN shop.regions r ON c.rid = r.id", "cr"),
        ("JOIN shop.customers c ON k.cid = c.id JOIN shop.customers d ON c.rid = d.id", "c"),
    ]
)
FROM = st.sampled_from(["clicks k", "(SELECT * FROM clicks WHERE id > 0) k", "(SELECT *, t::INT AS x FROM clicks) k"])
WHERE = st.sampled_from(["", " WHERE k.id > 0", " WHERE CAST(k.t AS INTEGER) > 1 OR k.t IS NULL"])


@st.composite
def queries(draw: st.DrawFn) -> str:
    join, names = draw(JOINS)
    items = ["k.*", "k.cid + 1 AS cid1"]
    items += ["c.name AS c_name", "upper(c.t) AS c_t"] if "c" in names else []
    items += ["r.label"] if "r" in names else []
    items += ["unnest(k.l) AS item"] if draw(st.booleans()) else []
    return f"SELECT {', '.join(items)} FROM {draw(FROM)} {join}{draw(WHERE)}"


def rows(**columns: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(st.fixed_dictionaries(columns), max_size=7)


def lookup(tables: Sequence[pa.Table], dice: random.Random, most: int) -> Lookup:
    """Of all rows with wanted values those, and some others; too much where they are more than `most`."""

    def found(place: int, columns: Sequence[str], keys: pa.Table, _most: int) -> pa.Table:
        table = tables[place]
        wanted = pa.array([True] * len(table), pa.bool_())
        for name in keys.column_names:
            wanted = pc.and_(wanted, pc.is_in(table[name], value_set=keys[name].combine_chunks().drop_null()))
        mask = [one or not dice.randrange(4) for one in wanted.to_pylist()]
        if sum(wanted.to_pylist()) > most:
            raise TooLarge("it is too much")
        places = [place for place, one in enumerate(mask) if one]
        return table.take(pa.array(dice.sample(places, len(places)), pa.int64())).select(list(columns))

    return found


def as_told(made: Result, start: int = 0) -> list[tuple[int, int, str]]:
    each = zip(made.origin.to_pylist(), made.number.to_pylist(), made.rows.to_pylist(), strict=True)
    return [(start + origin, number, repr(row)) for origin, number, row in each]


@settings(max_examples=times(8, 3_000, 60), deadline=None)
@given(
    sql=queries(),
    clicks=rows(id=st.integers(-1, 9), cid=KEYS, t=WORDS, n=KEYS, l=LISTS),
    customers=rows(id=KEYS, t=WORDS, name=WORDS, rid=KEYS),
    regions=rows(id=NUMBERS, label=WORDS),
    cuts=st.sets(st.integers(0, 7), max_size=3),
    seed=st.integers(0, 99),
)
def test_each_row_gives_what_duckdbs_join_gives_of_it_alone(
    sql: str, clicks: list[dict[str, Any]], customers: list[dict[str, Any]], regions: list[dict[str, Any]],
    cuts: set[int], seed: int,
) -> None:  # fmt: skip
    source = pa.Table.from_pylist(clicks, CLICKS)
    text = pa.schema({"id": pa.string(), "label": pa.string()})
    label = pa.Table.from_pylist(regions, text)
    label = label.set_column(0, "id", label["id"].cast(pa.decimal128(9, 2)))
    told = {"shop.customers": pa.Table.from_pylist(customers, CUSTOMERS), "shop.regions": label}
    checked, dice = check(sql), random.Random(seed)
    transform, order = Transform(checked, CLICKS, joined=JOINED), [told[one.table] for one in checked.joins]
    made = transform.run(source, lookup(order, dice, 99))

    duck = duckdb.connect(config={"threads": 1})
    duck.execute("CREATE SCHEMA shop; SET disabled_optimizers = 'filter_pushdown,reorder_filter'")
    for name, table in told.items():
        duck.register("told", table)
        duck.execute(f"CREATE TABLE {name} AS FROM told")
    for place in range(len(source)):
        duck.register("clicks", source.slice(place, 1))
        try:
            expected = Counter(map(repr, duck.sql(sql).to_arrow_table().cast(transform.schema).to_pylist()))
        except duckdb.Error:
            assert place in made.failed
            continue
        mine = [row for origin, _, row in as_told(made) if origin == place]
        assert Counter(mine) == expected
        assert [number for origin, number, _ in as_told(made) if origin == place] == list(range(len(mine)))

    edges = sorted({0, len(source), *(cut for cut in cuts if cut < len(source))})
    parts = [(start, transform.run(source.slice(start, end - start), lookup(order, dice, 99)))
             for start, end in pairwise(edges)]  # fmt: skip
    assert [one for start, part in parts for one in as_told(part, start)] == as_told(made)
    assert {start + place for start, part in parts for place in part.failed} == set(made.failed)


DECIMALS = st.tuples(st.integers(1, 38), st.integers(0, 38)).filter(lambda one: one[1] <= one[0])
SIZES = "0 1 -1 1.5 2 0.3 1e18 1e19 1e20 1e30 1e37 1e-18 1e-38 99999999999999999999.9 9223372036854775807"
NUMBERS_OF_ALL_SIZES = st.sampled_from([*SIZES.split(), "18446744073709551615", "-9223372036854775808", "9" * 38])


def held(values: list[str], kind: pa.DataType) -> list[Decimal]:
    """Those that the type has."""
    found = []
    for one in map(Decimal, values):
        with localcontext(prec=80):
            whole = one == one.to_integral_value()
        if pa.types.is_integer(kind):
            bits = kind.bit_width - 1
            found += [one] if whole and -(2**bits) <= one < 2**bits else []
        else:
            with localcontext(prec=80):
                scaled = one.scaleb(kind.scale)
                fits = scaled == scaled.to_integral_value() and abs(scaled) < 10**kind.precision
            found += [one.quantize(Decimal(1).scaleb(-kind.scale), context=Context(prec=80))] if fits else []
    return found


def array_of(values: list[Decimal], kind: pa.DataType) -> pa.Array:
    return pa.array([int(one) for one in values] if pa.types.is_integer(kind) else values, kind)


@settings(max_examples=times(13, 3_000, 60), deadline=None)
@given(
    kinds=st.tuples(*[DECIMALS.map(lambda one: pa.decimal128(*one)) | st.sampled_from([pa.int32(), pa.int64()])] * 2),
    values=st.lists(NUMBERS_OF_ALL_SIZES, max_size=9, unique=True),
    others=st.lists(NUMBERS_OF_ALL_SIZES, max_size=9, unique=True),
)
@example((pa.decimal128(38, 0), pa.decimal128(38, 18)), ["1e30", "2", "99999999999999999999"], ["2", "1.5"])
@example((pa.decimal128(38, 18), pa.decimal128(38, 0)), ["99999999999999999999.9", "2", "1.5"], ["1e20", "1e30", "2"])
@example((pa.int64(), pa.decimal128(38, 38)), ["1", "0", "9223372036854775807"], ["0", "0.3"])
def test_numbers_of_any_size_are_compared_by_what_they_are(
    kinds: tuple[pa.DataType, pa.DataType], values: list[str], others: list[str]
) -> None:
    left, right = held(values, kinds[0]), held(others, kinds[1])
    source = pa.table({"id": range(len(left)), "n": array_of(left, kinds[0])})
    told = pa.table({"n": array_of(right, kinds[1]), "name": [f"{one:f}" for one in right]})
    sql = "SELECT k.id, c.name FROM clicks k LEFT JOIN shop.customers c ON k.n = c.n"
    transform = Transform(check(sql), source.schema, joined={"shop.customers": told.schema})
    asked: list[Decimal] = []

    def found(_place: int, columns: Sequence[str], keys: pa.Table, _most: int) -> pa.Table:
        asked.extend(keys["n"].to_pylist())
        return told.select(list(columns))

    made = transform.run(source, found)
    assert made.failed == {}
    partners = {row["id"]: None if row["name"] is None else Decimal(row["name"]) for row in made.rows.to_pylist()}
    assert partners == {n: one if one in right else None for n, one in enumerate(left)}
    assert {one for one in left if one in right} <= set(asked) <= set(left)


def test_partners_are_numbered_by_their_values_alone() -> None:
    told = pa.table({"id": [1, 1, 1], "t": list("cab"), "name": list("xyz"), "rid": [0] * 3}, schema=CUSTOMERS)
    source = pa.Table.from_pylist([{"id": 5, "cid": 1}], CLICKS)
    sql = "SELECT c.name, c.t FROM clicks k JOIN shop.customers c ON k.cid = c.id"
    transform = Transform(check(sql), CLICKS, joined=JOINED)
    for seed in range(5):
        made = transform.run(source, lookup([told], random.Random(seed), 9))
        assert made.number.to_pylist() == [0, 1, 2]
        assert made.rows["t"].to_pylist() == list("cab")  # by name, which the SQL names first


def test_rows_that_look_up_too_much_are_joined_by_halves_and_one_alone_is_a_failure() -> None:
    told = pa.table({"id": [0, 1, 2, 2, 2], "t": ["a"] * 5, "name": list("vwxyz"), "rid": [0] * 5}, schema=CUSTOMERS)
    source = pa.Table.from_pylist([{"id": n, "cid": n} for n in range(4)], CLICKS)
    transform = Transform(check("SELECT k.id, c.name FROM clicks k LEFT JOIN shop.customers c ON k.cid = c.id"), CLICKS,
                          joined=JOINED)  # fmt: skip
    made = transform.run(source, lookup([told], random.Random(1), 2))
    assert made.rows.to_pylist() == [{"id": 0, "name": "v"}, {"id": 1, "name": "w"}, {"id": 3, "name": None}]
    assert made.failed == {2: "it is too much"}


@long_only
def test_what_is_too_much_of_one_value_is_looked_up_once_and_not_for_each_of_its_rows() -> None:
    told = pa.table({"id": [0, 1, 2, 2, 2], "t": ["a"] * 5, "name": list("vwxyz"), "rid": [0] * 5}, schema=CUSTOMERS)
    source = pa.Table.from_pylist([{"id": n, "cid": n % 64 if n % 64 < 2 else 2} for n in range(512)], CLICKS)
    transform = Transform(check("SELECT k.id, c.name FROM clicks k LEFT JOIN shop.customers c ON k.cid = c.id"), CLICKS,
                          joined=JOINED)  # fmt: skip
    asked: list[int] = []
    has = lookup([told], random.Random(1), 2)

    def counted(place: int, columns: Sequence[str], keys: pa.Table, limit: int) -> pa.Table:
        asked.append(place)
        return has(place, columns, keys, limit)

    for _ in range(2):  # another run may find another snapshot
        asked.clear()
        made = transform.run(source, counted)
        assert [row["id"] for row in made.rows.to_pylist()] == [n for n in range(512) if n % 64 < 2]
        assert len(made.failed) == 512 - 16
        assert set(made.failed.values()) == {"it is too much"}
        assert 9 <= len(asked) <= 40


@pytest.mark.parametrize(
    ("kind", "far"),
    [
        (pa.date32(), 6_000_000), (pa.timestamp("us"), 6 * 10**17), (pa.timestamp("us", "UTC"), 6 * 10**17),
        (pa.timestamp("ns"), 1_001), (pa.time64("us"), 7),
    ],
)  # fmt: skip
def test_what_is_too_much_of_one_day_or_moment_stops_no_other(kind: pa.DataType, far: int) -> None:
    whole = pa.int32() if kind == pa.date32() else pa.int64()
    source = pa.table({"id": [0, 1, 2, 3], "d": pa.array([1, 2, far, 1], whole).cast(kind)})
    told = pa.table({"d": pa.array([1, 1, 2, far], whole).cast(kind), "name": ["a", "b", "c", "d"]})
    joins = check("SELECT k.id, c.name FROM clicks k JOIN shop.customers c ON k.d = c.d")
    transform = Transform(joins, source.schema, joined={"shop.customers": told.schema})
    made = transform.run(source, lookup([told], random.Random(1), 1))
    assert made.rows.to_pylist() == [{"id": 1, "name": "c"}, {"id": 2, "name": "d"}]
    assert made.failed == dict.fromkeys((0, 3), "it is too much")
