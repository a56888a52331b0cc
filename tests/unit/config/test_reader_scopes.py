"""`query.readers` in firn.yaml: who reads some tables, and what of them."""

import pytest

from firn.config.model import Auth
from firn.config.reader import parse
from firn.config.reader_scopes import Scope, TableGrant
from firn.errors import ConfigError

STREAMS = "streams: {shop: {auth: {by: api_key, secret: 'ssm:/firn/posting'}, tables: {'*': {to: 'shop.{table}'}}}}\n"
ACME = "{auth: {by: api_key, secret: 'ssm:/firn/acme'}, tables: ['acme.*', shop.orders]%s}"


def readers(text: str, rest: str = "") -> str:
    return f"query: {{{rest}readers: {text}}}\n{STREAMS}"


def test_a_reader_has_tables_columns_and_rows() -> None:
    more = ", columns: {shop.orders: [id, status]}, rows: {shop.orders: 'tenant_id = 7'}"
    config = parse(readers("{acme: " + ACME % more + "}"))
    assert config.scoped is not None
    acme = config.scoped.of_key("acme.key")
    assert acme is not None
    assert acme.auth == Auth("api_key", "ssm:/firn/acme")
    assert acme.scope.grant(("shop", "orders")) == TableGrant(frozenset({"id", "status"}), ("tenant_id = 7",))
    assert acme.scope.grant(("acme", "notes")) == TableGrant()
    assert config.readers is None
    assert [config.scoped.of_key(key) for key in ("acme", "Acme.key", "other.key", ".key", "", "acme.".upper())] == [
        None
    ] * 6


def test_a_reader_has_so_many_seconds_of_queries_a_day() -> None:
    config = parse(readers("{acme: " + ACME % ", seconds: 3600" + "}"))
    assert config.scoped is not None
    acme = config.scoped.named("acme")
    assert acme is not None
    assert acme.seconds == 3600
    assert config.scoped.names == ("acme",)
    assert config.scoped.named("other") is None


@pytest.mark.parametrize("seconds", ["0", "-1", "1.5", "1h", "10000001", "[1]", "''"])
def test_seconds_that_are_no_quota_are_refused(seconds: str) -> None:
    with pytest.raises(ConfigError, match=r"query.readers.acme.seconds.* 1 to 10000000"):
        parse(readers("{acme: " + ACME % f", seconds: {seconds}" + "}"))


def test_a_condition_alone_is_for_all_tables() -> None:
    config = parse(readers("{acme: " + ACME % ", rows: 'tenant_id = 7'" + "}"))
    assert config.scoped is not None
    acme = config.scoped.of_key("acme.x")
    assert acme is not None
    assert acme.scope.grant(("acme", "notes")) == TableGrant(None, ("tenant_id = 7",))
    assert acme.scope.grant(("shop", "orders")) == TableGrant(None, ("tenant_id = 7",))


@pytest.mark.parametrize(
    ("pattern", "identifier", "is_granted"),
    [
        ("shop.orders", ("shop", "orders"), True),
        ("shop.orders", ("shop", "Orders"), False),
        ("shop.orders", ("shop", "orders2"), False),
        ("shop.orders", ("xshop", "orders"), False),
        ("shop.orders", ("shopxorders",), False),
        ("shop.orders", ("a", "shop", "orders"), False),
        ("shop.*", ("shop", "a.b"), True),
        ("shop.*", ("shop", "a\nb"), True),
        ("shop.*", ("shop.x", "orders"), False),
        ("shop.*", ("shop", "orders__deletes"), False),
        ("shop.*", ("shop", "orders__deletes_12_0123abcd"), False),
        ("shop.*", ("shop", "orders__check"), False),
        ("*.*", ("shop", "ORDERS__DELETES"), False),
        ("shop.orders__deletes", ("shop", "orders__deletes"), False),
        ("*.*", ("any", "table"), True),
        ("*.*", ("any", "_firn_state"), False),
        ("s*p.o*s", ("shop", "orders"), True),
        ("s*p.o*s", ("shop", "order"), False),
        ("shop.a+b", ("shop", "aab"), False),
        ("shop.a+b*", ("shop", "a+bc"), True),
        ("shop.a+b*", ("shop", "aabc"), False),
        ("shop.[o]*", ("shop", "orders"), False),
        ("shop.a.b", ("shop", "a.b"), True),
        ("shop.a.b", ("shop.a", "b"), False),
        ("shop.*", ("shop", ""), True),
    ],
)
def test_a_pattern_grants_what_it_fits(pattern: str, identifier: tuple[str, ...], is_granted: bool) -> None:
    assert (Scope("r", (pattern,)).grant(identifier) is not None) is is_granted


def test_all_that_fits_a_table_narrows_it() -> None:
    scope = Scope(
        "r",
        ("shop.*", "shop.orders"),
        {"shop.*": ("id", "a"), "shop.orders": ("id", "b")},
        {"shop.*": "t = 7", "shop.orders": "s = 'x'"},
    )
    assert scope.grant(("shop", "orders")) == TableGrant(frozenset({"id"}), ("t = 7", "s = 'x'"))
    assert scope.grant(("shop", "others")) == TableGrant(frozenset({"id", "a"}), ("t = 7",))


