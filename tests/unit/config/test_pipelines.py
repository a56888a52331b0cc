"""`pipelines:` in firn.yaml: the two names that the SQL says, the rule of the target, and what ingest takes."""

import pytest

from firn.config.file_sinks import FileSink
from firn.config.model import StreamConfig
from firn.config.pipelines import Pipeline
from firn.config.reader import parse
from firn.config.sql_text import Names, SqlRefused, names
from firn.errors import ConfigError, EventError

TABLES = "{clicks: {to: web.clicks, key: [id]}, logs: {to: web.logs, mode: append}, public.orders: {to: shop.orders}}"


def stream(pipelines: str, tables: str = TABLES, more: str = "") -> StreamConfig:
    tables = f"    tables: {tables}\n" if tables else ""
    return parse(f"streams:\n  web:\n{more}{tables}    pipelines:\n{pipelines}\n").streams["web"]


def one(sql: str, more: str = "", tables: str = TABLES) -> Pipeline:
    (pipeline,) = stream(f"      p:\n        sql: {sql!r}\n{more}", tables).pipelines
    return pipeline


def problem(pipelines: str, tables: str = TABLES) -> str:
    with pytest.raises(ConfigError) as raised:
        stream(pipelines, tables)
    return str(raised.value)


@pytest.mark.parametrize(
    ("sql", "target", "source"),
    [
        ("INSERT INTO web.clean SELECT id FROM clicks WHERE id > 0", ("web", "clean"), "clicks"),
        ('insert into "Web"."cl""ean" select a from public.orders as o;', ("Web", 'cl"ean'), "public.orders"),
        ("SELECT * FROM clicks", None, "clicks"),
        ("-- FROM x\nSELECT /* FROM y */ 'FROM z', \"FROM\" FROM clicks -- FROM w", None, "clicks"),
        ("SELECT extract(year FROM at), trim(both 'x' FROM s), substring(s FROM 1 FOR 2) FROM clicks", None, "clicks"),
        ("SELECT a IS DISTINCT FROM b AS d FROM clicks WHERE a IS NOT DISTINCT FROM c", None, "clicks"),
        ("WITH w AS (SELECT * FROM clicks), v AS MATERIALIZED (SELECT * FROM w) SELECT * FROM V", None, "clicks"),
        ("WITH w AS NOT MATERIALIZED (SELECT * FROM clicks) SELECT [a, b], {'c': d} FROM w", None, "clicks"),
        ("SELECT * FROM (SELECT * FROM (SELECT a FROM a.b.c) AS x)", None, "a.b.c"),
        ("SELECT items[1], (a, b) FROM clicks", None, "clicks"),
        ('SELECT größe FROM "Bestell\'ungen"', None, "Bestell'ungen"),
        ("SELECT a FROM clicks\r\nWHERE b -- x\r\n;", None, "clicks"),
    ],
)
def test_the_names_are_found(sql: str, target: tuple[str, str] | None, source: str) -> None:
    assert names(sql) == Names(target, source)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT a\nFROM b,\n  c", "line 3, column 3: it reads b and c, and a pipeline reads one source table"),
        ("SELECT a FROM b JOIN c ON true", "line 1, column 22: 'c' is no table that a pipeline joins; write JOIN name"),
        ("WITH w AS (SELECT a FROM b) SELECT a FROM b JOIN w ON true", "'w' is no table that a pipeline joins"),
        ("SELECT a FROM b JOIN (SELECT a FROM c.d) d ON true", "it reads b and c.d"),
        ("SELECT 1", "line 1, column 1: nothing says which source table it reads"),
        ("FROM b", "a pipeline can't begin with FROM"),
        ("INSERT INTO b SELECT a FROM c", "line 1, column 13: 'b' names no table with its namespace"),
        ("INSERT INTO a.b (c) SELECT c FROM d", "line 1, column 17: a list of columns is not read here"),
        ("SELECT a FROM b; SELECT a FROM c", "line 1, column 18: a second statement begins here"),
        ("SELECT 'a FROM b", "line 1, column 8: a text begins here and does not end"),
        ("SELECT a FROM a.b.c.d", "has at most 3 parts"),
        ('SELECT a FROM "a*"', "is no source table"),
        ("SELECT a FROM b -- " + "x" * 100_000, "100,000 are the most"),
        ("SELECT " + "a," * 15_000 + "a FROM b", "more than 20,000 words and marks"),
        ("SELECT '" + "''" * 40_000 + " FROM b", "a text begins here and does not end"),
    ],
)
def test_what_names_no_pair_of_tables_is_refused(sql: str, told: str) -> None:
    with pytest.raises(SqlRefused) as raised:
        names(sql)
    assert told in str(raised.value)


