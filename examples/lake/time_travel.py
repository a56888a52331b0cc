"""`python -m examples.lake.time_travel [FOLDER]`: the same question at each snapshot of a table."""

import sys

import firn_lake


def main(folder: str = ".firn") -> None:
    """Count the orders by status as each commit left them."""
    with firn_lake.connect(folder) as lake:
        for snapshot in lake.table("shop.orders").snapshots():
            found = lake.sql(
                "SELECT status, count(*) AS orders FROM shop.orders GROUP BY ALL ORDER BY ALL", as_of=snapshot.id
            )
            counts = ", ".join(f"{row['orders']} {row['status']}" for row in found.pylist())
            print(f"{snapshot.time:%Y-%m-%d %H:%M:%S} {snapshot.operation}: {counts}")


if __name__ == "__main__":
    main(*sys.argv[1:])
