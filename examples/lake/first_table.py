"""`python -m examples.lake.first_table [FOLDER]`: what is in the lake, and the first rows of one table."""

import sys

import firn_lake


def main(folder: str = ".firn") -> None:
    """List the tables, then read one three ways."""
    with firn_lake.connect(folder) as lake:
        for one in lake.tables():
            print(f"{one.name}: {one.rows} rows, key ({', '.join(one.key)})")

        orders = lake.table("shop.orders")
        for name, kind in orders.columns().items():
            print(f"  {name}: {kind}")

        # Nothing is read before the result is; a result can be read again, and as often as you like.
        paid = orders.read(columns=["order_id", "total"], filter="status = 'paid'")
        print(paid.arrow().num_rows, "orders are paid")
        print(paid.duckdb().aggregate("sum(total) AS total"))

        # Batch by batch: memory does not grow with the table.
        print(sum(batch.num_rows for batch in orders.read(batch_size=10_000)), "orders in all")


if __name__ == "__main__":
    main(*sys.argv[1:])
