"""What a job may do in the two buckets, whatever its role may."""

import json
from dataclasses import replace
from datetime import timedelta
from fnmatch import fnmatchcase

import pytest

from firn.config.model import StreamConfig, TableRule
from firn.config.modes import VIEW
from firn.config.names import TableName
from firn.config.reader import parse
from firn.config.views import View
from firn.dispatch import scheduled_rounds
from firn.ingest.accept import accept
from firn.log import cuts, epochs, published_configs
from firn.runs.session_policy import LONGEST, policy
from firn.settings import Settings
from firn.views.view_sources import sources_of
from tests.soak import few_cases
from tests.unit.dispatch.jobs_list import NOW
from tests.unit.log.storage_faults import FaultyStore

STAGING, WAREHOUSE = "s3://acme-staging", "s3://acme-lake/warehouse"


def streams(text: str) -> list[StreamConfig]:
    return list(parse(f"streams: {text}").streams.values())


def allowed(text: str | None, key: str, bucket: str = "acme-staging", action: str = "s3:PutObject") -> bool:
    """As IAM decides, as far as these policies go: no Deny, and * and ? in ARNs."""
    return permits(text, action, f"arn:aws:s3:::{bucket}/{key}")


def permits(text: str | None, action: str, arn: str) -> bool:
    """The same of any resource."""
    assert text is not None

    def has(patterns: str | list[str], value: str) -> bool:
        return any(fnmatchcase(value, one) for one in ([patterns] if isinstance(patterns, str) else patterns))

    return any(
        (has(one["Action"], action) if "Action" in one else not has(one["NotAction"], action))
        and (has(one["Resource"], arn) if "Resource" in one else not has(one["NotResource"], arn))
        for one in json.loads(text)["Statement"]
    )


SHOP = "{shop: {tables: {public.orders: {to: shop.orders, key: [id]}}}}"


@pytest.mark.parametrize(
    "key",
    [
        "staged/shop/2026/03/01/12/shop.0.parquet", "epochs/shop/00000000000000000001.json", "dead/shop/2026/x.parquet",
        "cuts/shop/1.json", "quarantine/shop/epochs/1.json", "attempts/shop/1-1-1.started", "state/shop.json",
        "jobs/firn-shop-1-2-1.closed", "config/abc.yaml", "config/current.json", "code/firn.zip",
        "health/shop.json",
    ],
)  # fmt: skip
def test_a_job_may_touch_its_own_stream(key: str) -> None:
    text = policy(streams(SHOP), STAGING, WAREHOUSE)
    assert allowed(text, key)
    other = key.replace("shop", "other")
    assert allowed(text, other) == (other == key), other


def test_a_job_may_touch_its_own_tables_and_what_belongs_to_them() -> None:
    text = policy(streams(SHOP), STAGING, WAREHOUSE)
    for key in ("orders/data/x.parquet", "orders__deletes/metadata/v1.json", "orders__deletes_2_0a1b2c3d/data/x"):
        assert allowed(text, f"warehouse/shop/{key}", "acme-lake"), key
    for key in ("shop/orders_archive/data/x", "shop/customers/data/x", "bank/orders/data/x"):
        assert not allowed(text, f"warehouse/{key}", "acme-lake"), key
    assert not allowed(text, "elsewhere/shop/orders/data/x", "acme-lake")


def test_a_job_may_write_the_files_of_its_own_streams() -> None:
    sink = "{raw: {sql: SELECT * FROM t, files: {to: s3://acme-lake/files/%s}}}"
    text = policy(
        streams(f"{{shop: {{tables: {{t: {{to: shop.t}}}}, pipelines: {sink % 'shop'}}}}}"),
        STAGING,
        WAREHOUSE,
        files=["s3://acme-lake/before"],
    )
    for place in ("files/shop/dt=1/x.parquet", "before/x.parquet"):
        assert allowed(text, place, "acme-lake"), place
    assert not allowed(text, "files/bank/x.parquet", "acme-lake")
    assert allowed(text, "x", "a-bucket-that-the-role-decides-about")
    assert allowed(text, "sinks/shop/raw/1.plan")
    assert not allowed(text, "sinks/bank/raw/1.plan")


