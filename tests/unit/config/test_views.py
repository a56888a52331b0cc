"""`views:` of firn.yaml: what is read, where a view is at home, and what is refused."""

import time

import pytest

from firn.config.model import Config
from firn.config.names import TableName
from firn.config.reader import parse
from firn.errors import ConfigError

STREAMS = """
streams:
  web:
    tables:
      clicks: {to: web.clicks, mode: append}
      'app.*': {to: 'app.{table}'}
    pipelines:
      clean: {sql: INSERT INTO web.clean SELECT * FROM clicks}
  shop:
    tables:
      public.orders: {to: shop.orders, key: [id], care: {expire: {keep: 9d}}}
      'crm.*': {to: '{schema}.{table}'}
      crm.taken: {ignore: true}
care: {expire: {keep: 3d}}
views:
"""


def views(*lines: str) -> Config:
    return parse(STREAMS + "".join(f"  {line}\n" for line in lines))


def of(sql: str, name: str = "v.a") -> str:
    return f"{name}: {{sql: {sql!r}}}"


def problem(*lines: str) -> str:
    with pytest.raises(ConfigError) as raised:
        views(*lines)
    return str(raised.value)


def homes(config: Config) -> dict[str, list[str]]:
    return {name: [str(one.table) for one in stream.views] for name, stream in config.streams.items()}


def test_a_view_has_what_is_said_of_it() -> None:
    config = views(
        "v.a:",
        "  sql: |",
        "    SELECT day, count(*) AS n FROM shop.orders",
        "    GROUP BY day",
        "  every: 5m",
        "  refresh: full",
        "  partition_by: [month(day)]",
        "  write: copy-on-write",
        "  bloom: [day]",
        "  format: 3",
        "  care: {expire: {keep: 7d}}",
    )
    (view,) = config.streams["shop"].views
    assert (view.table, view.sources) == (TableName("v", "a"), (TableName("shop", "orders"),))
    assert (view.every, view.full, view.line, len(view.sha)) == (300, True, 17, 64)
    assert view.sql.startswith("SELECT day")
    rule = view.rule
    assert (rule.source, rule.to, rule.mode, rule.keyed, rule.write) == ("v.a", "v.a", "view", False, "copy-on-write")
    assert (rule.bloom, rule.writing.format, str(rule.partition_by[0])) == (("day",), 3, "month(day)")
    assert config.care_of(view.table).expiry.keep_seconds == 7 * 86_400
    assert rule in config.streams["shop"].targets


def test_what_is_not_said_is_each_cut_by_what_changed_and_the_care_of_all() -> None:
    (view,) = views(of("SELECT 1 AS a FROM shop.orders")).streams["shop"].views
    assert (view.every, view.full) == (0, False)
    assert view.rule.care.expiry.keep_seconds == 3 * 86_400


def test_a_file_without_views_has_none() -> None:
    assert homes(views()) == {"web": [], "shop": []}


@pytest.mark.parametrize(
    ("sql", "home"),
    [
        ("SELECT * FROM shop.orders", "shop"),
        ("SELECT * FROM shop.orders o JOIN web.clean c USING (id)", "web"),
        ("SELECT * FROM web.clicks", "web"),
        ("SELECT * FROM app.anything", "web"),
        ("SELECT * FROM crm.customers", "shop"),
    ],
)
def test_home_is_the_first_stream_that_may_feed_what_it_reads(sql: str, home: str) -> None:
    found = homes(views(of(sql)))
    assert found == {name: ["v.a"] if name == home else [] for name in found}


def test_views_come_after_those_that_they_read() -> None:
    found = homes(
        views(
            of("SELECT * FROM v.b JOIN v.c USING (id)", "v.a"),
            of("SELECT * FROM v.d", "v.b"),
            of("SELECT * FROM shop.orders", "v.c"),
            of("SELECT * FROM v.c JOIN web.clicks USING (id)", "v.d"),
        )
    )
    assert found == {"web": ["v.c", "v.d", "v.b", "v.a"], "shop": []}


