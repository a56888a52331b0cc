"""What the demo sends, and what the tables must be equal to afterwards."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from firn_demo.comparing import Comparison, compare
from firn_lake.tables import find_table
from firn_local.environment import REPOSITORY

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

EXAMPLES = REPOSITORY / "examples"
PGBENCH = EXAMPLES / "pgbench" / "pgbench_plain.ndjson.gz"
SHOP = EXAMPLES / "shop" / "events.ndjson"
PGBENCH_EVENTS = 55_462
FINAL = {
    "bank.accounts": "pgbench/final/pgbench_accounts.csv.gz",
    "bank.tellers": "pgbench/final/pgbench_tellers.csv",
    "bank.branches": "pgbench/final/pgbench_branches.csv",
    "bank.history": "pgbench/final/pgbench_history.csv.gz",
    "bank.sentinel": "pgbench/final/sentinel.csv",
    "shop.customers": "shop/final/customers.csv",
    "shop.orders": "shop/final/orders.csv",
}


def compare_all(catalog: "Catalog") -> Iterator[Comparison]:
    """Each table with PostgreSQL's own final state. Raises what find_table raises where a table is not there yet."""
    for name, final in FINAL.items():
        yield compare(name.partition(".")[2], find_table(catalog, name).scan().to_arrow(), EXAMPLES / final)
