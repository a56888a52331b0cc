"""A writer's row says one tenant in JSON, and would be stored as another's."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from firn.changes.writer_bounds import misread, outside
from firn.commit import job
from firn.config.condition_text import parse as parse_condition
from firn.config.names import TableName
from firn.config.reader import parse
from firn.errors import RequestError
from firn.ingest.accept import accept
from firn.log import cuts, epochs, published_configs
from tests.attacks.writers import config, debezium, image
from tests.model.memory_ground import MemoryGround

ORDERS: Final = TableName("shop", "orders")
LONG, TEXT = {"type": "int64"}, {"type": "string"}
UNSIGNED = LONG | {"parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}}


def now() -> datetime:
    return datetime.now(UTC)


class Shop:
    """A stream of two tenants with its table."""

    def __init__(self, mine: str, theirs: str) -> None:
        text = config("{queue: [AROAACMEACMEACMEACME0]}", scope=f'rows: "tenant_id = {mine}"').text
        made = parse(text.replace("'tenant_id = 8'", f'"tenant_id = {theirs}"'))
        self._ground, self._at = MemoryGround(), now()
        self._config = published_configs.publish(self._ground.store, made.text)

    def take(self, writer: str, body: bytes) -> str:
        """What the writer is told, after it is committed."""
        self._at += timedelta(seconds=1)
        store, known = self._ground.store, self._config
        try:
            accept(store, known, "shop", body, now=self._at, writer=known.streams["shop"].writers[writer])
        except RequestError as error:
            return error.code
        found = epochs.candidates(store, "shop", self._at, above=cuts.newest(store, "shop"))
        epochs.seal(store, "shop", found, now=self._at, config=known.sha, nonce=f"{found.next_n:032x}")
        n = found.next_n
        assert job.run(store, self._ground.lake, "shop", n, n, log=str, now=now, attempt=1) == 0
        return ""

    def tenants(self) -> list[tuple[Any, str]]:
        rows = self._ground.rows(ORDERS) if ORDERS in self._ground.catalog.tables else []
        return sorted((row["tenant_id"], row["v"]) for row in rows)


def with_schema(n: int, tenant: str, kind: Mapping[str, Any], op: str = "c") -> bytes:
    """Debezium's event with its inline schema, in which the tenant is of that type."""
    fields = [
        {"field": name, "optional": True, **one} for name, one in {"tenant_id": kind, "id": LONG, "v": TEXT}.items()
    ]
    row = [{"type": "struct", "optional": True, "field": name, "fields": fields} for name in ("before", "after")]
    told = image(tenant, v='"mine"')
    event = debezium(n, op, told, None) if op == "d" else debezium(n, op, None, told)
    return b'{"schema":%s,"payload":%s}' % (json.dumps({"type": "struct", "fields": row}).encode(), event)


def connect(kind: str, name: str, **parameters: str) -> dict[str, Any]:
    return {"type": kind, "name": name, "parameters": parameters}


DECIMAL = connect("bytes", "org.apache.kafka.connect.data.Decimal", scale="0")