@pytest.mark.parametrize(
    ("sql", "sources"),
    [
        ("SELECT * FROM shop.orders, shop.orders o2", ["shop.orders"]),
        ("WITH x AS (SELECT * FROM web.clean) SELECT * FROM X, shop.orders", ["web.clean", "shop.orders"]),
        ('SELECT * FROM "shop"."orders" -- FROM shop.nothing', ["shop.orders"]),
        ("SELECT 'FROM x.y' AS a /* FROM x.y */ FROM shop.orders;", ["shop.orders"]),
        ('SELECT * FROM app."größe.ß 1"', ["app.größe.ß 1"]),
        ("SELECT * FROM app.Größe", ["app.Größe"]),
        ("SELECT extract(year FROM at) AS y FROM shop.orders WHERE a IS DISTINCT FROM b", ["shop.orders"]),
        ("SELECT * FROM (SELECT * FROM shop.orders) WHERE id IN (SELECT id FROM web.clean)", [
            "shop.orders", "web.clean"]),
    ],
)  # fmt: skip
def test_the_tables_are_those_of_from_and_join(sql: str, sources: list[str]) -> None:
    config = parse(STREAMS + "  v.a:\n    sql: |\n      " + sql)
    (view,) = (one for stream in config.streams.values() for one in stream.views)
    assert list(map(str, view.sources)) == sources


