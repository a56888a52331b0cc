"""What a database's owner does to tables that are in use, and what keeps the Iceberg tables equal meanwhile.

Debezium tells no schema change of PostgreSQL: a column that is added shows with the next change of a row, and rows that
no change touches after a column was added with a default, renamed or dropped keep what they had. So each change here is
what an owner does: say new types in firn.yaml first, change the table, and have Debezium read the table again where old
rows look different now.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from examples.sources.firn_up import FirnUp
from examples.sources.postgres import Postgres


@dataclass(frozen=True)
class SchemaChange:
    """`declare`: table -> column -> type for firn.yaml, before `sql`. `read_again`: tables whose old rows changed."""

    what: str
    sql: str
    declare: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    read_again: tuple[str, ...] = ()


SCHEMA_CHANGES = (
    SchemaChange(
        "add columns",
        """ALTER TABLE pgbench_accounts ADD COLUMN opened date, ADD COLUMN score double precision;
        UPDATE pgbench_accounts SET opened = current_date - aid, score = aid / 7.0 WHERE aid % 10 = 0;
        ALTER TABLE pgbench_tellers ADD COLUMN grade int NOT NULL DEFAULT 3;""",
        declare={"public.pgbench_accounts": {"opened": "date", "score": "double"}},
        read_again=("public.pgbench_tellers",),
    ),
    SchemaChange(
        "rename a column",
        "ALTER TABLE orders RENAME COLUMN note TO remark;",
        read_again=("public.orders",),
    ),
    SchemaChange(
        "widen types",
        """ALTER TABLE orders ALTER COLUMN units TYPE bigint, ALTER COLUMN amount TYPE numeric(14,2);
        ALTER TABLE orders ALTER COLUMN remark TYPE text;
        BEGIN; LOCK TABLE orders IN SHARE ROW EXCLUSIVE MODE;  -- or this and the load wait for each other's rows
        UPDATE orders SET units = 5000000000 + units, amount = amount + 12345678901.25, remark = repeat('wide ', 20)
        WHERE order_id % 10 = 7;
        COMMIT;""",
        declare={"public.orders": {"amount": "decimal(14,2)"}},
    ),
    SchemaChange(
        "drop a column",
        "ALTER TABLE orders DROP COLUMN details;",
        read_again=("public.orders",),
    ),
)


def make(change: SchemaChange, number: int, postgres: Postgres, firn: FirnUp) -> str:
    """Make the `number`-th change while changes flow -> the id of the signal that asks for tables to be read again, or
    ""."""
    if change.declare:
        firn.change(lambda config: _declare(config, change.declare))
    postgres.run(change.sql)
    if not change.read_again:
        return ""
    # An incremental snapshot: Debezium reads the tables beside the changes that flow.
    id = f"change-{number}"
    data = json.dumps({"type": "incremental", "data-collections": change.read_again})
    postgres.run(f"INSERT INTO debezium_signal VALUES ('{id}', 'execute-snapshot', '{data}');")  # noqa: S608
    return id


def _declare(config: dict[str, Any], types: Mapping[str, Mapping[str, str]]) -> None:
    for stream in config["streams"].values():
        for table, columns in types.items():
            stream["tables"][table].setdefault("columns", {}).update(columns)