JOINS = "SELECT k.a, c.b FROM clicks k {} shop.customers c ON k.a = c.id"
CUSTOMERS = "{clicks: {to: web.clicks, mode: append}, customers: {to: shop.customers, key: [id]}}"


def test_the_tables_that_it_joins_are_found_each_once() -> None:
    sql = 'SELECT 1 FROM clicks k JOIN s.a ON k.x = a.x LEFT JOIN "s"."b.c" ON true JOIN s.a d ON d.x = k.x'
    assert names(sql) == Names(None, "clicks", (("s", "a"), ("s", "b.c")))
    made = one(f"INSERT INTO web.p {JOINS.format('LEFT JOIN')}", tables=CUSTOMERS)
    assert [str(table) for table in made.joins] == ["shop.customers"]


@pytest.mark.parametrize(
    ("pipeline", "tables", "told"),
    [
        ("", TABLES, "p.sql: joins shop.customers, which no rule, pipeline or view makes; write a mirror or a view of"),
        ("", "{a: {to: shop.customers, mode: append}}", "p.sql: joins shop.customers, which is mode: append"),
        (
            "mode: mirror, ",
            CUSTOMERS.replace("mode: append", "key: [a]"),
            "p.sql: joins shop.customers, and only mode: append",
        ),
        ("files: {to: 's3://b/c'}, ", CUSTOMERS, "or a view (views:), which stays right when the table changes"),
    ],
)
def test_a_join_is_with_a_table_that_is_kept_by_key_and_into_an_append_table(
    pipeline: str, tables: str, told: str
) -> None:
    into = "" if "files" in pipeline else "INSERT INTO web.p "
    assert told in problem(f"      p: {{{pipeline}sql: {into + JOINS.format('JOIN')!r}}}", tables)


def test_a_view_and_a_table_of_another_stream_are_joined_too() -> None:
    text = "streams:\n  web: {tables: {clicks: {to: web.clicks}}, pipelines: {p: {sql: "
    view = "views: {shop.customers: {sql: SELECT id FROM shop.all}}\n"
    for rules, more in (("'*': {to: 'shop.{table}', key: [id]}", ""), ("all: {to: shop.all, key: [id]}", view)):
        parse(f"{text}{'INSERT INTO web.p ' + JOINS.format('JOIN')!r}}}}}}}\n  shop: {{tables: {{{rules}}}}}\n{more}")


def test_a_pipeline_has_the_rule_of_its_target() -> None:
    made = one(
        "INSERT INTO web.clean SELECT id, name FROM clicks",
        "        partition_by: [bucket(4, id)]\n        bloom: [name]\n        care: {expire: {keep: 7d}}\n",
    )
    assert made.rule is not None
    assert (made.source, str(made.target), made.rule.mode, made.is_mirror) == ("clicks", "web.clean", "append", False)
    assert (made.rule.source, made.rule.to, made.rule.bloom) == ("clicks", "web.clean", ("name",))
    assert made.rule.care.expiry.keep_seconds == 7 * 86_400
    assert made.line == 6


def test_a_mirror_has_the_key_of_its_base_unless_it_says_its_own() -> None:
    sql = "INSERT INTO web.m SELECT id AS k FROM clicks"
    keys = [one(sql, f"        mode: mirror\n{key}").rule for key in ("", "        key: [k]\n")]
    assert [rule.key for rule in keys if rule] == [("id",), ("k",)]


def test_its_version_is_the_hash_of_its_sql() -> None:
    first, other = (one(f"INSERT INTO web.clean SELECT {what} FROM clicks") for what in ("a", "b"))
    assert first.sha != other.sha
    assert first.sha == one("INSERT INTO web.clean SELECT a FROM clicks", "        bloom: [a]\n").sha


def test_files_are_a_target_too() -> None:
    made = one("SELECT * FROM clicks", "        files: {to: 's3://archive/clicks/', format: json, compression: gzip}\n")
    assert made.files is not None
    assert (made.rule, made.target, made.files.to) == (None, None, "s3://archive/clicks")
    assert isinstance(made.files, FileSink)


def test_a_source_is_called_as_the_rules_call_it() -> None:
    assert one("INSERT INTO web.o SELECT * FROM orders").source == "public.orders"
    assert (
        one("INSERT INTO web.o SELECT * FROM orders", tables="{'public.*': {to: 'web.{table}'}}").source
        == "public.orders"
    )
    assert one("INSERT INTO web.o SELECT * FROM orders", tables="{'*': {to: 'web.{table}'}}").source == "orders"