IAM = "{by: iam, iam: ['arn:aws:iam::123456789012:role/acme']}"


@pytest.mark.parametrize(
    ("text", "rest", "message"),
    [
        ("{}", "", "query.readers: names nobody"),
        ("{acme: {tables: [a.b]}}", "", r"query.readers.acme.auth: is missing; write who this is"),
        ("{acme: {auth: {by: iam}, tables: [a.b]}}", "", "acme.auth.iam: is missing, and without it every caller"),
        ("{acme: {auth: {by: signature, secret: 'ssm:/x'}, tables: [a.b]}}", "", "acme.auth.by: is for posting"),
        ("{a.b: " + ACME % "" + "}", "", "query.readers.a.b: is not a reader's name"),
        ("{acme: {auth: {by: api_key, secret: 'ssm:/x'}}}", "", "acme.tables: is missing"),
        ("{acme: {auth: {by: api_key, secret: 'ssm:/x'}, tables: []}}", "", "acme.tables: needs texts"),
        ("{acme: {auth: {by: api_key, secret: 'ssm:/x'}, tables: orders}}", "", "'orders' is no table; write such as"),
        ("{acme: {auth: {by: api_key, secret: 'ssm:/x'}, tables: '*'}}", "", r"'\*' is no table; .*'\*\.\*' for all"),
        ("{acme: {auth: {by: api_key, secret: 'ssm:/x'}, tables: '*a*a.*a*a*'}}", "", r"has more than 4 \*; write"),
        ("{acme: " + ACME % ", columns: {shop.order: [id]}" + "}", "", "columns.shop.order: stands not in `tables`"),
        ("{acme: " + ACME % ", rows: {shop.*: 'a = 1'}" + "}", "", r"rows.shop.\*: stands not in `tables`"),
        ("{acme: " + ACME % ", columns: {shop.orders: [id, id]}" + "}", "", "names id twice"),
        ("{acme: " + ACME % ", columns: {shop.orders: []}" + "}", "", "columns.shop.orders: needs texts"),
        ("{acme: " + ACME % ", columns: {shop.orders: [_firn_pos]}" + "}", "", "names _firn_pos, which is Firn's own"),
        ("{acme: " + ACME % ", rows: 'tenant_id ='" + "}", "", "acme.rows: is no condition of rows: line 1, column"),
        ("{acme: " + ACME % ", rows: 'a.b = 1'" + "}", "", "a.b lies in a column; write a column alone"),
        ("{acme: " + ACME % ", rows: '1 = 1'" + "}", "", "it looks at no column"),
        ("{acme: " + ACME % ", rows: {shop.orders: 'f(x) = 1'}" + "}", "", "rows.shop.orders: is no condition of rows"),
        ("{acme: " + ACME % ", rows: ''" + "}", "", "acme.rows: is empty"),
        ("{acme: " + ACME % ", row: 'a = 1'" + "}", "", "acme.row: is not a setting; write rows"),
        ("{acme: " + ACME % "" + ", b: " + ACME % "" + "}", "", "b.auth.secret: is the secret of the reader acme too"),
        ("{acme: {auth: {by: api_key, secret: 'ssm:/firn/posting'}, tables: [a.b]}}", "", "secret of the stream shop"),
        ("{acme: " + ACME % "" + "}", "auth: {by: api_key, secret: 'ssm:/firn/acme'}, ", "secret of query.auth too"),
        (f"{{a: {{auth: {IAM}, tables: [a.b]}}, b: {{auth: {IAM}, tables: [a.b]}}}}", "", "which is the reader a too"),
        (f"{{a: {{auth: {IAM}, tables: [a.b]}}}}", "auth: {by: iam}, ", "query.auth lets every caller of AWS in"),
    ],
)  # fmt: skip
def test_what_a_reader_can_not_be_is_named(text: str, rest: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"firn.yaml:1: .*{message}"):
        parse(readers(text, rest))


def test_the_console_has_keys_of_its_own() -> None:
    console = "console: {actions: {auth: {by: api_key, secret: 'ssm:/firn/acme'}}}\n"
    with pytest.raises(ConfigError, match=r"acme\.auth\.secret: is the secret of console\.actions\.auth too"):
        parse(readers("{acme: " + ACME % "" + "}") + console)


def test_there_are_bounds() -> None:
    many = ", ".join(f"r{n}: {{auth: {{by: api_key, secret: 'ssm:/{n}'}}, tables: [a.b]}}" for n in range(10_001))
    with pytest.raises(ConfigError, match=r"query\.readers: has 10,001 readers; at most 10,000"):
        parse(readers(f"{{{many}}}"))
    arns = ", ".join(f"'arn:aws:iam::123456789012:role/a{n}*'" for n in range(1_001))
    with pytest.raises(ConfigError, match=r"has 1,001 ARNs with \*, which are compared one by one"):
        parse(readers(f"{{a: {{auth: {{by: iam, iam: [{arns}]}}, tables: [a.b]}}}}"))
