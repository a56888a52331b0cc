"""Which rule takes a source table, and which Iceberg table it goes to."""

import pytest

from firn.config.model import StreamConfig, TableRule
from firn.config.names import TableName
from firn.config.reader import parse
from firn.errors import ConfigError, EventError


def stream(**rules: str) -> StreamConfig:
    return of([TableRule(source, to) for source, to in rules.items()])


def of(rules: list[TableRule]) -> StreamConfig:
    return StreamConfig(name="shop", tables=tuple(rules))


def source_of(config: StreamConfig, table: str) -> str | None:
    rule = config.rule_for(table)
    return rule.source if rule else None


def test_an_exact_rule_wins_over_any_pattern_wherever_it_stands() -> None:
    config = of([TableRule("*", "s.{table}"), TableRule("public.*", "p.{table}"), TableRule("public.orders", "x.y")])
    assert source_of(config, "public.orders") == "public.orders"
    assert source_of(config, "public.items") == "public.*"
    assert source_of(config, "other.items") == "*"


def test_the_pattern_with_more_to_it_wins_and_then_the_first() -> None:
    config = of(
        [TableRule("*.order*", "a.{table}"), TableRule("public.order*", "b.{table}"), TableRule("*.*order", "c.d")]
    )
    assert source_of(config, "public.orders") == "public.order*"
    assert source_of(config, "x.orders") == "*.order*"
    assert source_of(config, "x.order") == "*.order*"


def test_no_rule_means_filtered() -> None:
    config = of([TableRule("public.orders", "s.o")])
    assert config.rule_for("public.items") is None
    assert config.rule_for("PUBLIC.ORDERS") is None


def test_ignore_filters_one_table_out_of_a_pattern() -> None:
    config = of([TableRule("public.secret", "", ignore=True), TableRule("public.*", "p.{table}")])
    assert config.rule_for("public.secret") is None
    assert source_of(config, "public.other") == "public.*"


def test_a_table_without_schema_matches_the_only_rule_of_that_name() -> None:
    config = of([TableRule("public.orders", "shop.{table}"), TableRule("*", "rest.{table}")])
    assert source_of(config, "orders") == "public.orders"
    assert config.target("orders") == TableName("shop", "orders")
    assert source_of(config, "items") == "*"


def test_a_table_without_schema_takes_the_schema_of_its_rule() -> None:
    config = of([TableRule("public.orders", "{schema}.{table}"), TableRule("audit.*", "{schema}_log.{table}")])
    assert config.target("orders") == TableName("public", "orders")
    assert config.target("entries") == TableName("audit_log", "entries")


def test_a_table_without_schema_that_fits_two_is_never_guessed() -> None:
    config = of([TableRule("a.orders", "x.a"), TableRule("b.orders", "x.b"), TableRule("*", "x.{table}")])
    with pytest.raises(EventError, match=r"fits a\.orders, b\.orders") as raised:
        config.rule_for("orders")
    assert raised.value.code == "ambiguous_table"


def test_a_rule_without_schema_matches_its_own_name() -> None:
    config = of([TableRule("orders", "shop.orders")])
    assert source_of(config, "orders") == "orders"
    assert config.rule_for("public.orders") is None


@pytest.mark.parametrize(
    ("table", "target"),
    [
        ("public.orders", TableName("shop_public", "orders")),
        ("s.Mixed Case-Table", TableName("shop_s", "Mixed Case-Table")),
        ("s.dot.ted", TableName("shop_s", "dot.ted")),
        ("s.{schema}", TableName("shop_s", "{schema}")),
        ("s.日本語", TableName("shop_s", "日本語")),
    ],
)
def test_placeholders_take_names_as_they_are(table: str, target: TableName) -> None:
    assert of([TableRule("*", "shop_{schema}.{table}")]).target(table) == target


def test_a_schema_that_is_asked_for_and_unknown_is_an_event_error() -> None:
    with pytest.raises(EventError, match="is not a table name") as raised:
        of([TableRule("*", "{schema}.{table}")]).target("orders")
    assert raised.value.code == "bad_table"


