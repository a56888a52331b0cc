"""A lake of which a reader may read a part, and its twin that holds nothing but that part.

What the reader is told of the whole lake has to be what anybody is told of the twin. All that is hidden holds a word
that no attack says: it may be in no answer, in no header and in no log line.
"""

import base64
import importlib.util
import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from firn.changes.decode.types import STRING
from firn.config.sharding import Sharding
from firn.function_context import Staging
from firn.log import cuts, named_cuts
from firn.log.backlog_gate import Gate
from firn.log.published_configs import CurrentConfig, publish
from firn.log.store import Store, open_store
from firn.settings import Settings
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.query_process import QueryProcess
from tests.sharded_lake import ShardedLake
from tests.unit.functions.conftest import FUNCTIONS

WORD: Final = "zqx"  # in each hidden text
NUMBER: Final = 918273645  # each hidden number
KEYS: Final = {name: f"{name}.{'k' * 30}{name}" for name in ("acme", "other", "gone")}
ALL: Final = "all-of-it-" + "k" * 20
SHARDS: Final = {"new": f"{WORD}a", "paid": f"{WORD}b"}
_BY: Final = f"{{by: geographic(status), to: {{new: {WORD}a, paid: {WORD}b}}, else: {WORD}rest}}"
SHARDED: Final = (
    "streams: {shop: {envelope: auto, tables: {public.orders: {to: '{shard}.orders', key: [id], "
    f"columns: {{status: string}}, shard: {_BY}}}}}}}}}\n"
)
STREAMS: Final = "streams: {shop: {envelope: auto, tables: {public.orders: {to: shop.orders, key: [id]}}}}\n"

_ORDERS: Final = pa.schema(
    [("id", pa.int64()), ("status", pa.string()), ("amount", pa.decimal128(9, 2)), ("number", pa.string())]
)
_SEEN: Final = [(1, "new", "1.50", "11"), (2, "paid", "2.50", "12"), (3, "it's", None, None)]


def _orders(rows: list[tuple[Any, ...]], tenant: int, *, whole: bool) -> pa.Table:
    from decimal import Decimal

    columns = list(zip(*rows, strict=True))
    columns[2] = tuple(None if one is None else Decimal(one) for one in columns[2])
    found = pa.table([pa.array(one, field.type) for one, field in zip(columns, _ORDERS, strict=True)], schema=_ORDERS)
    if not whole:
        return found
    count = len(rows)
    found = found.append_column("tenant_id", pa.array([tenant] * count, pa.int64()))
    found = found.append_column("card", pa.array([f"{WORD}-card-{n}" for n in range(count)]))
    return found.append_column("_firn_before", pa.array([f'{{"card": "{WORD}"}}'] * count))


def _commits(*, whole: bool) -> Iterator[pa.Table]:
    """Of shop.orders."""
    yield _orders(_SEEN, 7, whole=whole)
    if whole:
        theirs = [(NUMBER, f"{WORD}-status", "9.75", f"{WORD}-12"), (NUMBER + 1, f"{WORD}2", "0.00", "x")]
        yield _orders(theirs, 8, whole=True)
    yield _orders([(4, "late", "4.50", "14")], 7, whole=whole)


def _shards(place: Path, config: str) -> ShardedLake:
    """shop.orders as several tables, of which a job has brought one further and died."""
    rows = [one.to_pylist() for one in _commits(whole=True)]
    columns = next(iter(_commits(whole=True))).schema
    by = Sharding("geographic", "status", "{shard}.orders", values=SHARDS, rest=f"{WORD}rest", kind=STRING)
    found = ShardedLake(place, by, columns, config)
    for one in rows:
        found.commit(*one)
    theirs = dict.fromkeys(("number", "card", "_firn_before"), f"{WORD}3") | {"status": "new", "tenant_id": 8}
    found.commit(theirs | {"id": NUMBER + 2, "amount": None}, dies_after=1)
    return found


def _fill(catalog: Catalog, *, whole: bool, sharded: bool) -> None:
    """shop.orders in three snapshots, acme.notes, and in the whole lake all that is hidden."""
    for namespace in ("shop", "acme", *(("vault",) if whole else ())):
        catalog.create_namespace(namespace)
    if not sharded:
        first, *others = _commits(whole=whole)
        table = catalog.create_table("shop.orders", first.schema, properties={"firn.key": '["id"]'})
        for one in (first, *others):
            table.append(one)
    notes = pa.table({"id": [1, 2], "text": ["a", "b"]})
    catalog.create_table("acme.notes", notes.schema, properties={"firn.key": '["id"]'}).append(notes)
    if not whole:
        return
    hidden = pa.table({"id": [NUMBER], "secret": [f"{WORD}-secret"]})
    for name in ("vault.ledger", "shop.staff", "acme.notes__deletes", "shop.orders__deletes", "acme._firn_state"):
        catalog.create_table(name, hidden.schema, properties={"firn.source": f"{WORD}.source"}).append(hidden)


class Answered(NamedTuple):
    """All that came back."""

    status: int
    headers: dict[str, str]
    body: str
    log: str

    @property
    def told(self) -> Any:
        """The body's JSON."""
        return json.loads(self.body)

    @property
    def alike(self) -> str:
        """The answer without the ids and times of snapshots, which no two lakes share."""
        return f"{self.status} " + re.sub(r"\d{15,}|[0-9a-f]{8}_\d+|\d{4}-\d\d-\d\dT[\d:.]+Z?", "#", self.body)


