"""`shard` of a rule in firn.yaml: what it makes of the rule, and what is refused with which words."""

import pytest

from firn.config.model import Config
from firn.config.names import TableName
from firn.config.reader import parse
from firn.config.schema_changes import check_schemas
from firn.config.whole_tables import whole_tables
from firn.errors import ConfigError

TEXT = """
streams:
  shop:
    tables:
      public.orders:
        to: '{shard}.orders'
        key: [id]
        columns: {tenant_id: string, n: long}
        shard: SHARD
"""
TENANTS = "{by: tenant(tenant_id), tenants: [acme, umbrella]}"
RULE = "streams.shop.tables.public.orders"


def read(shard: str = TENANTS, more: str = "") -> Config:
    return parse(TEXT.replace("SHARD", shard) + more)


def test_the_rest_leads_and_all_shards_are_targets() -> None:
    settings = read().streams["shop"]
    rule = settings.tables[0]
    assert rule.to == "rest.orders"
    assert rule.shard is not None
    assert rule.shard.map.of("acme") == "acme"
    assert rule.shard.map.of("other") == "rest"
    assert [one.to for one in settings.targets] == ["acme.orders", "umbrella.orders", "rest.orders"]
    assert read().care_of(TableName("acme", "orders")) == rule.care
    assert (settings.commit.caps.bytes, settings.commit.caps.events) == (8_000_000, 12_500)


@pytest.mark.parametrize(
    ("shard", "to", "shards"),
    [
        ("{by: hash(n), count: 3}", "rest.orders", ("s0", "s1", "s2", "rest")),
        ("{by: range(n), at: ['10', '20']}", "rest.orders", ("s0", "s1", "s2", "rest")),
        (
            "{by: geographic(tenant_id), to: {de: eu, fr: eu, us: us}, else: other}",
            "other.orders",
            ("eu", "us", "other"),
        ),
    ],
)
def test_each_way_is_read(shard: str, to: str, shards: tuple[str, ...]) -> None:
    rule = read(shard).streams["shop"].tables[0]
    assert rule.shard is not None
    assert (rule.to, rule.shard.shards) == (to, shards)
    assert rule.shard.map.shards == frozenset(shards)