@pytest.mark.parametrize("table", ["zz__deletes", "zz__deletes_3_00ffaa11", "zz__check", "ZZ__Deletes", "_firn_zz"])
def test_a_pattern_gives_no_table_one_of_firns_own_names(table: str) -> None:
    config = of([TableRule("*", "x.{table}"), TableRule("s.other", "x.other")])
    with pytest.raises(EventError, match=rf"such as s\.{table}: {{to: x\.NAME}}") as raised:
        config.target(f"s.{table}")
    assert raised.value.code == "reserved_name"
    assert config.target("s.zz_deletes") == TableName("x", "zz_deletes")
    # Only a file from before names were reserved has such a rule (reader.parse): its table goes on.
    for rule in (TableRule(f"s.{table}", "x.{table}"), TableRule("*", f"x.{table}", mode="append")):
        assert of([rule]).target(f"s.{table}") == TableName("x", table)


@pytest.mark.parametrize(("mode", "most"), [("mirror", 246), ("append", 255)])
def test_a_pattern_makes_no_name_that_is_too_long_for_a_catalog(mode: str, most: int) -> None:
    """In bytes, as Glue counts; a mirror has `…__deletes` beside it."""
    config = of([TableRule("*", "{schema}.{table}", mode=mode)])
    fits, over = "é" * (most // 2), "é" * (most // 2) + "xx"
    assert config.target(f"s.{fits}") == TableName("s", fits)
    for table in (f"s.{over}", "n" * 256 + ".t"):
        with pytest.raises(EventError, match=r"has at most \d+ bytes, and .* has \d+; give it a rule") as raised:
            config.target(table)
        assert raised.value.code == "bad_table"
        assert len(str(raised.value)) < 600
    # Only a file from before has such a rule (reader.parse): its table goes on, where its catalog takes the name.
    assert of([TableRule(f"s.{over}", "s.{table}", mode=mode)]).target(f"s.{over}") == TableName("s", over)


@pytest.mark.parametrize("to", ["x." + "n" * 247, "n" * 256 + ".x"])
@pytest.mark.parametrize("source", ["s.t", "'s.*'"])
def test_firn_yaml_names_no_table_that_is_too_long_for_a_catalog(source: str, to: str) -> None:
    text = f"streams: {{shop: {{tables: {{{source}: {{to: {to}, key: [id]}}}}}}}}"
    with pytest.raises(ConfigError, match=r"firn.yaml:1: .*is too long: a .* name has at most (246|255) bytes"):
        parse(text)
    assert parse(text, published=True).streams["shop"].target("s.t") == TableName.parse(to)


def test_the_target_of_a_filtered_table_is_an_event_error() -> None:
    with pytest.raises(EventError) as raised:
        of([]).target("a.b")
    assert raised.value.code == "filtered_table"


def test_dots_and_brackets_in_patterns_are_literal() -> None:
    config = of([TableRule("public.a[b]*", "x.y")])
    assert source_of(config, "public.a[b]c") == "public.a[b]*"
    assert config.rule_for("publicXab") is None


def test_a_pattern_of_many_stars_ends_in_time() -> None:
    assert of([TableRule("*" * 200 + "a", "x.y")]).rule_for("b" * 10_000 + ".c") is None


def test_rows_say_their_table_their_deletes_and_their_key() -> None:
    text = "streams: {{web: {{envelope: {}, {} tables: {{users: {{to: web.users{}}}, 'x*': {{ignore: true}}}}}}}}"
    stream = parse(text.format("rows", "table_by: type, op_field: op, ", ", key: [id]")).streams["web"]
    assert (stream.table_by, stream.op_field) == ("type", "op")
    assert stream.delete_when == {"d", "D", "delete", "DELETE"}
    stream = parse(text.format("rows", "op_field: op, delete_when: [True, 1, x],", ", mode: append")).streams["web"]
    assert stream.delete_when == {"true", "1", "x"}
    wrong = {
        ("rows", "", ""): "users: mirrors rows, which do not say what their key is; write key: [id], or mode: append",
        ("rows", "delete_when: [x],", ", key: [id]"): "delete_when: says which values make a delete, and op_field is",
        ("rows", "op_field: op, delete_when: [],", ", key: [id]"): "delete_when: needs texts; write delete_when: [D",
        ("debezium", "table_by: type,", ""): "table_by: is for plain rows, and these events say it themselves; write",
        ("auto", "op_field: op,", ""): "op_field: is for plain rows",
        ("rows", "table_by: [a],", ", key: [id]"): "table_by: is a list; write the name of the field that says the",
    }
    for given, said in wrong.items():
        with pytest.raises(ConfigError) as raised:
            parse(text.format(*given))
        assert said in str(raised.value), given
