"""Streams whose writers are bound to a tenant, and what somebody could post to write another's rows."""

import io
import json
import random
from collections.abc import Iterator
from typing import Any, Final

import pyarrow.parquet as pq

from firn.config.model import Config
from firn.config.reader import parse
from firn.log.batches import read_meta
from firn.log.store import Store, get, paths
from tests.emitter_events import WRITERS

MINE, OTHERS = 7, 8
STREAM: Final = "shop"
ROW: Final = {"tenant_id": MINE, "id": 1, "v": "a"}
STRANGE: Final[tuple[str, ...]] = (  # what stands in the place of the tenant, as JSON
    "8", '"7"', '"8"', "7.0000000000000001", "-7", "70", "0.7", "7e1", "null", "true", "[7]", '{"id": 7}', '""', '" 7"',
    '"\uff17"', "1e400", '"\\u0037"', '{"value": 7}', '{"tenant_id": 7}', "77777777777777777777777",
    '"\\u0000steps:7"', '"__debezium_unavailable_value"',
)  # fmt: skip
NAMES: Final[tuple[str, ...]] = (  # members that are not the column, whatever they look like
    "TENANT_ID", "Tenant_id", "tenant-id", "tenant_id ", " tenant_id", "tenant.id", "tenant_\u0131d", "\uff54enant_id",
    "tenant_id\u200b", "tenantid", "$.tenant_id", "__tenant_id", "after.tenant_id",
)  # fmt: skip


def config(
    auth: str, envelope: str = "auto", more: str = "", rule: str = "", scope: str = "rows: 'tenant_id = 7'"
) -> Config:
    """A stream with the writers acme (of tenant 7) and other (of tenant 8)."""
    rule = rule or "key: [tenant_id, id]"
    return parse(f"""
streams:
  {STREAM}:
    envelope: {envelope}
    writers:
      acme: {{auth: {auth}, {scope}{more}}}
      other: {{auth: {{queue: [AROAOTHEROTHEROTHER00]}}, rows: 'tenant_id = 8'}}
    tables: {{'*': {{to: 'shop.{{table}}', {rule}}}}}
""")


def debezium(n: int, op: str, before: str | None, after: str | None, key: str | None = None) -> bytes:
    """An event whose images are these texts."""
    source = json.dumps(
        {"connector": "postgresql", "schema": "public", "table": "orders", "sequence": f'["{n}","{n}"]'}
    )
    payload = f'{{"op":"{op}","before":{before or "null"},"after":{after or "null"},"source":{source}}}'
    return payload.encode() if key is None else f'{{"key":{key},"value":{payload}}}'.encode()


def image(tenant: str | None = "7", identity: int = 1, **more: str) -> str:
    """A row as JSON; `tenant`: the column's JSON, None: without it."""
    told = {"tenant_id": tenant} if tenant is not None else {}
    return (
        "{"
        + ",".join(f"{json.dumps(name)}:{value}" for name, value in {**told, "id": str(identity), **more}.items())
        + "}"
    )


def trees(dice: random.Random) -> Iterator[tuple[str, bytes]]:
    """Requests of which some event is not within tenant 7."""
    good, n = debezium(1, "c", None, image()), 10
    for strange in STRANGE:
        n += 10
        bad = image(strange)
        yield f"after {strange}", debezium(n, "c", None, bad)
        yield f"moved to {strange}", debezium(n + 1, "u", image(), bad)
        yield f"taken from {strange}", debezium(n + 2, "u", bad, image())
        yield f"deleted {strange}", debezium(n + 3, "d", bad, None)
        yield f"among good ones {strange}", b"[" + b",".join([good, debezium(n + 4, "r", None, bad), good]) + b"]"
        twice = f'{{"tenant_id":7,"id":1,"tenant_id":{strange}}}'
        yield f"twice {strange}", debezium(n + 5, "c", None, twice)
    for name in NAMES:
        n += 10
        yield f"named {name}", debezium(n, "c", None, image(None, **{name: "7"}))
        yield f"deleted, named {name}", debezium(n + 1, "d", image(None, **{name: "7"}), None)
    yield "nested", debezium(n + 20, "c", None, image(None, row='{"tenant_id":7}'))
    yield "without it", debezium(n + 21, "u", image(), image(None))
    yield "a key alone without it", debezium(n + 22, "d", '{"id":1}', None)
    yield "a truncate", debezium(n + 23, "t", None, None)
    yield "a truncate with a row", debezium(n + 24, "t", image(), image())
    for _ in range(20):
        events = [
            good,
            *(debezium(n + 30 + k, dice.choice("cur"), image(), image(dice.choice(STRANGE))) for k in range(3)),
            good,
        ]
        dice.shuffle(events)
        yield "a mixture", b"\n".join(events)


def plain(dice: random.Random) -> Iterator[tuple[str, bytes]]:
    """The same as plain rows, deletes among them."""
    for strange in STRANGE:
        yield f"row {strange}", image(strange).encode()
        yield f"delete {strange}", image(strange, op='"d"').encode()
        yield f"second {strange}", f"[{image()},{image(strange, 2)}]".encode()
    for name in NAMES:
        yield f"named {name}", image(None, **{name: "7"}).encode()


def emitted(envelope: str) -> Iterator[tuple[str, Any]]:
    """What an emitter sends of rows of tenant 8, or that go there or come from there."""
    mine, others = ROW, ROW | {"tenant_id": OTHERS}
    pairs = {
        "c": [(None, others)], "r": [(None, others)], "d": [(others, None)], "t": [(None, None)],
        "u": [(others, others), (mine, others), (others, mine)],
    }  # fmt: skip
    for writer in WRITERS[envelope]:
        n = 100
        for op, images in pairs.items():
            for before, after in images:
                n += 1
                if (event := writer(n, op, "orders", before, after)) is not None:
                    yield f"{envelope} {op} {before} {after}", event


def staged(store: Store) -> list[dict[str, Any]]:
    """The rows of all staged batches."""
    found = []
    for path in paths(store, f"staged/{STREAM}"):
        assert read_meta(store, path) is not None
        found += pq.read_table(io.BytesIO(get(store, path) or b"")).to_pylist()
    return found


def strays(store: Store) -> list[dict[str, Any]]:
    """Staged rows with an image of another tenant's, or that name none."""

    def stray(row: dict[str, Any]) -> bool:
        images = [json.loads(row[name]) for name in ("key", "before", "after") if row.get(name) is not None]
        told = [one["tenant_id"] for one in images if "tenant_id" in one]
        return not told or any(float(one) != MINE if isinstance(one, int | float) else one != str(MINE) for one in told)

    return [row for row in staged(store) if stray(row)]