@pytest.mark.parametrize(
    ("shard", "words"),
    [
        ("tenants", f"{RULE}.shard: says no way to shard; write shard: {{by: tenant"),
        ("{tenants: [acme]}", f"{RULE}.shard.by: is missing; write hash(column)"),
        ("{by: modulo(n)}", f"{RULE}.shard.by: 'modulo(n)' says no way to shard; write hash(column)"),
        ("{by: tenant(tenant_id)}", f"{RULE}.shard.tenants: is missing; write those"),
        ("{by: tenant(tenant_id), tenants: [a, a]}", "names 'a' twice; write each once"),
        ("{by: tenant(tenant_id), tenants: [Acme]}", "'Acme' is no name of a shard; write a-z"),
        (
            "{by: tenant(x), tenants: [a]}",
            f"{RULE}.shard.by: 'x' is no declared column; write its type, such as columns",
        ),
        ("{by: hash(n)}", "hash(n) needs more; write such as count: 8"),
        ("{by: hash(n), count: 100}", "'100' is not a whole number from 1 to 99; write 8"),
        ("{by: hash(n), count: 3, tenants: [a]}", "is a setting of tenant, not of hash; leave it out"),
        ("{by: range(n), at: ['20', '10']}", "`at` rises, and '10' stands behind '20'; write each bound once"),
        ("{by: range(n), at: ['10', '010']}", "'010' stands behind '10'"),
        ("{by: range(n), at: [x]}", "'x' is no long; write whole numbers"),
        (
            f"{TENANTS[:-1]}, warehouses: {{acne: eu}}}}",
            f"{RULE}.shard: warehouses: there is no shard 'acne'; there are",
        ),
        (f"{TENANTS[:-1]}, warehouses: {{acme: 's3://x'}}}}", "'s3://x' is no name of a warehouse; write a-z"),
        (f"{TENANTS[:-1]}, warehouses: [eu]}}", f"{RULE}.shard.warehouses: is no list of shards with their warehouses"),
        (f"{TENANTS[:-1]}, warehouses: {{acme: {{at: x}}}}}}", "write warehouses: {eu: frankfurt}"),
        (f"{TENANTS[:-1]}, warehouses: {{acme: a, acme: b}}}}", "twice"),
        ("{by: geographic(tenant_id), to: [de]}", "is no list of values with their shards; write to: {de: eu"),
        ("{by: tenant(tenant_id), tenants: [a], most: 0}", "'0' is not a whole number from 1 to 99; write 50"),
        ("{by: tenant(tenant_id), tenants: [a, b], most: 1}", "is less than the 2 tenants that are listed; write 2"),
        ("{by: hash(n), count: 3, most: 3}", "is a setting of tenant, not of hash; leave it out"),
        (
            "{by: hash(n), count: 3, lanes: 2}",
            f"{RULE}.shard.lanes: is a setting of the stream; write job: {{lanes: 2}}",
        ),
    ],
)
def test_what_is_wrong_says_what_to_write(shard: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(shard)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (one, "is not there yet for a table of several shards; leave it out, or leave shard out")
        for one in (
            *("partition_by: [tenant_id]", "write: copy-on-write", "update: patch", "renames: {tenant_id: t}"),
            *("format: 3", "properties: {a: b}", "metadata: [source]"),
        )
    ]
    + [("mode: append", "is of tables without shards: write mode: mirror, or leave shard out")],
)
def test_what_shards_can_not_do_yet_is_refused(line: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(more=f"        {line}\n")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("public.orders:", "'public.*':", "is of one table, and 'public.*' is a pattern"),
        ("key: [id]", "ignore: false", f"{RULE}.key: is missing"),
        ("to: '{shard}.orders'", "to: shop.orders", "write `to` with {shard} in it"),
        ("to: '{shard}.orders'", "to: ['{shard}.orders', shop.x]", "is a list, and a table of several shards"),
        ("tenant_id: string", "tenant_id: {type: string, default: acme}", "has a default, which is not there yet"),
        ("tenant_id: string", "tenant_id: double", "shard by a column of"),
    ],
)
def test_what_does_not_go_with_shards_is_refused(before: str, after: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(TEXT.replace("SHARD", TENANTS).replace(before, after))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("      public.x: {to: acme.orders}\n", "makes acme.orders a shard, and 'public.x' feeds it too"),
        (
            "      public.x: {to: '{shard}.orders', key: [id], columns: {t: string}, shard: {by: tenant(t), tenants: "
            "[acme], else: other}}\n",
            "makes acme.orders a shard, and 'public.x' feeds it too",
        ),
        ("      'acme.*': {to: '{schema}.{table}'}\n", "makes acme.orders a shard, and 'acme.*' feeds it too"),
        (
            "    pipelines:\n      p: {sql: 'INSERT INTO x.y SELECT * FROM public.orders'}\n",
            "streams.shop.pipelines.p.sql: reads 'public.orders', whose table has shards",
        ),
        ("views:\n  x.v: {sql: 'SELECT id FROM acme.orders'}\n", "views.x.v: reads acme.orders, which is a shard"),
        ("views:\n  x.v: {sql: 'SELECT id FROM rest.orders'}\n", "views.x.v: reads rest.orders, which is a shard"),
        (
            "      public.x: {to: shop.x}\n    pipelines:\n      p: {sql: 'INSERT INTO x.y SELECT x.id FROM public.x x "
            "JOIN rest.orders o ON o.id = x.id'}\n",
            "streams.shop.pipelines.p.sql: joins rest.orders, which is a shard",
        ),
    ],
)
def test_what_reads_or_fills_shards_is_refused(more: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(more=more)
    assert words in str(error.value)


def test_all_shards_are_read_under_a_name() -> None:
    assert [str(one) for one in (w.name for w in whole_tables(read()).values())] == ["shop.orders"]
    named = read("{by: tenant(tenant_id), tenants: [acme], whole: all.orders}")
    found = whole_tables(named)["all", "orders"]
    assert (str(found.rest), [str(one) for one in found.shards]) == ("rest.orders", ["acme.orders", "rest.orders"])
    check_schemas(named, read("{by: tenant(tenant_id), tenants: [acme]}"), "firn.yaml")


WHOLE = f"{RULE}.shard.whole: is shop.orders, "


@pytest.mark.parametrize(
    ("shard", "more", "words"),
    [
        (TENANTS, "      public.x: {to: shop.orders}\n", WHOLE + "a table that 'public.x' fills; write another"),
        (TENANTS, "      public.x: {to: SHOP.Orders}\n", WHOLE + "a table that 'public.x' fills; write another"),
        (TENANTS, "      '*': {to: 'shop.{table}'}\n", WHOLE + "a table that '*' fills; write another"),
        ("{by: tenant(tenant_id), tenants: [shop]}", "", WHOLE + "a table that 'public.orders' fills"),
        (
            TENANTS,
            "      public.x: {to: shop.x}\n    pipelines:\n      p: {sql: 'INSERT INTO shop.orders SELECT * FROM "
            "public.x'}\n",
            WHOLE + "a table that",
        ),
        (
            TENANTS,
            "      public.x: {to: a.x, key: [id]}\nviews:\n  shop.orders: {sql: 'SELECT id FROM a.x'}\n",
            WHOLE + "a table that",
        ),
        (
            TENANTS,
            "      public.x: {to: '{shard}.x', key: [id], columns: {t: string}, shard: {by: tenant(t), tenants: [a], "
            "whole: shop.orders}}\n",
            "streams.shop.tables.public.x.shard.whole: is shop.orders, what shop's 'public.orders' is read as too",
        ),
        ("{by: hash(n), count: 2, whole: orders}", "", f"{RULE}.shard.whole: 'orders' names no namespace"),
        ("{by: hash(n), count: 2, whole: a.b__deletes}", "", "is a name of Firn's own; write whole: namespace.table"),
        ("{by: hash(n), count: 2, whole: '{shard}.b'}", "", "holds a {; write whole: namespace.table"),
        ("{by: hash(n), count: 2, whole: [a.b]}", "", f"{RULE}.shard.whole: "),
    ],
)  # fmt: skip
def test_a_name_for_all_shards_is_nobody_elses(shard: str, more: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(shard, more)
    assert words in str(error.value)


def test_how_a_table_is_sharded_does_not_change_by_the_file() -> None:
    plain = TEXT.replace("'{shard}.orders'", "rest.orders").replace("        shard: SHARD\n", "")
    check_schemas(read(), read(), "firn.yaml")
    check_schemas(parse(plain), parse(plain), "firn.yaml")
    wider = TEXT.replace("n: long", "n: int")
    by_n = "{by: hash(n), count: 2}"
    check_schemas(read(), read(TENANTS.replace("}", ", most: 9}")), "firn.yaml")
    check_schemas(parse(wider.replace("SHARD", by_n)), read(by_n), "firn.yaml")
    for old, new in (
        (read(), parse(plain)), (parse(plain), read()), (read(by_n), parse(wider.replace("SHARD", by_n))),
        (read(), read("{by: tenant(tenant_id), tenants: [acme]}")),
        (read(), read("{by: tenant(tenant_id), tenants: [acme, umbrella], else: other}")),
        (read(), parse(plain.replace("rest.orders", "acme.orders"))),
        (parse(plain.replace("rest.orders", "acme.orders")), read()),
        (read(), parse(plain.replace("  shop:", "  other:"))),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=r"is sharded (does not change by firn.yaml|is not changed)"):
            check_schemas(old, new, "firn.yaml")


def test_the_memory_beside_the_rest_has_a_name_too() -> None:
    def named(count: int) -> Config:
        return parse(TEXT.replace("orders'", "o" * count + "'").replace("SHARD", TENANTS))

    assert len(named(246).streams["shop"].tables[0].to) == 251
    with pytest.raises(ConfigError, match="a table's name has at most 246 bytes"):
        named(247)


@pytest.mark.parametrize(
    ("to", "named"),
    [("shop.orders", "shop.orders"), ("'{schema}.{table}'", "{schema}.{table}"), ("shop.lines", ""), ("x.y", "")],
)
def test_tenants_that_appear_take_no_table_of_another_rule(to: str, named: str) -> None:
    more = f"      public.x: {{to: {to}}}\n" if "{" not in to else f"      'public.*': {{to: {to}}}\n"
    if not named:
        read("{by: tenant(tenant_id), most: 9}", more)
        return
    with pytest.raises(ConfigError) as error:
        read("{by: tenant(tenant_id), most: 9}", more)
    assert f"says `most`, and a tenant's table might be {named}, which is another rule's" in str(error.value)


@pytest.mark.parametrize(
    ("job", "name", "lanes"),
    [("{lanes: 2}", "shared", 2), ("{name: hot, lanes: 16}", "hot", 16), ("{name: hot}", "hot", 1), ("hot", "hot", 1)],
)
def test_the_jobs_of_a_stream_have_lanes(job: str, name: str, lanes: int) -> None:
    settings = parse(TEXT.replace("SHARD", TENANTS).replace("    tables:", f"    job: {job}\n    tables:", 1)).streams[
        "shop"
    ]
    assert (settings.job, settings.lanes) == (name, lanes)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("{lanes: 17}", "streams.shop.job.lanes: '17' is not a whole number from 1 to 16; write 1"),
        ("{lanes: 0}", "streams.shop.job.lanes: '0' is not a whole number"),
        ("{lanes: two}", "streams.shop.job.lanes: 'two' is not a whole number"),
        ("{lane: 2}", "streams.shop.job.lane: is not a setting; write lanes"),
        ("{name: [a]}", "streams.shop.job.name: is a list; write a name"),
        ("[hot]", "streams.shop.job: is a list; write a name"),
    ],
)
def test_lanes_that_are_none_are_refused(job: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(TEXT.replace("SHARD", TENANTS).replace("    tables:", f"    job: {job}\n    tables:", 1))
    assert words in str(error.value)


def test_lanes_need_a_table_of_several_shards() -> None:
    with pytest.raises(ConfigError, match=r"job\.lanes: is of streams that have a table of several shards"):
        parse("streams: {shop: {job: {lanes: 2}, tables: {a.b: {to: c.d, key: [id]}}}}")
    assert parse("streams: {shop: {job: {lanes: 1}, tables: {a.b: {to: c.d, key: [id]}}}}").streams["shop"].lanes == 1


def test_where_shards_lie_is_no_later_change_of_firn_yaml_but_of_tenants_that_come() -> None:
    tenants = "{by: tenant(tenant_id), tenants: [acme], most: 5, warehouses: {acme: eu}}"
    check_schemas(read(tenants), read(tenants.replace("acme: eu", "acme: eu, later: us")), "firn.yaml")
    for other in ("acme: us", ""):
        with pytest.raises(ConfigError, match="run firn shards split, merge or move rest"):
            check_schemas(read(tenants), read(tenants.replace("acme: eu", other)), "firn.yaml")
