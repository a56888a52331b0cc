import pytest

from firn.changes.decode import types
from firn.changes.decode.declared_types import parse_declared
from firn.changes.decode.types import decimal, fixed, list_of, parse, promotable, storable, widen


@pytest.mark.parametrize(
    "text",
    ["boolean", "int", "long", "float", "double", "decimal(12,2)", "date", "time", "timestamp", "timestamptz", "string",
     "uuid", "binary", "fixed[1]", "fixed[65535]", "struct<a: fixed[3], b: list<fixed[2]>>",
     "map<string, int>", "map<decimal(9,2), list<map<date, struct<a: int, b: string>>>>", "list<long>",
     "list<decimal(38,0)>", "list<list<string>>"],
)  # fmt: skip
def test_a_type_reads_back_what_it_prints(text: str) -> None:
    assert str(parse(text)) == text


def test_blanks_in_a_type_do_not_matter() -> None:
    assert parse(" decimal( 12 , 2 ) ") == decimal(12, 2)
    assert parse(" fixed [ 12 ] ") == parse("fixed(12)") == fixed(12)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("bigint", "'bigint' is not a type; write long"),
        ("varchar(20)", "write string"),
        ("numeric(12,2)", r"write decimal\(p,s\)"),
        ("String", "write string"),
        ("decimal(39,2)", "the precision is 1 to 38"),
        ("decimal(5,6)", "the scale 0 to the precision"),
        ("timestamp(3)", "has no precision; write timestamp"),
        ("colour", "write one of boolean, int"),
        ("fixed", r"'fixed' is not a type; write fixed\[n\], of 1 to 65,535 bytes"),
        ("map<double, int>", "keys can't be double: equal ones may be written differently; write map<string, int>"),
        ("map<list<int>, int>", "keys can't be list<int>"),
        ("map<string>", "is not a type; write map<string, type>"),
        ("map<string, int, int>", "is not a type; write map<string, type>"),
        ("map<string, bigint>", "write long"),
        ("fixed[0]", "the length is 1 to 65,535 bytes"),
        ("fixed(65536)", "the length is 1 to 65,535 bytes; write binary"),
        ("fixed[-1]", r"write fixed\[n\], of 1 to 65,535 bytes"),
        ("fixed[2147483648]", r"'fixed\[2147483648\]' is not a type; write fixed\[n\], of 1 to 65,535 bytes"),
        (f"fixed[{'9' * 5000}]", r"\.\.\.' is not a type; write fixed\[n\], of 1 to 65,535 bytes"),
        ("map<>", r"'map<>' is not a type; write map<string, type>"),
        ("list<>", "a type is missing; write list<type>"),
        ("list", "'list' is not a type; write list<type>"),
        ("struct<>", "a struct has fields, and each has a name; write struct<name: type"),
        ("struct< >", "a struct has fields, and each has a name"),
        ("struct<a:>", "a type is missing"),
        ("struct<a: int,>", "a type is missing"),
        ("map<string, " * 1000 + "int" + ">" * 1000, "nested more than 20 deep; keep what is below as json"),
        ("map<struct<" + "f: int, " * 1000 + "g: int>, int>", "the struct names f twice"),
        (f"map<list<{'struct<a: ' * 15}int{'>' * 15}>, int>", r"can't be list<struct<[a:struc <]{80,100}: equal"),
        ("list<bigint>", "write long"),
    ],
)
def test_a_wrong_type_is_refused_with_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        parse(text)


def test_a_declaration_may_name_the_precision_of_the_source() -> None:
    assert parse_declared("timestamp(3)") == (types.TIMESTAMP, 3)
    assert parse_declared("time(0)") == (types.TIME, 0)
    assert parse_declared("timestamptz") == (types.TIMESTAMPTZ, None)
    assert parse_declared("decimal(12,2)") == (decimal(12, 2), None)


