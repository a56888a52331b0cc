"""The connector's other settings, by the same code: the same row in two encodings gives the same typed table."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.integration.spark.spark_lake import Lake

pytestmark = pytest.mark.spark

COLUMNS = (
    '{amount: "decimal(12,2)", at: "timestamptz", local: "timestamp(6)", day: date, clock: "time(6)", raw: binary, '
    "took: long, note: string, big: string}"
)
# decimal.handling.mode=string, time.precision.mode=isostring, binary.handling.mode=hex
TEXT = {
    "settings": "{decimal.handling.mode: string, time.precision.mode: isostring, binary.handling.mode: hex}",
    "row": {
        "amount": "9999999999.99",
        "at": "2024-02-29T18:14:59.999999Z",
        "local": "2024-02-29T23:59:59.999999Z",
        "day": "2024-02-29Z",
        "clock": "23:59:59.999999Z",
        "raw": "00ff10de",
        "took": 37091106789000,
    },
    "unavailable": {"raw": "5f5f637573746f6d5f756e617661696c", "note": "__custom_unavail"},
    "nan": {"amount": "NAN"},
}
# decimal.handling.mode=double, time.precision.mode=connect, binary.handling.mode=base64
NUMBERS = {
    "settings": "{decimal.handling.mode: double, time.precision.mode: connect, binary.handling.mode: base64}",
    "row": {
        "amount": 9999999999.99,
        "at": "2024-02-29T18:14:59.999999Z",
        "local": 1709251199999,
        "day": 19782,
        "clock": 86399999,
        "raw": "AP8Q3g==",
        "took": 37091106789000,
    },
    "unavailable": {"raw": "X19jdXN0b21fdW5hdmFpbA==", "note": "__custom_unavail"},
    "nan": {"amount": "NaN"},
}


def event(op: str, lsn: int, row: dict[str, Any]) -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "app", "table": "t", "sequence": json.dumps(["1", str(lsn)])}
    return {"op": op, "before": None, "after": row, "source": source}


@pytest.mark.parametrize("encoding", [TEXT, NUMBERS], ids=["string_isostring_hex", "double_connect_base64"])
def test_every_setting_of_the_connector_gives_the_same_typed_row(
    lake: Callable[[str], Lake], encoding: dict[str, Any]
) -> None:
    one = lake(
        "warehouse: file:///set/by/the/deployment\nstreams:\n  spec:\n    unavailable_value: __custom_unavail\n"
        f"    debezium: {encoding['settings']}\n    tables:\n"
        f"      app.t: {{to: lake.t, key: [id], columns: {COLUMNS}}}\n"
    )
    row = {"id": 1, **encoding["row"], "note": "kept"}
    one.land([event("c", 10, row), event("c", 11, {**row, "id": 2}), event("c", 12, {"id": 3, "note": None})])
    one.land(
        [
            event("u", 20, {**row, **encoding["unavailable"], "took": 1}),
            event("u", 21, {"id": 3, **encoding["nan"], "note": None}),
        ]
    )
    rows = one.by_key("lake.t", "id")
    exact = encoding is TEXT
    typed = {
        "amount": Decimal("9999999999.99"),
        "at": datetime(2024, 2, 29, 18, 14, 59, 999999, UTC),
        "local": datetime(2024, 2, 29, 23, 59, 59, 999999 if exact else 999000),
        "day": date(2024, 2, 29),
        "clock": "23:59:59.999999" if exact else "23:59:59.999000",
        "raw": bytes.fromhex("00ff10de"),
        "note": "kept",
    }
    for key, took in ((1, 1), (2, 37091106789000)):
        found = rows[key]
        assert {name: found[name] for name in typed} == typed
        assert found["took"] == took
    assert rows[3]["amount"] is None  # NaN: null by default, a dead letter by setting
    assert rows[3]["raw"] is None