def test_a_sink_that_firn_yaml_no_longer_names_is_written_out_under_the_next_policy() -> None:
    store = FaultyStore()
    text = "streams: {web: {tables: {t: {to: web.t, mode: append}}%s}}"
    sink = ", pipelines: {raw: {sql: SELECT * FROM t, files: {to: s3://acme-lake/files/raw}}}"
    settings = Settings(staging=STAGING, warehouse=WAREHOUSE)
    for n, more in enumerate((sink, "", ""), 1):
        config = published_configs.publish(store, text % more)
        accept(store, config, "web", b'{"op":"c","after":{},"source":{"table":"t"}}', now=NOW + timedelta(seconds=n))
        found = epochs.candidates(store, "web", NOW + timedelta(minutes=n), above=0)
        assert epochs.seal(store, "web", found, now=NOW + timedelta(minutes=n), config=config.sha, nonce=f"{n}")
    cuts.write(store, cuts.make("web", 2, "2026-11-21T00:00:00.000Z", {}, files={"raw": 0}))
    found = scheduled_rounds.job_policy(settings, store, "web", 3, 1)
    assert allowed(found, "files/raw/x.parquet", "acme-lake")
    cuts.write(store, cuts.make("web", 3, "2026-11-21T00:00:00.000Z", {}))
    assert not allowed(scheduled_rounds.job_policy(settings, store, "web", 3, 1), "files/raw/x.parquet", "acme-lake")


def test_a_job_may_read_what_its_views_read_of_other_streams_and_nothing_else_of_these() -> None:
    text = """
    streams:
      shop: {job: shop, tables: {public.orders: {to: shop.orders, key: [id]}}}
      bank: {job: bank, tables: {public.accounts: {to: bank.accounts}, public.owners: {to: bank.owners}}}
    """
    orders, accounts, totals = map(TableName.parse, ("shop.orders", "bank.accounts", "v.totals"))
    view = View(totals, "SELECT 1", (orders, accounts), TableRule("v.totals", "v.totals", mode=VIEW))
    found = parse(text)
    shop = replace(found.streams["shop"], views=(view,))
    config = replace(found, streams={**found.streams, "shop": shop})
    views = sources_of(config, "shop")
    assert views is not None
    policed = policy([shop], STAGING, WAREHOUSE, catalog="glue://", views=[views])
    for key in ("views/shop/state.json", "cuts/bank/1.json", "cuts/shop/1.json"):
        assert allowed(policed, key), key
    for key in ("views/bank/state.json", "epochs/bank/1.json", "staged/bank/x.parquet"):
        assert not allowed(policed, key), key
    for key, may in (("v/totals", True), ("bank/accounts", True), ("bank/owners", False)):
        assert allowed(policed, f"warehouse/{key}/data/x.parquet", "acme-lake") is may, key
        arn = f"arn:aws:glue:us-east-1:123456789012:table/{key}"
        assert permits(policed, "glue:GetTable", arn) is may, key
    plain = policy([found.streams["shop"]], STAGING, WAREHOUSE)
    assert plain is not None
    assert "views" not in plain


def test_a_job_may_read_what_its_pipelines_join_of_other_streams() -> None:
    sql = "INSERT INTO web.rich SELECT k.id, a.name FROM clicks k JOIN bank.accounts a ON k.account = a.id"
    web, _ = streams(
        f"""{{web: {{pipelines: {{rich: {{sql: {sql!r}}}}}}},
        bank: {{tables: {{accounts: {{to: bank.accounts, key: [id]}}, owners: {{to: bank.owners}}}}}}}}"""
    )
    policed = policy([web], STAGING, WAREHOUSE, catalog="glue://")
    for key, may in (("web/rich", True), ("bank/accounts", True), ("bank/owners", False)):
        assert allowed(policed, f"warehouse/{key}/data/x.parquet", "acme-lake") is may, key
        assert permits(policed, "glue:GetTable", f"arn:aws:glue:us-east-1:123456789012:table/{key}") is may, key


def test_everything_else_is_left_to_the_role() -> None:
    text = policy(streams(SHOP), STAGING, WAREHOUSE)
    assert allowed(text, "orders/data/x", "an-adopted-tables-bucket")
    assert allowed(text, "x", action="glue:UpdateTable")


def in_glue(tables: str, place: str) -> bool:
    """Whether a job of that stream may change what lies there in Glue."""
    text = policy(streams(f"{{shop: {{tables: {tables}}}}}"), STAGING, WAREHOUSE, catalog="glue://")
    return permits(text, "glue:UpdateTable", f"arn:aws:glue:us-east-1:123456789012:{place}")


