"""`to: [a, b]`: further tables of a rule are pipelines of all of its source table."""

import pytest

from firn.config.model import StreamConfig
from firn.config.reader import parse
from firn.errors import ConfigError
from firn.tables.batch_facts import TableFacts
from firn.tables.routing import mirrors_on, route, targets_of
from firn_sql.check import check
from firn_sql.configured import check_pipelines


def stream(tables: str) -> StreamConfig:
    config = parse(f"streams:\n  web:\n    tables:\n{tables}\n")
    check_pipelines(config)
    return config.streams["web"]


def problem(tables: str) -> str:
    with pytest.raises(ConfigError) as raised:
        stream(tables)
    return str(raised.value)


def test_one_source_table_feeds_several_append_tables() -> None:
    found = stream("      clicks: {to: [web.clicks, raw.clicks, 'b.x\"y'], mode: append, partition_by: [day(at)]}")
    assert [str(one) for one in targets_of(found, "clicks")] == ["web.clicks", "raw.clicks", 'b.x"y']
    assert {str(one.name) for one in route(found, {"clicks": TableFacts()}).targets} == {
        "web.clicks", "raw.clicks", 'b.x"y'
    }  # fmt: skip
    for one in found.pipelines:
        checked = check(one.sql)
        assert (checked.source, checked.target) == ("clicks", tuple(one.name.split(".")))
        assert one.rule is not None
        assert (one.rule.mode, one.rule.partition_by) == ("append", found.tables[0].partition_by)


def test_further_mirrors_rest_on_the_first() -> None:
    found = stream("      app.orders: {to: [shop.orders, 'copy.{table}'], key: [id], write: copy-on-write}")
    (pipeline, base, target) = next(mirrors_on(found))
    assert (str(base), str(target)) == ("shop.orders", "copy.orders")
    assert pipeline.rule is not None
    assert (pipeline.rule.key, pipeline.rule.write) == (("id",), "copy-on-write")


def test_a_list_of_one_is_one() -> None:
    found = stream("      'app.*': {to: ['shop.{table}']}")
    assert (found.tables[0].to, found.pipelines) == ("shop.{table}", ())


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ("      a: {to: [w.a, w.a]}", "firn.yaml:4: streams.web.tables.a.to: names 'w.a' twice; write each table once"),
        ("      a: {to: []}", "tables.a.to: needs texts; write [web.a, web.a_2]"),
        ("      a: {to: [w.a, {x: 1}]}", "tables.a.to: needs texts"),
        ("      a: {to: [w.a, b]}", "tables.a.to: 'b' names no namespace; write namespace.table, web.a for example"),
        ("      a: {to: [w.a, w.b__deletes]}", "tables.a.to: 'w.b__deletes' can't be: "),
        (
            "      'a.*': {to: ['w.{table}', 'x.{table}']}",
            "to: is a list, and 'a.*' is a pattern; write a rule for each source table that has several",
        ),
        (
            "      a: {to: [w.a, w.b], key: [id]}\n      b: {to: w.b, key: [id]}",
            "firn.yaml:4: streams.web.tables.a.to: w.b is the mirror of line 5 already",
        ),
        (
            "      a: {to: [w.a, w.b], key: [id]}\n      b: {to: w.b, mode: append}",
            "firn.yaml:4: streams.web.tables.a.mode: w.b is mirror here and append on line 5; write one mode",
        ),
        (
            "      a: {to: [w.a, w.b], key: [id]}\n      b: {to: [w.c, w.b], key: [id]}",
            "firn.yaml:5: streams.web.tables.b.to: w.b is the mirror of line 4 already",
        ),
    ],
)
def test_what_can_not_be_is_refused(tables: str, told: str) -> None:
    assert told in problem(tables)


def test_a_pipeline_beside_the_list_may_not_take_its_mirror() -> None:
    more = "    pipelines:\n      p: {mode: mirror, sql: INSERT INTO w.b SELECT * FROM a}"
    assert "pipelines.p.sql: w.b is the mirror of line 4 already" in problem(
        f"      a: {{to: [w.a, w.b], key: [id]}}\n{more}"
    )