def test_a_time_is_stored_as_a_string_even_in_lists() -> None:
    assert storable(types.TIME) == types.STRING
    assert storable(list_of(types.TIME)) == list_of(types.STRING)
    assert storable(types.DATE) == types.DATE


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        ("int", "long", "long"),
        ("float", "double", "double"),
        ("int", "double", "double"),
        ("int", "float", "double"),
        ("long", "double", "string"),
        ("decimal(5,2)", "decimal(6,4)", "decimal(7,4)"),
        ("decimal(38,0)", "decimal(2,1)", "string"),
        ("int", "decimal(5,2)", "decimal(12,2)"),
        ("long", "decimal(5,2)", "decimal(21,2)"),
        ("double", "decimal(5,2)", "string"),
        ("date", "timestamp", "string"),
        ("boolean", "int", "string"),
        ("list<int>", "list<long>", "list<long>"),
        ("list<int>", "int", "string"),
        ("fixed[3]", "binary", "binary"),
        ("fixed[3]", "fixed[4]", "binary"),
        ("list<fixed[3]>", "list<fixed[3]>", "list<fixed[3]>"),
        ("map<string, int>", "map<string, long>", "map<string, long>"),
        ("map<string, int>", "map<int, int>", "string"),
        ("map<string, int>", "list<int>", "string"),
        ("fixed[3]", "string", "string"),
    ],
)
def test_widening_finds_the_smallest_type_that_holds_both_exactly(a: str, b: str, both: str) -> None:
    assert str(widen(parse(a), parse(b))) == both
    assert str(widen(parse(b), parse(a))) == both


def test_widening_does_not_depend_on_the_order_of_types() -> None:
    kinds = [
        parse(t) for t in ("int", "long", "float", "double", "decimal(9,2)", "decimal(38,38)", "date", "list<int>")
    ]
    kinds += [
        parse(t) for t in ("list<double>", "decimal(20,0)", "string", "boolean", "fixed[3]", "fixed[4]", "binary")
    ]
    kinds += [parse(t) for t in ("map<string, int>", "map<string, double>", "map<int, int>")]
    for a in kinds:
        assert widen(a, a) == a
        for b in kinds:
            for c in kinds:
                assert widen(widen(a, b), c) == widen(a, widen(b, c)), (a, b, c)


@pytest.mark.parametrize(
    ("a", "b", "allowed"),
    [
        ("int", "long", True),
        ("long", "int", False),
        ("float", "double", True),
        ("int", "double", False),
        ("decimal(8,2)", "decimal(14,2)", True),
        ("decimal(8,2)", "decimal(14,4)", False),
        ("decimal(8,2)", "decimal(7,2)", False),
        ("date", "timestamp", False),
        ("list<int>", "list<long>", True),
        ("int", "string", False),
        ("fixed[3]", "binary", False),
        ("fixed[3]", "fixed[4]", False),
        ("map<string, int>", "map<string, long>", True),
        ("map<string, int>", "map<long, int>", False),
        ("map<string, int>", "map<string, string>", False),
    ],
)
def test_only_icebergs_own_promotions_are_allowed(a: str, b: str, allowed: bool) -> None:
    assert promotable(parse(a), parse(b)) is allowed


def test_declared_types_of_sources_that_iceberg_does_not_have_are_stored_as_others() -> None:
    for text, stored in (
        ("unsigned long", "decimal(20,0)"), ("bit", "binary"), ("bit(17)", "binary"), ("bit ( 64 )", "binary"),
        ("decimal(65,30)", "string"), ("decimal(39,0)", "string"), ("decimal(999,999)", "string"),
    ):  # fmt: skip
        kind, precision = parse_declared(text)
        assert (str(storable(kind)), precision) == (stored, None), text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("bigint unsigned", "write unsigned long"),
        ("bigint(20) unsigned", "write unsigned long"),
        ("decimal(1001,0)", "is not a type"),
        ("decimal(65,66)", "does not exist"),
        ("unsigned int", "is not a type"),
        ("list<unsigned long>", "is not a type"),
        ("bit(-1)", "is not a type"),
        ("struct<a: int, A: int>", "has the fields a and A, which SQL can't tell apart"),
        ("map<string, list<struct<b: int, x: struct<É: int, é: int>>>>", "has the fields É and é"),
        ("struct<" + ", ".join(f"f{n}: int" for n in range(5001)) + ">", "names more than 5,000 fields"),
    ],
)
def test_what_is_not_declared_so_says_what_to_write(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_declared(text)