@pytest.mark.parametrize(
    ("tables", "may", "may_not"),
    [
        ("{public.orders: {to: shop.orders, key: [id]}}",
         ["catalog", "database/shop", "table/shop/orders", "table/shop/orders__deletes",
          "table/shop/orders__deletes_2_0a1b2c3d"],
         ["table/shop/orders_archive", "table/shop/customers", "database/bank", "table/bank/orders"]),
        ("{'*': {to: 'shop.{table}', key: [id]}}",
         ["catalog", "database/shop", "table/shop/anything"], ["database/bank", "table/bank/orders"]),
        ("{public.O: {to: shop.Mixed Case, key: [id]}}", ["table/shop/Mixed Case"], ["table/bank/orders"]),
        ("{public.O: {to: Shop-1.orders, key: [id]}}", ["database/Shop-1", "table/Shop-1/orders"], []),
        ("{'*.*': {to: '{schema}.{table}', key: [id]}}", ["database/bank", "table/bank/orders"], []),
    ],
)  # fmt: skip
def test_in_glue_a_job_may_touch_its_own_tables(tables: str, may: list[str], may_not: list[str]) -> None:
    assert [place for place in may if not in_glue(tables, place)] == []
    assert [place for place in may_not if in_glue(tables, place)] == []


def test_in_glue_a_job_may_not_touch_another_streams_tables() -> None:
    assert not in_glue("{public.orders: {to: shop.orders, key: [id]}}", "table/bank/accounts")


def test_another_catalog_leaves_glue_to_the_role() -> None:
    text = policy(streams(SHOP), STAGING, WAREHOUSE, catalog="https://catalog.example")
    assert permits(text, "glue:UpdateTable", "arn:aws:glue:us-east-1:123456789012:table/bank/orders")


def test_a_pattern_allows_its_namespace_or_all() -> None:
    text = policy(streams("{shop: {tables: {'*': {to: 'shop.{table}', key: [id]}}}}"), STAGING, WAREHOUSE)
    assert allowed(text, "warehouse/shop/anything/data/x", "acme-lake")
    assert not allowed(text, "warehouse/bank/anything/data/x", "acme-lake")
    text = policy(streams("{shop: {tables: {'*.*': {to: '{schema}.{table}', key: [id]}}}}"), STAGING, WAREHOUSE)
    assert allowed(text, "warehouse/bank/anything/data/x", "acme-lake")


def test_a_name_that_is_no_path_allows_its_namespace() -> None:
    text = policy(streams("{shop: {tables: {public.O: {to: shop.Mixed Case, key: [id]}}}}"), STAGING, WAREHOUSE)
    assert allowed(text, "warehouse/shop/mixed_case-68a1f14a24/data/x", "acme-lake")
    assert not allowed(text, "warehouse/bank/mixed_case-68a1f14a24/data/x", "acme-lake")


@few_cases(2)
@pytest.mark.parametrize("tables", [1, 5, 20, 300])
@pytest.mark.parametrize("count", [1, 3, 50])
@pytest.mark.parametrize("catalog", ["", "glue://"])
def test_a_policy_always_fits(tables: int, count: int, catalog: str) -> None:
    many = {
        f"stream{n}": {"tables": {f"public.t{n}_{t}": {"to": f"space{n}.table{n}_{t}"} for t in range(tables)}}
        for n in range(count)
    }
    text = policy(streams(json.dumps(many)), STAGING, WAREHOUSE, catalog=catalog)
    assert text is not None
    assert len(text) <= LONGEST
    last = f"arn:aws:glue:us-east-1:123456789012:table/space{count - 1}/table{count - 1}_{tables - 1}"
    assert permits(text, "glue:UpdateTable", last)
    assert allowed(text, "epochs/stream0/1.json")
    assert allowed(text, f"warehouse/space{count - 1}/table{count - 1}_{tables - 1}/data/x", "acme-lake")
    assert allowed(text, "epochs/other/1.json") == (count == 50), "only so many streams can be named one by one"


@pytest.mark.parametrize("warehouse", ["gs://acme-lake/w", "abfss://lake@acme.dfs.core.windows.net/w"])
def test_with_tables_in_another_cloud_the_log_is_as_narrow(warehouse: str) -> None:
    text = policy(streams(SHOP), "s3://acme-staging", warehouse)
    assert allowed(text, "epochs/shop/0.json")
    assert not allowed(text, "epochs/bank/0.json")
    assert "acme-lake" not in str(text)


def test_glue_asked_by_iceberg_s_rest_is_as_narrow_as_by_its_own() -> None:
    by_rest = policy(streams(SHOP), "s3://acme-staging", WAREHOUSE, catalog="https://glue.eu-x-1.amazonaws.com/iceberg")
    assert by_rest == policy(streams(SHOP), "s3://acme-staging", WAREHOUSE, catalog="glue://")
    other = policy(streams(SHOP), "s3://acme-staging", WAREHOUSE, catalog="https://glue.example.org/iceberg")
    assert other == policy(streams(SHOP), "s3://acme-staging", WAREHOUSE)


