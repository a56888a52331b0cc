"""`python -m examples.lake.hybrid [FOLDER]`: what is committed, and what was acknowledged and is not committed yet."""

import sys

import firn_lake


def main(folder: str = ".firn") -> None:
    """Print how many orders have each status, in the newest snapshot and with all that waits for a commit."""
    count = "SELECT status, count(*) AS orders FROM shop.orders GROUP BY ALL ORDER BY ALL"
    with firn_lake.connect(folder) as lake:
        for name, fresh in (("committed", False), ("fresh", True)):
            found = ", ".join(f"{row['orders']} {row['status']}" for row in lake.sql(count, fresh=fresh).pylist())
            print(f"{name}: {found or 'nothing'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
