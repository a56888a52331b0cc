"""Readers with scopes and what became of batches: of the tables that they may read whole rows of, by count; of others,
and of other tenants' rows, as of what there is not. Over HTTP, through the query function and its worker."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from firn.audit import table_receipts
from firn.ingest import accept
from firn.log import cuts, epochs, published_configs
from firn.log.store import Store, open_store
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.query_process import QueryProcess
from tests.attacks.scoped_lake_twins import Answered, asked, loaded

NOW = datetime.now(UTC)
SECRET = "zqx"  # in all that no reader here may hear of
STREAMS = """
streams:
  zqxstream:
    envelope: auto
    writers:
      ada: {auth: {by: api_key, secret: 'file:/nowhere/ada'}, tables: ['*']}
      zqxb: {auth: {by: api_key, secret: 'file:/nowhere/b'}, tables: ['*']}
    tables:
      zqx.orders: {to: shop.orders, key: [id], columns: {id: long, tenant: long}}
      zqx.staff: {to: vault.staff, key: [id], columns: {id: long}}
      zqx.sharded: {to: '{shard}.sharded', key: [id], columns: {id: long, w: string}, shard: {by: tenant(w), tenants: [a], whole: shop.sharded}}
    pipelines:
      seven: {sql: 'INSERT INTO shop.seven SELECT id FROM zqx.orders WHERE tenant = 7'}