def test_files_have_no_policies() -> None:
    assert policy(streams(SHOP), "file:///staging", WAREHOUSE) is None


def test_a_jobs_policy_is_of_its_last_epochs_configuration_and_of_all_that_share_its_runs() -> None:
    store = FaultyStore()
    text = """
    streams:
      shop: {tables: {public.orders: {to: shop.orders, key: [id]}}}
      bank: {tables: {public.accounts: {to: bank.accounts, key: [id]}}}
      alone: {job: alone, tables: {public.things: {to: alone.things, key: [id]}}}
    """
    config = published_configs.publish(store, text)
    body = b'{"op":"c","after":{"id":1},"source":{"schema":"public","table":"orders","connector":"postgresql"}}'
    accept(store, config, "shop", body, now=NOW)
    found = epochs.candidates(store, "shop", NOW, above=0)
    assert epochs.seal(store, "shop", found, now=NOW, config=config.sha, nonce="n")
    published_configs.publish(store, "streams: {other: {tables: {t: {to: o.t}}}}")  # it names the tables no more
    settings = Settings(STAGING, warehouse=WAREHOUSE, emr_role="arn:aws:iam::123456789012:role/jobs")
    first, again = (scheduled_rounds.job_policy(settings, store, "shop", 1, attempt) for attempt in (1, 2))
    assert allowed(first, "warehouse/shop/orders/x", "acme-lake")
    assert allowed(first, "warehouse/bank/accounts/x", "acme-lake")
    assert not allowed(first, "warehouse/alone/things/x", "acme-lake")
    assert allowed(again, "warehouse/shop/orders/x", "acme-lake")
    assert not allowed(again, "warehouse/bank/accounts/x", "acme-lake"), "a job that is tried again serves no other"


SHARDED = """{shop: {tables: {public.orders: {
    to: TO, key: [id], columns: {w: string}, shard: {by: tenant(w), tenants: [a] MOST}}}}}"""


def test_a_job_may_touch_the_shards_that_maps_name_and_any_where_tenants_appear() -> None:
    fixed = streams(SHARDED.replace("TO", "'shop.orders_{shard}'").replace("MOST", ""))
    text = policy(fixed, STAGING, WAREHOUSE, shards=["shop.orders_b", "far.b"])
    assert allowed(text, "shards/shop/shop.orders_rest/2.json")
    assert not allowed(text, "shards/bank/x/2.json")
    for place, may in (("shop/orders_a", 1), ("shop/orders_b", 1), ("far/b", 1), ("shop/orders_c", 0), ("x/orders", 0)):
        assert allowed(text, f"warehouse/{place}/data/x", "acme-lake") == bool(may), place
    near = streams(SHARDED.replace("TO", "'shop.orders_{shard}'").replace("MOST", ", most: 9"))
    text = policy(near, STAGING, WAREHOUSE)
    assert allowed(text, "warehouse/shop/orders_c/data/x", "acme-lake")
    assert not allowed(text, "warehouse/x/orders/data/x", "acme-lake")
    everywhere = streams(SHARDED.replace("TO", "'{shard}.orders'").replace("MOST", ", most: 9"))
    assert allowed(policy(everywhere, STAGING, WAREHOUSE), "warehouse/x/orders/data/x", "acme-lake")


def test_only_jobs_of_streams_with_shards_have_objects_in_other_warehouses() -> None:
    beside = ["s3://acme-eu/lake", "s3://acme-us/*"]
    plain = policy(streams(SHOP), STAGING, WAREHOUSE, beside=beside)
    assert not allowed(plain, "lake/shop/orders/x", "acme-eu")
    fixed = streams(SHARDED.replace("TO", "'{shard}.orders'").replace("MOST", ""))
    text = policy(fixed, STAGING, WAREHOUSE, shards=["far.b"], beside=beside)
    for bucket, key, may in (
        ("acme-eu", "lake/a/orders/data/x", 1), ("acme-eu", "lake/far/b/data/x", 1), ("acme-eu", "lake/x/orders/y", 0),
        ("acme-eu", "other/a/orders/x", 0), ("acme-us", "ohio/a/orders/data/x", 1), ("acme-us", "x", 0),
        ("acme-lake", "warehouse/a/orders/data/x", 1), ("acme-lake", "warehouse/x/orders/data/x", 0),
    ):  # fmt: skip
        assert allowed(text, key, bucket) == bool(may), (bucket, key)
