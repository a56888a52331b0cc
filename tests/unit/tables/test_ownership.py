"""Which tables of the catalog are this deployment's."""

import json
from typing import Any

import pytest

from firn.config.names import TableName
from firn.log.store import Store, open_store
from firn.tables.ownership import refusal, refusal_of_view
from firn.tables.table_state import parse

T = TableName("shop", "orders")
OURS, THEIRS = "s3://firn-prod-lake/warehouse", "s3://firn-dev-lake/warehouse/shop/orders"
MADE = {"firn.key": '["id"]'}
COMMITTED = {"operation": "append", "firn.epoch.shop": "7"}


@pytest.fixture
def store() -> Store:
    return open_store("memory://")


def state(location: str, properties: Any = (), summary: Any = None) -> Any:
    snapshots = [{"snapshot-id": 1, "summary": summary or {"operation": "append"}}]
    return parse(
        json.dumps(
            {
                "location": location, "properties": dict(properties), "schemas": [{"schema-id": 0, "fields": []}],
                "current-schema-id": 0, "snapshots": snapshots, "current-snapshot-id": 1,
            }
        )
    )  # fmt: skip


@pytest.mark.parametrize(("properties", "summary"), [(MADE, None), ({}, COMMITTED)], ids=["made", "other"])
def test_what_firn_made_or_committed_to_elsewhere_is_refused_by_name(
    store: Store, properties: Any, summary: Any
) -> None:
    said = refusal(store, ["shop"], T, state(THEIRS, properties, summary), OURS)
    assert said is not None
    assert said.startswith(f"shop.orders lies at {THEIRS}, outside of the warehouse {OURS}: it is another deployment's")
    assert "such as dev_shop" in said


@pytest.mark.parametrize(
    "location",
    [f"{OURS}/shop/orders", "s3a://firn-prod-lake//warehouse/shop/orders/", f"{OURS}/anywhere/else"],
)
def test_what_lies_below_the_warehouse_is_ours(store: Store, location: str) -> None:
    assert refusal(store, ["shop"], T, state(location, MADE, COMMITTED), OURS) is None
    assert refusal(store, ["shop"], T, state(location, MADE, COMMITTED), OURS + "/") is None
    assert refusal(store, ["shop"], T, state(location, MADE, COMMITTED), OURS[:-1]) is not None


def test_what_firn_has_nothing_to_do_with_yet_may_be_adopted_wherever_it_lies(store: Store) -> None:
    assert refusal(store, ["shop"], T, state("s3://lake-of-the-house/orders"), OURS) is None
    assert refusal(store, ["shop"], T, None, OURS) is None


VIEW = {"firn.mode": "view"}


def test_a_view_takes_the_place_of_no_table_that_is_none() -> None:
    for there in (state(f"{OURS}/shop/orders"), state(f"{OURS}/shop/orders", MADE), state(THEIRS, MADE)):
        said = refusal_of_view(T, there, OURS, made=True)
        assert said is not None
        assert said.startswith("shop.orders is there, and is no view")
    assert refusal_of_view(T, None, OURS, made=False) is None


def test_a_view_of_another_deployment_is_refused_by_name() -> None:
    said = refusal_of_view(T, state(THEIRS, VIEW), OURS, made=False)
    assert said is not None
    assert "it is another deployment's" in said
    assert refusal_of_view(T, state(f"{OURS}/shop/orders", VIEW), OURS, made=False) is None
    assert refusal_of_view(T, state(THEIRS, VIEW), OURS, made=True) is None, "the warehouse moved since"