def test_a_source_that_only_pipelines_read_is_wanted() -> None:
    made = stream("      p: {sql: INSERT INTO web.p SELECT * FROM crm.calls}", more="    envelope: debezium\n")
    assert [made.wants(table) for table in ("crm.calls", "calls", "clicks", "crm.other")] == [True, True, True, False]
    assert made.rule_for("crm.calls") is None
    assert [one.name for one in made.pipelines_of("calls")] == ["p"]


def test_a_bare_name_that_fits_two_sources_is_not_guessed() -> None:
    sql = "      {0}: {{sql: INSERT INTO web.{0} SELECT * FROM {0}.calls}}"
    made = stream("\n".join(sql.format(name) for name in ("a", "b")))
    with pytest.raises(EventError, match=r"fits a\.calls, b\.calls"):
        made.wants("calls")


def test_a_stream_may_have_pipelines_alone() -> None:
    made = stream("      p: {sql: INSERT INTO web.p SELECT * FROM calls}", tables="")
    assert (made.tables, [rule.to for rule in made.targets]) == ((), ["web.p"])


def test_care_and_namespaces_count_the_targets_of_pipelines() -> None:
    text = "streams: {web: {pipelines: {p: {sql: INSERT INTO lake.p SELECT * FROM c, care: {expire: {keep: 9d}}}}}}"
    config = parse(text)
    (target,) = (one.target for one in config.streams["web"].pipelines)
    assert target is not None
    assert config.care_of(target).expiry.keep_seconds == 9 * 86_400
    assert (config.feeds_namespace("lake"), config.feeds_namespace("web")) == (True, False)


@pytest.mark.parametrize(
    ("pipelines", "told"),
    [
        ("      P: {sql: INSERT INTO a.b SELECT * FROM clicks}", "pipelines.P: is not a name of a pipeline"),
        ("      p: {mode: append}", "firn.yaml:5: streams.web.pipelines.p.sql: is missing; write sql: INSERT INTO"),
        ("      p: {sql: SELECT 1}", "pipelines.p.sql: line 1, column 1: nothing says which source table it reads"),
        ("      p: {sql: SELECT * FROM clicks}", "p.sql: names no target; write INSERT INTO namespace.table SELECT …"),
        (
            "      p: {sql: INSERT INTO a.b SELECT * FROM clicks, files: {to: 's3://a/b'}}",
            "p.files: is a second target",
        ),
        ("      p: {sql: SELECT * FROM clicks, mode: append, files: {to: 's3://a/b'}}", "p.mode: is for a table"),
        ("      p: {sql: INSERT INTO a.b SELECT * FROM clicks, mode: history}", "p.mode: 'history' is not there yet"),
        ("      p: {sql: INSERT INTO a.b SELECT * FROM clicks, to: a.b}", "p.to: is in the SQL"),
        ("      p: {sql: INSERT INTO a.b SELECT * FROM clicks, colums: {}}", "p.colums: is not a setting"),
        ("      p: {sql: INSERT INTO a.b__deletes SELECT * FROM clicks}", "'a.b__deletes' can't be: names that begin"),
        ("      p: {sql: 'INSERT INTO a.\"{table}\" SELECT * FROM clicks'}", "holds a placeholder"),
        ("      p: {sql: INSERT INTO a.b SELECT * FROM logs, mode: mirror}", "its own table web.logs is mode: append"),
        ("      p: {sql: INSERT INTO a.b SELECT * FROM calls, mode: mirror}", "no rule makes a table of it"),
        ("      p: {sql: INSERT INTO a.b SELECT * FROM clicks, mode: mirror, key: [a, b]}", "p.key: has 2 columns"),
        (
            "      p: {sql: INSERT INTO web.clicks SELECT * FROM clicks, mode: mirror}",
            "is the mirror of line 3 already",
        ),
        ("      p: {sql: INSERT INTO web.clicks SELECT * FROM clicks}", "is append here and mirror on line 3"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(pipelines: str, told: str) -> None:
    assert told in problem(pipelines)


def test_two_mirrors_never_share_a_table_and_appends_may() -> None:
    sql = "      {}: {{sql: INSERT INTO web.m SELECT id FROM clicks, mode: {}}}"
    told = problem("\n".join(sql.format(name, "mirror") for name in "ab"))
    assert "firn.yaml:6: streams.web.pipelines.b.sql: web.m is the mirror of line 5 already" in told
    assert len(stream("\n".join(sql.format(name, "append") for name in "ab")).pipelines) == 2