class Lakes(NamedTuple):
    """The query function over the whole lake and over the twin, and what both are made of."""

    whole: ModuleType
    twin: ModuleType
    catalog: Catalog
    store: Store
    folder: Path

    def ask(self, path: str, body: Any = None, key: str | None = KEYS["acme"], **query: str) -> Answered:
        """What the reader is told."""
        return asked(self.whole, path, body, key, query)

    def ask_twin(self, path: str, body: Any = None, **query: str) -> Answered:
        """What anybody is told of the twin."""
        return asked(self.twin, path, body, None, query)

    def sql(self, sql: str, **more: Any) -> Answered:
        """A query of the reader's."""
        return self.ask("/v1/query", {"sql": sql, **more})


def readers_config(folder: Path, *, granted: bool = True, streams: str = STREAMS) -> str:
    """firn.yaml with acme, who reads a part, other, who reads another, and gone, unless it is taken back."""
    for name, key in {**KEYS, "all": ALL}.items():
        (folder / f"{name}.key").write_text(key)
    gone = f"    gone: {{auth: {{by: api_key, secret: 'file:{folder}/gone.key'}}, tables: ['acme.*']}}\n"
    return (
        f"query:\n  auth: {{by: api_key, secret: 'file:{folder}/all.key'}}\n  readers:\n"
        f"    acme:\n      auth: {{by: api_key, secret: 'file:{folder}/acme.key'}}\n"
        "      tables: ['acme.*', shop.orders]\n"
        "      columns: {shop.orders: [id, status, amount, number]}\n"
        "      rows: {shop.orders: 'tenant_id = 7'}\n"
        f"    other: {{auth: {{by: api_key, secret: 'file:{folder}/other.key'}}, tables: [vault.ledger]}}\n"
        f"{gone if granted else ''}{streams}"
    )


def loaded(process: QueryProcess, **settings: Any) -> ModuleType:
    """The query function, with a worker that is shared."""
    spec = importlib.util.spec_from_file_location("scoped_query_app", FUNCTIONS / "query" / "app.py")
    assert spec is not None
    assert spec.loader is not None
    app = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(app)
    store = open_store(settings["staging"])
    opened = Staging(Settings(**settings), store, CurrentConfig(store, seconds=0), Gate(store, seconds=0))
    app.staging = lambda: opened
    app.process.close()
    app.process = process
    return app


def made(process: QueryProcess, folder: Path, *, sharded: bool = False) -> Lakes:
    """Both lakes, below the folder. `sharded`: shop.orders of the whole lake is several tables, read as one."""
    found = {}
    for name in ("whole", "twin"):
        place = folder / name
        place.mkdir()
        store = open_store(f"file://{place}/staging")
        if sharded and name == "whole":
            catalog = _shards(place, readers_config(folder, streams=SHARDED)).catalog
        else:
            publish(store, readers_config(folder) if name == "whole" else STREAMS)
            catalog = open_catalog(f"sqlite:///{place}/catalog.db", f"file://{place}/warehouse", {})
        _fill(catalog, whole=name == "whole", sharded=sharded and name == "whole")
        settings = {"staging": f"file://{place}/staging", "warehouse": f"file://{place}/warehouse"}
        settings["catalog_uri"] = catalog.properties["uri"]
        app = loaded(process, open_reads=True, query_rows=2_000, **settings)
        found[name] = app, catalog, store
    app, catalog, store = found["whole"]
    cut = [f"{one}.orders" for one in (*SHARDS.values(), f"{WORD}rest")] if sharded else ["shop.orders"]
    _cut(store, catalog, "shop", 1, {one: catalog.load_table(one) for one in cut})
    _cut(store, catalog, "vaults", 5, {"vault.ledger": catalog.load_table("vault.ledger")})
    return Lakes(app, found["twin"][0], catalog, store, folder)


def _cut(store: Store, catalog: Catalog, stream: str, number: int, tables: dict[str, Table]) -> None:
    ids = {name: table.history()[0].snapshot_id for name, table in tables.items()}
    cut = cuts.make(stream, number, "2026-01-31T12:00:00.000Z", ids)
    cuts.write(store, cut)
    named_cuts.record(store, f"{stream}-end", cut, datetime.now(UTC))


def asked(app: ModuleType, path: str, body: Any, key: str | None, query: dict[str, str]) -> Answered:
    """One request, with all that came back of it."""
    written = io.StringIO()
    event = {
        "httpMethod": "GET" if body is None else "POST",
        "path": path,
        "headers": {"X-Api-Key": key} if key else {},
        "queryStringParameters": query or None,
        "body": None if body is None else json.dumps(body),
        "requestContext": {},
    }
    with patch.object(app.logger.registered_handler, "stream", written):
        app.logger.setLevel(logging.DEBUG)
        told = app.handler(event, None)
    text = told["body"]
    if told["isBase64Encoded"]:
        text = base64.b64decode(text).decode("latin-1")
    return Answered(told["statusCode"], told["headers"], text, written.getvalue())