@pytest.mark.parametrize(
    ("mine", "theirs", "kind"),
    [
        ("'acme'", "'6932894'", DECIMAL),  # base64 of that number
        ("16777217", "16777216", {"type": "float32"}),
        ("16777217", "16777216", {"type": "float64"}),
        ("7", "'1970-01-08'", connect("int32", "io.debezium.time.Date")),
        ("7", "'00:00:00.007000'", connect("int32", "io.debezium.time.Time")),
        ("-1", "18446744073709551615", UNSIGNED),
        ("'abcd'", "'q80='", connect("string", "firn.data.Hex")),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_an_events_own_schema_makes_no_other_tenant_of_it(
    mine: str, theirs: str, kind: dict[str, Any], first: bool
) -> None:
    shop, told = Shop(mine, theirs), theirs.replace("'", '"')
    if first:  # then it would give the column its type
        assert shop.take("acme", with_schema(1, mine.replace("'", '"'), kind)) == "outside_writer"
    assert shop.take("other", debezium(2, "c", None, image(told, v='"theirs"'))) == ""
    before = shop.tenants()
    for n, op in enumerate("cd"):
        assert shop.take("acme", with_schema(3 + n, mine.replace("'", '"'), kind, op)) == "outside_writer"
    assert shop.tenants() == before == [(json.loads(told), "theirs")]


@pytest.mark.parametrize(
    ("mine", "kind"),
    [
        ("7", LONG),
        ("7", {"type": "int32"}),
        ("7", UNSIGNED),
        ("'acme'", TEXT),
        ("'acme'", connect("string", "io.debezium.data.Enum", allowed="acme,other")),
        ("'0f2b6a1e-9d1f-4a6b-8a7e-1c2d3e4f5a6b'", connect("string", "io.debezium.data.Uuid")),
    ],
)
def test_a_schema_that_says_what_stands_there_is_within(mine: str, kind: dict[str, Any]) -> None:
    shop = Shop(mine, "8" if mine == "7" else "'x'")
    assert shop.take("acme", with_schema(1, mine.replace("'", '"'), kind)) == ""
    assert shop.tenants() == [(json.loads(mine.replace("'", '"')), "mine")]


def test_a_schema_that_can_not_be_read_says_nothing_for_a_row() -> None:
    tenant, either = parse_condition("tenant_id = 7"), parse_condition("tenant_id = 7 OR v = 'a'")
    assert misread(tenant, b'{"type":', flat=False) == {"tenant_id"}
    assert misread(tenant, b'{"type":"struct","fields":[]}', flat=False) == set()
    row = b'{"type":"struct","fields":[{"field":"tenant_id","type":"float"},{"field":"v","type":"string"}]}'
    assert misread(either, row, flat=True) == {"tenant_id"}
    twice = row.replace(b"[", b'[{"field":"tenant_id","type":"int64"},')
    assert misread(either, twice, flat=True) == {"tenant_id"}
    assert outside(either, "c", None, None, b'{"tenant_id":7,"v":"a"}', misread(either, row, flat=True)) is not None
    assert outside(either, "c", None, None, b'{"v":"a"}', misread(either, row, flat=True)) is None


def test_a_column_that_the_schema_leaves_out_is_not_stored_and_says_nothing() -> None:
    shop = Shop("7", "8")
    assert shop.take("acme", debezium(1, "c", None, image(v='"mine"'))) == ""
    for n, op in enumerate("cd"):  # the tenant would be null, and that of a delete any
        sent = with_schema(2 + n, "7", LONG, op).replace(
            b'{"field": "tenant_id", "optional": true, "type": "int64"}, ', b""
        )
        assert b"optional" in sent
        assert sent.count(b"tenant_id") == 1
        assert shop.take("acme", sent) == "outside_writer"
    assert shop.tenants() == [(7, "mine")]


@pytest.mark.parametrize(
    ("mine", "theirs", "written"),
    [
        ("9007199254740993", "9007199254740992", "9007199254740993.0"),
        ("9007199254740993", "9007199254740992", "9.007199254740993e15"),
        ("9007199254740993", "9007199254740992", "9007199254740993E0"),
        ("18446744073709551617", "18446744073709552000", "18446744073709551617.0"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_number_that_a_double_rounds_is_written_whole_or_not_at_all(
    mine: str, theirs: str, written: str, first: bool
) -> None:
    shop = Shop(mine, theirs)
    if first:
        assert shop.take("acme", debezium(1, "c", None, image(written, v='"mine"'))) == "outside_writer"
    assert shop.take("other", debezium(2, "c", None, image(theirs, v='"theirs"'))) == ""
    for n, images in enumerate(((None, image(written)), (image(written), None))):
        assert shop.take("acme", debezium(3 + n, "d" if images[0] else "c", *images)) == "outside_writer"
    assert shop.tenants() == [(int(theirs), "theirs")]
    assert shop.take("acme", debezium(5, "c", None, image(mine, v='"mine"'))) == ""
    assert sorted(shop.tenants()) == sorted([(int(theirs), "theirs"), (int(mine), "mine")])


@pytest.mark.parametrize("twin", ["TENANT_ID", "Tenant_Id", "TENANT\\u005fID", "\\u0054enant_id"])
def test_a_row_that_says_it_in_other_letters_too_is_of_nobody(twin: str) -> None:
    shop = Shop("7", "8")  # SQL's tenant_id would be the first column of the two
    both = (f'{{"{twin}":8,"tenant_id":7,"id":1,"v":"mine"}}', f'{{"tenant_id":7,"id":1,"v":"mine","{twin}":8}}')
    for n, told in enumerate(both):
        assert shop.take("acme", debezium(n, "c", None, told)) == "outside_writer"
        assert shop.take("acme", debezium(n, "d", told, None)) == "outside_writer"
    inside = image(v='"mine"', doc=f'{{"{twin}":8}}', text=f'"\\"{twin}\\""')  # no column
    assert shop.take("acme", debezium(9, "c", None, inside)) == ""
    assert shop.tenants() == [(7, "mine")]
