"""A planned evolution as ALTER statements of Spark and Trino."""

import pyarrow as pa
import pytest
import sqlglot
from pyiceberg.catalog import Catalog

from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.schemas.ddl import NoSuchDialect
from firn_lake.schemas.evolution_steps import NewColumn


@pytest.fixture
def table(catalog: Catalog) -> LakeTable:
    columns = pa.schema({"id": pa.int64(), "amount": pa.float64(), "note": pa.string()})
    made = Lake(catalog).create("own.orders", columns)
    made.evolve(add={"address": "struct<city: string>", "number": "int", "dot.ted": "int"})
    return made


def test_the_steps_of_a_plan_are_statements_of_spark(table: LakeTable) -> None:
    plan = table.evolve(
        add={"extra": NewColumn("decimal(10,2)", "it's new"), "address.zip": "string"},
        drop=["dot.ted"],
        rename={"note": "remark"},
        widen={"number": "long"},
        docs={"amount": "with tax"},
        reorder=["amount"],
        dry_run=True,
    )
    told = plan.to_sql()
    assert told.split(";\n\n") == [
        "ALTER TABLE `own`.`orders` DROP COLUMN `dot.ted`",
        "ALTER TABLE `own`.`orders` ALTER COLUMN `number` TYPE BIGINT",
        "ALTER TABLE `own`.`orders` ALTER COLUMN `amount` COMMENT 'with tax'",
        "ALTER TABLE `own`.`orders` ADD COLUMN `extra` DECIMAL(10,2) COMMENT 'it\\'s new'",
        "ALTER TABLE `own`.`orders` ADD COLUMN `address`.`zip` STRING",
        "ALTER TABLE `own`.`orders` ALTER COLUMN `amount` FIRST",
        "ALTER TABLE `own`.`orders` RENAME COLUMN `note` TO `remark`",
    ]
    assert not plan.applied


def test_and_of_trino(table: LakeTable) -> None:
    plan = table.evolve(widen={"number": "long"}, docs={"amount": "a"}, reorder=["amount"], dry_run=True)
    widen, describe, move = plan.to_sql("trino").split(";\n\n")
    assert widen == 'ALTER TABLE "own"."orders" ALTER COLUMN "number" SET DATA TYPE BIGINT'
    assert describe == 'COMMENT ON COLUMN "own"."orders"."amount" IS \'a\''
    assert move.startswith("-- move amount")
    sqlglot.parse_one(widen, read="trino")
    with pytest.raises(NoSuchDialect):
        plan.to_sql("oracle")
    assert table.evolve(docs={}, dry_run=True).to_sql() == ""