GOOD = "SELECT a FROM shop.orders"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("v.a: {}", "16: views.v.a.sql: is missing; write SELECT … FROM namespace.table"),
        ("v.a: {sql: [a]}", "views.v.a.sql: is a list; write SELECT … FROM namespace.table"),
        ("v.a: {sql: ''}", "views.v.a.sql: is empty"),
        (of("-- nothing"), "line 1, column 1: there is no SQL; write SELECT … FROM namespace.table"),
        (of("SELECT 1"), "line 1, column 1: nothing says which tables it reads"),
        (of(f"INSERT INTO v.b {GOOD}"), "line 1, column 1: a view is a table by its own name"),
        (of(f"CREATE TABLE x AS {GOOD}"), "a view can't begin with CREATE"),
        (of(f"{GOOD}; {GOOD}"), "column 28: a second statement begins here; write one statement, and a view for each"),
        (of("SELECT a FROM orders"), "column 15: 'orders' has no namespace; write namespace.table"),
        (of("SELECT a FROM x.shop.orders"), "column 15: 'x.shop.orders' has more than a namespace and a name"),
        (of("SELECT a FROM x.y.shop.orders"), "a source table's name has at most 3 parts"),
        (of('SELECT a FROM "shop.orders"'), "column 15: 'shop.orders' has no namespace"),
        (of('SELECT a FROM "a.b".c'), "column 15: the namespace 'a.b' holds a dot"),
        (of("SELECT a FROM shop.ordrs"), "no rule, pipeline or view makes the table 'shop.ordrs'; write shop.orders"),
        (of("SELECT a FROM Shop.Orders"), "makes the table 'Shop.Orders'; write shop.orders"),
        (of("SELECT a FROM zz.qqqq"), "write one that is there (shop.orders, v.a, web.clean), or a rule for it"),
        (of("SELECT a FROM shop.pblic"), "no rule, pipeline or view makes the table"),
        (of("SELECT a FROM app.x JOIN app.X ON 1 = 1"), "column 26: 'app.X' and 'app.x' are one name to SQL"),
        (of("SELECT a FROM v.a"), "v.a.sql: line 1, column 15: it reads itself; take this one out"),
        (of("SELECT $1 FROM shop.orders"), "$ is for parameters"),
        (of(GOOD, "a"), "16: views.a: names no namespace; write namespace.table, views.a for example"),
        (of(GOOD, "a.b.c"), "views.a.b.c: has more than one dot; write namespace.table, views.a_b_c for example"),
        (of(GOOD, "'v.{table}'"), "views.v.{table}: holds {, and a view is one table"),
        (of(GOOD, "'v.*'"), "views.v.*: holds *, and a view is one table"),
        (of(GOOD, "'.a'"), "views..a: .a is not a table name"),
        (of(GOOD, "v._firn_a"), "names that begin with _firn_ or end in __deletes"),
        (of(GOOD, "v.a__deletes"), "names that begin with _firn_ or end in __deletes"),
        (of(GOOD, f"v.{'x' * 256}"), "is too long: a table's name has at most 255 bytes"),
        (of(GOOD, f"v.{'ß' * 128}"), "is too long: a table's name has at most 255 bytes"),
        (of(GOOD, "shop.orders"), "is the target of streams.shop.tables.public.orders.to on line 11; call the view"),
        (of(GOOD, "shop.Orders"), "is but for its capitals the target of streams.shop.tables.public.orders.to"),
        (of(GOOD, "web.clean"), "is the target of streams.web.pipelines.clean.sql on line 8"),
        (of(GOOD, "app.a"), "may become a target of streams.web.tables.app.*.to on line 6 (to: 'app.{table}'); write a "
         "namespace that no pattern fills, such as views.a, or a rule app.a: {ignore: true} beside that one"),
        (of(GOOD, "crm.a"), "or a rule crm.a: {ignore: true} beside that one"),
        (of(GOOD)[:-1] + ", every: 5}", "v.a.every: '5' is not a duration; write 5s"),
        (of(GOOD + " WHERE a > now()"), "v.a.every: is missing, and the SQL asks for the time"),
        (of(GOOD + " WHERE a > today()")[:-1] + ", every: 0}", "v.a.every: is 0, and the SQL asks for the time"),
        (of(GOOD)[:-1] + ", every: 2d}", "v.a.every: '2d' is not from 1s to 24h"),
        (of(GOOD)[:-1] + ", refresh: fast}", "v.a.refresh: 'fast' is not a way to refresh; write incremental or full"),
        (of(GOOD)[:-1] + ", key: [a]}", "v.a.key: is not a setting: the rows of a view are told apart by"),
        (of(GOOD)[:-1] + ", mode: mirror}", "v.a.mode: is not a setting"),
        (of(GOOD)[:-1] + ", to: x.y}", "v.a.to: is not a setting: a view is the table by its own name"),
        (of(GOOD)[:-1] + ", evry: 5s}", "v.a.evry: is not a setting; write every"),
        (of(GOOD)[:-1] + ", bloom: key}", "v.a.bloom: key says nothing of a view"),
        (of(GOOD)[:-1] + ", care: {tier: {class: COLD}}}", "v.a.care.tier.class: "),
        ("v.a: 1", "views.v.a: is a text; write a mapping"),
        ("[v.a]", "views: is a list; write a mapping"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_what_to_write(line: str, told: str) -> None:
    assert told in problem(line)


def test_a_pattern_may_not_fill_a_view() -> None:
    told = problem(of(GOOD, "app.a"), of(GOOD, "v.b"))
    assert told.count("\n") == 0
    assert "may become a target of streams.web.tables.app.*.to on line 6" in told


def test_a_rule_that_leaves_a_source_table_out_leaves_its_name_to_a_view() -> None:
    assert homes(views(of(GOOD, "crm.taken")))["shop"] == ["crm.taken"]


NEEDED = """
streams:
  web:
    tables: {clicks: {to: web.clicks, mode: append}}
    pipelines: {clean: {sql: INSERT INTO web.clean SELECT * FROM clicks}}
  shop:
    tables:
      public.orders: {to: shop.orders, key: [id]}
      'crm.*': {to: '{schema}.{table}'}
      # more
views:
  v.a: {sql: SELECT a FROM shop.orders}
  v.b: {sql: SELECT a FROM web.clean JOIN crm.people USING (id)}
  v.c: {sql: SELECT a FROM v.a JOIN shop.orders USING (a)}
  v.d: {sql: SELECT a FROM web.clicks}
"""


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("      public.orders: {to: shop.orders, key: [id]}\n", "", ["v.a", "v.c"]),  # a rule
        ("{to: shop.orders", "{to: shop.bought", ["v.a", "v.c"]),  # its table has another name
        ("{to: shop.orders, key: [id]}", "{ignore: true}", ["v.a", "v.c"]),
        ("      # more", "      crm.people: {ignore: true}", ["v.b"]),  # of a pattern's
        ("      # more", "      crm.people: {to: crm.persons}", ["v.b"]),  # a rule of its own
        ("    pipelines: {clean: {sql: INSERT INTO web.clean SELECT * FROM clicks}}\n", "", ["v.b"]),
        (NEEDED[NEEDED.index("  web:") : NEEDED.index("  shop:")], "", ["v.b", "v.d"]),  # a stream
        ("  v.a: {sql: SELECT a FROM shop.orders}\n", "", ["v.c"]),  # a view
    ],
)
def test_what_a_view_needs_can_t_leave_before_it(before: str, after: str, told: list[str]) -> None:
    parse(NEEDED)
    assert before in NEEDED
    with pytest.raises(ConfigError) as raised:
        parse(NEEDED.replace(before, after))
    said = [line for line in str(raised.value).splitlines() if "no rule, pipeline or view makes the table" in line]
    assert [name for name in ("v.a", "v.b", "v.c", "v.d") if any(f"views.{name}.sql" in line for line in said)] == told


