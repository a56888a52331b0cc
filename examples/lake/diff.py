"""`python -m examples.lake.diff [FOLDER]`: what became of each order since the table's first snapshot."""

import sys

import firn_lake


def main(folder: str = ".firn") -> None:
    """Print inserts, updates with what was before, and deletes."""
    with firn_lake.connect(folder) as lake:
        orders = lake.table("shop.orders")
        first = orders.snapshots()[0]
        for batch in orders.changes(first.id):
            for row in batch.to_pylist():
                match row["_change"]:
                    case "insert":
                        print(f"+ {row['order_id']} is {row['status']}")
                    case "update":
                        print(f"~ {row['order_id']} was {row['_before']['status']}, is {row['status']}")
                    case "delete":
                        print(f"- {row['order_id']} was {row['status']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