"""  # noqa: E501
READERS = {
    "whole": "tables: [shop.orders, shop.sharded]",
    "ada": "tables: [shop.orders]\n      rows: {shop.orders: 'tenant = 7'}",
    "shard": "tables: [a.sharded, rest.sharded]",
    "other": "tables: [vault.staff]",
    "seven": "tables: [shop.seven]",
}


def event(table: str, id: Any, **values: Any) -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "zqx", "table": table, "ts_ms": 1_700_000_000_000}
    source |= {"sequence": json.dumps(["1", str(id)]), "lsn": 1}
    return {"op": "c", "before": None, "after": {"id": id} | values, "source": source, "ts_ms": 1}


@dataclass
class Ground:
    """`batches` by name."""

    app: Any
    store: Store
    batches: dict[str, str]

    def ask(self, reader: str, path: str, **query: str) -> Answered:
        """What a reader is told, which holds nothing that is hidden."""
        found = asked(self.app, f"/v1/tables/{path}", None, f"{reader}.{'k' * 30}", query)
        told = found.body
        for own in filter(None, (*self.batches.values(), *query.values())):  # a batch's id has the stream in it
            told = told.replace(own, "")
        if reader != "other":
            assert SECRET not in (told + found.log).lower()
        return found


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("batches")
    for name in READERS:
        (folder / f"{name}.key").write_text(f"{name}.{'k' * 30}")
    readers = "".join(
        f"    {name}:\n      auth: {{by: api_key, secret: 'file:{folder}/{name}.key'}}\n      {of}\n"
        for name, of in READERS.items()
    )
    store = open_store(f"file://{folder}/staging")
    config = published_configs.publish(store, f"query:\n  readers:\n{readers}{STREAMS}")
    catalog = open_catalog(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", {})
    _tables(catalog)
    process = QueryProcess()
    app = loaded(process, staging=f"file://{folder}/staging", warehouse=f"file://{folder}/warehouse",
                 catalog_uri=catalog.properties["uri"], open_reads=False)  # fmt: skip
    yield Ground(app, store, _batches(store, config))
    process.close()
    catalog.close()


def _tables(catalog: Any) -> None:
    import pyarrow as pa

    from firn.config.names import TableName
    from firn.tables.shard_cut import properties, summary
    from tests.sharded_ground import Sharding

    for name in ("shop.orders", "vault.staff", "shop.seven"):
        catalog.create_namespace_if_not_exists(name.split(".")[0])
        catalog.create_table(name, pa.schema([("id", pa.int64()), ("tenant", pa.int64())]))
    from firn.changes.decode.types import STRING
    from firn.config.model import TableRule

    shards = Sharding("tenant", "w", "{shard}.sharded", values={"a": "a"}, kind=STRING)
    rule = TableRule("zqx.sharded", "rest.sharded", ("id",), shard=shards)
    for name in ("a.sharded", "rest.sharded"):
        place = TableName.parse(name)
        catalog.create_namespace_if_not_exists(place.namespace)
        said = {"firn.key": '["id"]', **properties(place, rule)}
        made = catalog.create_table(name, pa.schema([("id", pa.int64()), ("w", pa.string())]), properties=said)
        if name.startswith("rest"):
            made.append(made.schema().as_arrow().empty_table(), summary({}))


def _batches(store: Store, config: Any) -> dict[str, str]:
    settings = config.streams["zqxstream"]

    def post(events: list[Any], writer: str | None = None) -> str:
        body = b"\n".join(json.dumps(one).encode() for one in events)
        of = settings.writers[writer] if writer else None
        return accept.accept(store, config, "zqxstream", body, now=datetime.now(UTC), writer=of).batch_id

    bad = {"op": "c", "source": {"connector": "postgresql", "schema": "zqx", "table": "orders"}, "after": "zqx"}
    found = {
        "orders": post([event("orders", 1, tenant=7), event("orders", 2, tenant=8), event("staff", 3), bad]),
        "staff": post([event("staff", 4)]),
        "ada": post([event("orders", 5, tenant=7), bad], "ada"),
        "other writer": post([event("orders", 6, tenant=8), bad], "zqxb"),
        "sharded": post([event("sharded", 7, w="a"), event("sharded", 8, w="zqx")]),
    }
    free = epochs.candidates(store, "zqxstream", datetime.now(UTC), above=0)
    epoch = epochs.seal(store, "zqxstream", free, now=datetime.now(UTC), config=config.sha, nonce="x")
    assert epoch is not None
    tables = {"shop.orders": 11, "vault.staff": 12, "rest.sharded": 13, "a.sharded": 14}
    at = "2026-11-21T00:00:00.000Z"
    assert cuts.write(store, cuts.make("zqxstream", 1, at, tables, progress=dict.fromkeys(tables, 1)))
    return found | {"not sealed": post([event("orders", 9, tenant=7)])}


def heard(answered: Answered) -> tuple[int, str, int | None, list[Any]]:
    told = answered.told
    return told["rows"], told["state"], told["snapshot"], [(one["reason"], one["letters"]) for one in told["dead"]]


def test_who_reads_all_rows_of_a_table_hears_of_its_changes_alone(ground: Ground) -> None:
    names = ground.batches
    first = ground.ask("whole", "shop.orders/batch", id=names["orders"])
    assert set(first.told) == {"table", "batch_id", "received_at", "rows", "state", "snapshot", "cut", "dead"}
    rows, state, snapshot, dead = heard(first)
    assert (rows, state, snapshot) == (2, "committed", 11)
    assert [n for _, n in dead] == [1]
    assert heard(ground.ask("whole", "shop.orders/batch", id=names["not sealed"])) == (1, "pending", None, [])
    assert heard(ground.ask("whole", "shop.sharded/batch", id=names["sharded"])) == (2, "committed", 13, [])
    assert heard(ground.ask("other", "vault.staff/batch", id=names["orders"])) == (1, "committed", 12, [])


@pytest.mark.parametrize(
    ("reader", "table", "batch"),
    [
        ("whole", "shop.orders", "staff"), ("whole", "shop.orders", "sharded"), ("whole", "shop.sharded", "orders"),
        ("other", "vault.staff", "ada"), ("ada", "shop.orders", "orders"), ("ada", "shop.orders", "other writer"),
        ("ada", "shop.orders", "not sealed"), ("shard", "a.sharded", "sharded"), ("shard", "rest.sharded", "sharded"),
        ("seven", "shop.seven", "orders"), ("seven", "shop.seven", "not sealed"),
    ],
)  # fmt: skip
def test_what_may_not_be_heard_of_is_told_as_what_there_is_not(
    ground: Ground, reader: str, table: str, batch: str
) -> None:
    id = ground.batches[batch]
    nothing = id[:-4] + ("0000" if id[-4:] != "0000" else "1111")
    found, other = (ground.ask(reader, f"{table}/batch", id=one) for one in (id, nothing))
    assert found.status == other.status == 404
    assert found.told["error"] == "unknown_batch"
    assert found.body.replace(id, "") == other.body.replace(nothing, "")


@pytest.mark.parametrize("table", ["vault.staff", "shop.staff", "a.sharded", "rest.sharded", "zqx.orders"])
@pytest.mark.parametrize("path", ["batch", "dead"])
def test_of_tables_out_of_the_scope_nothing_is_heard(ground: Ground, table: str, path: str) -> None:
    query = {"id": ground.batches["orders"]} if path == "batch" else {}
    found = asked(ground.app, f"/v1/tables/{table}/{path}", None, f"whole.{'k' * 30}", query)
    assert (found.status, found.told["error"]) == (404, "no_such_table")


def test_whose_rows_are_narrowed_hears_of_what_the_writer_of_its_name_sent(ground: Ground) -> None:
    rows, state, _, dead = heard(ground.ask("ada", "shop.orders/batch", id=ground.batches["ada"]))
    assert (rows, state, [n for _, n in dead]) == (1, "committed", [1])
    told = ground.ask("ada", "shop.orders/dead").told
    assert [one["letters"] for one in told["letters"]] == [1]


def test_dead_letters_are_counted_by_day_and_reason_without_text(ground: Ground) -> None:
    told = ground.ask("whole", "shop.orders/dead").told
    assert [set(one) for one in told["letters"]] == [{"day", "reason", "letters"}]
    assert (told["letters"][0]["letters"], told["partial"], told["next"]) == (3, False, None)
    assert ground.ask("whole", "shop.orders/dead", day="2020-01-01").told["letters"] == []
    assert ground.ask("whole", "shop.sharded/dead").told["letters"] == []
    assert ground.ask("shard", "a.sharded/dead").told["letters"] == []
    assert ground.ask("seven", "shop.seven/dead").told["letters"] == [], "the SQL left out whose events they are"
    assert ground.ask("other", "vault.staff/dead").told["letters"] == []


def test_of_what_has_expired_nobody_says_that_it_was_refused(tmp_path: Path) -> None:
    """Its letters are kept longer than the rest, and would stand for all of it."""
    store = open_store(f"file://{tmp_path}/staging")
    batches = _batches(store, published_configs.publish(store, f"query: {{}}\n{STREAMS}"))
    config = published_configs.current(store)
    known = table_receipts.receipt_of(store, config, "shop.orders", batches["orders"], None)
    assert known is not None
    assert (known.state, known.rows, len(known.dead)) == ("committed", 2, 1)
    for path in (tmp_path / "staging/staged").rglob(f"*{batches['orders']}*"):
        path.unlink()
    assert table_receipts.receipt_of(store, config, "shop.orders", batches["orders"], None) is None


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("batch", {}), ("batch", {"id": "x", "more": "1"}), ("dead", {"day": "yesterday"}), ("dead", {"cursor": "1"}),
        ("dead", {"day": "2026-13-01"}),
    ],
)  # fmt: skip
def test_what_can_not_be_read_is_refused(ground: Ground, path: str, query: dict[str, str]) -> None:
    assert ground.ask("whole", f"shop.orders/{path}", **query).status == 400


@pytest.mark.parametrize("id", ["", "x", "../config/x", "zqxstream.0", "shop.orders", "\0", "a" * 5_000, "no.20261121"])
def test_what_is_no_batch_is_unknown(ground: Ground, id: str) -> None:
    assert ground.ask("whole", "shop.orders/batch", id=id).status == 404


def test_the_oldest_and_newest_days_there_are_end_well(ground: Ground) -> None:
    for day in ("0001-01-01", "9999-12-31"):
        assert ground.ask("whole", "shop.orders/dead", day=day).status == 200


def test_a_day_with_too_many_objects_is_told_in_part_and_stands_alone(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = published_configs.current(ground.store)
    monkeypatch.setattr(table_receipts, "MOST_OBJECTS", 2)
    found = table_receipts.letters_of(ground.store, config, "shop.orders", None, datetime.now(UTC))
    assert (sum(one.letters for one in found.letters), found.partial) == (2, True)


def test_who_reads_nothing_is_nobody(ground: Ground) -> None:
    for key in (None, "nobody.k", "whole.x"):
        found = asked(ground.app, "/v1/tables/shop.orders/dead", None, key, {})
        assert found.status == 401