def test_two_views_do_not_differ_by_case_alone() -> None:
    assert "17: views.V.a: is but for its capitals the view of line 16" in problem(of(GOOD), of(GOOD, "V.a"))


def test_a_circle_is_told_whole_and_a_long_one_in_short() -> None:
    three = [of(f"SELECT a FROM v.{to}", f"v.{name}") for name, to in ("ab", "bc", "ca")]
    assert problem(*three).splitlines() == [
        "firn.yaml:18: views.v.c.sql: line 1, column 15: it reads itself: v.a -> v.b -> v.c -> v.a; take this one out "
        "of FROM, or write a third view that both read"
    ]
    many = [of(f"SELECT a FROM v.a{(i + 1) % 999}", f"v.a{i}") for i in range(999)]
    assert "v.a0 -> v.a1 -> v.a2 -> v.a3 -> (992 more) -> v.a996 -> v.a997 -> v.a998 -> v.a0;" in problem(*many)


def test_a_view_that_cannot_be_read_is_still_there_for_others() -> None:
    told = problem(of("SELECT a FROM v.b"), of("SELECT 1", "v.b"))
    assert told.count("\n") == 0
    assert "views.v.b.sql" in told


def test_views_are_bounded() -> None:
    assert "views: has 1,001 entries, and 1,000 are the most" in problem(*(of(GOOD, f"v.a{i}") for i in range(1001)))
    forty_one = ", ".join(f"app.t{i}" for i in range(41))
    assert "it reads 41 tables, and 40 are the most" in problem(of(f"SELECT a FROM {forty_one}"))
    assert "and 100,000 are the most" in problem(of(f"SELECT '{'x' * 100_000}' AS a FROM shop.orders"))


def test_a_thousand_views_in_a_chain_are_read_in_their_order() -> None:
    chain = [of(f"SELECT a FROM v.a{i + 1}" if i < 999 else GOOD, f"v.a{i}") for i in range(1000)]
    assert homes(views(*chain))["shop"] == [f"v.a{i}" for i in reversed(range(1000))]


def test_what_is_hostile_costs_little() -> None:
    started = time.process_time()
    many = [of(f"SELECT a FROM {', '.join(f'zz{i}.t{j}' for j in range(40))}", f"v.a{i}") for i in range(300)]
    rules = "".join(f"      x{i}.y: {{to: x.table_of_number_{i}}}\n" for i in range(3000))
    with pytest.raises(ConfigError, match="no rule, pipeline or view makes the table"):
        parse(STREAMS.replace("  shop:\n    tables:\n", f"  shop:\n    tables:\n{rules}") + "  " + "\n  ".join(many))
    assert time.process_time() - started < 20
