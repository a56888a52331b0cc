"""What PostgreSQL's texts become in a table, through the schema and the codec that the commit job uses."""

from decimal import Decimal

import pytest

from firn.changes.decode.codec import DecodeSettings, RowCodec
from firn.changes.decode.connect_schema import columns_of
from firn.errors import EventError
from firn.sources.postgres.row_form import UNCHANGED, RowForm, SourceColumn
from firn.sources.postgres.type_catalog import PgType, TypeCatalog

OWN = TypeCatalog(
    {
        70001: PgType("mood", "e"),
        70002: PgType("_mood", element=70001),
        70003: PgType("price", "d", base=1700, modifier=(10 << 16 | 2) + 4),
        70004: PgType("hstore"),
        70005: PgType("geometry"),
        70006: PgType("pair", "c"),
        70007: PgType("_price", element=70003),
        70008: PgType("price_of_prices", "d", base=70003),
    }
)


USUAL = DecodeSettings()
MONTH, DAY = 2_629_800_000_000, 86_400_000_000


def numeric(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


def stored(oid, text, modifier=-1, settings=USUAL):
    """(the column's type, what a table stores) of one value's text."""
    form = RowForm([SourceColumn("v", oid, modifier)], OWN, settings)
    columns = columns_of(form.schema)
    codec = RowCodec(columns, columns, settings)
    decoded = codec.decode(form.image([None if text is None else text.encode()]))
    assert decoded.unavailable == ()
    return str(columns[0].type), decoded.values[0]


@pytest.mark.parametrize(
    ("oid", "modifier", "text", "kind", "value"),
    [
        (16, -1, "t", "boolean", True),
        (16, -1, "f", "boolean", False),
        (21, -1, "-32768", "int", -32768),
        (23, -1, "2147483647", "int", 2147483647),
        (20, -1, "-9223372036854775808", "long", -9223372036854775808),
        (26, -1, "4294967295", "long", 4294967295),
        (700, -1, "0.1", "float", 0.1),
        (700, -1, "1e+20", "float", 1e20),
        (701, -1, "0.1", "double", 0.1),
        (701, -1, "1e+300", "double", 1e300),
        (701, -1, "Infinity", "double", float("inf")),
        (1700, numeric(12, 2), "-1234567890.12", "decimal(12,2)", Decimal("-1234567890.12")),
        (1700, numeric(12, 2), "NaN", "decimal(12,2)", None),
        (1700, numeric(5, -2), "1234500", "decimal(7,0)", Decimal(1234500)),
        (1700, numeric(3, 5), "0.00999", "decimal(5,5)", Decimal("0.00999")),
        (1700, numeric(60, 20), "1.00000000000000000000", "string", "1.00000000000000000000"),
        (1700, -1, "1.10", "string", "1.10"),
        (790, -1, "-$1,234.56", "decimal(38,2)", Decimal("-1234.56")),
        (25, -1, 'a "b"\n\\ü', "string", 'a "b"\n\\ü'),
        (1042, 9, "ab   ", "string", "ab   "),
        (18, -1, "x", "string", "x"),
        (17, -1, "\\x00ff", "binary", b"\x00\xff"),
        (17, -1, "\\x", "binary", b""),
        (1560, 1, "1", "boolean", True),
        (1560, 4, "1010", "binary", b"\x0a"),
        (1562, -1, "100000001", "binary", b"\x01\x01"),
        (1082, -1, "2024-02-29", "date", 19782),
        (1082, -1, "infinity", "date", None),
        (1082, -1, "0044-03-15 BC", "date", None),
        (1083, -1, "24:00:00", "string", "24:00:00.000000"),
        (1083, -1, "01:02:03.4", "string", "01:02:03.400000"),
        (1266, -1, "10:23:54.500+02", "string", "08:23:54.5Z"),
        (1266, -1, "00:30:00-05:45", "string", "06:15:00Z"),
        (1114, -1, "1970-01-01 00:00:01.5", "timestamp", 1_500_000),
        (1114, -1, "-infinity", "timestamp", None),
        (1114, -1, "10000-01-01 00:00:00", "timestamp", None),
        (1184, -1, "1970-01-01 00:00:00+00", "timestamptz", 0),
        (1186, -1, "1 year 2 mons 3 days 04:05:06.789", "long", 14 * MONTH + 3 * DAY + 14_706_789_000),
        (1186, -1, "-1 days -00:00:00.5", "long", -86_400_500_000),
        (1186, -1, "1 mon -1 days +00:00:01", "long", MONTH - DAY + 1_000_000),
        (2950, -1, "A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        (3802, -1, '{"a": 1}', "string", '{"a": 1}'),
        (114, -1, "null", "string", "null"),
        (869, -1, "10.0.0.0/8", "string", "10.0.0.0/8"),
        (3904, -1, "[1,5)", "string", "[1,5)"),
        (1007, -1, "{1,NULL,3}", "list<int>", [1, None, 3]),
        (1007, -1, "[0:1]={1,2}", "list<int>", [1, 2]),
        (1007, -1, "{}", "list<int>", []),
        (1009, -1, '{"a,b","NULL",NULL,"q\\"\\\\",x y}', "list<string>", ["a,b", "NULL", None, 'q"\\', "x y"]),
        (1231, numeric(5, 1), "{1.5,2.0}", "list<decimal(5,1)>", [Decimal("1.5"), Decimal("2.0")]),
        (1115, -1, '{"1970-01-01 00:00:00",infinity}', "list<timestamp>", [0, None]),
        (1001, -1, '{"\\\\x6869"}', "list<binary>", [b"hi"]),
        (1000, -1, "{t,f}", "list<boolean>", [True, False]),
        (70001, -1, "happy", "string", "happy"),
        (70002, -1, "{happy,sad}", "list<string>", ["happy", "sad"]),
        (70003, -1, "1.50", "decimal(10,2)", Decimal("1.50")),
        (70008, -1, "1.50", "decimal(10,2)", Decimal("1.50")),
        (70007, -1, "{1.50}", "list<decimal(10,2)>", [Decimal("1.50")]),
        (70004, -1, '"a"=>"1", "b \\"q\\""=>NULL', "string", '{"a":"1","b \\"q\\"":null}'),
        (70006, -1, "(1,two)", "string", "(1,two)"),
        (99999, -1, "of a type that is gone", "string", "of a type that is gone"),
        (600, -1, "(1,-2.5)", "string", '{"x":1.0,"y":-2.5,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAATA","srid":null}'),
        (
            70005, -1, "0101000020E6100000000000000000F03F0000000000000040", "string",
            '{"wkb":"AQEAACDmEAAAAAAAAAAA8D8AAAAAAAAAQA==","srid":4326}',
        ),
    ],
)  # fmt: skip
def test_a_text_becomes_the_value_that_it_is(oid, modifier, text, kind, value):
    found, got = stored(oid, text, modifier)
    assert (found, got) == (kind, value)


def test_null_is_null_and_minus_zero_is_a_number_of_its_own():
    assert stored(23, None) == ("int", None)
    assert str(stored(701, "-0")[1]) == "-0.0"
    assert stored(701, "NaN")[1] != stored(701, "NaN")[1]


@pytest.mark.parametrize(
    ("oid", "modifier", "text", "settings", "kind", "value"),
    [
        (1700, numeric(5, 1), "1.5", DecodeSettings(decimal="string"), "string", "1.5"),
        (1700, numeric(5, 1), "1.5", DecodeSettings(decimal="double"), "double", 1.5),
        (790, -1, "$1.50", DecodeSettings(decimal="double"), "double", 1.5),
        (17, -1, "\\x6869", DecodeSettings(binary="hex"), "string", "6869"),
        (1186, -1, "1 year 2 mons 3 days 04:05:06.7", DecodeSettings(interval="string"), "string", "P1Y2M3DT4H5M6.7S"),
        (1186, -1, "-00:00:00.5", DecodeSettings(interval="string"), "string", "P0Y0M0DT0H0M-0.5S"),
        (1186, -1, "00:00:00", DecodeSettings(interval="string"), "string", "P0Y0M0DT0H0M0S"),
    ],
)  # fmt: skip
def test_the_streams_own_modes_count(oid, modifier, text, settings, kind, value):
    assert stored(oid, text, modifier, settings) == (kind, value)


def test_no_value_is_taken_for_the_mark_of_an_unavailable_one():
    columns = [SourceColumn("t", 25), SourceColumn("j", 3802), SourceColumn("a", 1009), SourceColumn("b", 17)]
    form = RowForm(columns, TypeCatalog(), DecodeSettings())
    known = columns_of(form.schema)
    codec = RowCodec(known, known, DecodeSettings())
    mark = '{"__firn_unavailable__":true}'
    texts = [mark, mark, '{"__debezium_unavailable_value"}', "\\x" + b"__debezium_unavailable_value".hex()]
    decoded = codec.decode(form.image([text.encode() for text in texts]))
    assert decoded.unavailable == ()
    assert decoded.values == [mark, mark, ["__debezium_unavailable_value"], b"__debezium_unavailable_value"]
    assert codec.decode(form.image([UNCHANGED] * 4)).unavailable == (0, 1, 2, 3)
    plain = codec.decode(form.image([b"__debezium_unavailable_value", b'"__debezium_unavailable_value"', None, None]))
    assert plain.unavailable == ()
    assert plain.values[0] == "__debezium_unavailable_value"


@pytest.mark.parametrize(
    ("oid", "text"),
    [
        (17, b"6869"),
        (1186, b"P1D"),
        (1007, b"{1"),
        (1007, b"1}"),
        (1007, b"{1}}"),
        (1266, b"x"),
        (600, b"1"),
        (25, b"\xff"),
    ],
)
def test_a_text_that_is_none_of_its_type_is_refused_by_the_columns_name_alone(oid, text):
    form = RowForm([SourceColumn("secret", oid)], TypeCatalog(), DecodeSettings())
    with pytest.raises(EventError, match="column secret: ") as refused:
        form.image([text])
    assert refused.value.code == "bad_image"
    assert text.decode(errors="replace") not in str(refused.value).replace("column secret", "")


def test_what_is_not_known_yet_is_named():
    types = TypeCatalog({5: PgType("_mood", element=6), 7: PgType("d", "d", base=8)})
    assert types.lacking([23, 1007, 5, 7, 9]) == {6, 8, 9}
