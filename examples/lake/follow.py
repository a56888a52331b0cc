"""`python -m examples.lake.follow [FOLDER] [COPY]`: an exact copy of a table in SQLite; run it as often as you like.

The copy and the cursor are written in one transaction: whenever this dies, the next run goes on from where the copy is.
"""

import sqlite3
import sys
from contextlib import closing

import firn_lake

TABLES = """
CREATE TABLE IF NOT EXISTS orders (order_id INTEGER PRIMARY KEY, status TEXT);
CREATE TABLE IF NOT EXISTS cursor (only INTEGER PRIMARY KEY CHECK (only = 1), at TEXT);
"""


def main(folder: str = ".firn", copy: str = "orders.sqlite", until: str | None = "main") -> None:
    """Bring the copy up to the table. `until` None: go on for ever."""
    with firn_lake.connect(folder) as lake, closing(sqlite3.connect(copy)) as database:
        database.executescript(TABLES)
        stored = database.execute("SELECT at FROM cursor").fetchone()
        orders = lake.table("shop.orders")
        for changes in orders.follow(stored[0] if stored else None, until=until, columns=["status"]):
            with database:  # one transaction: all of these changes and their cursor, or nothing
                for batch in changes:
                    for row in batch.to_pylist():
                        if row["_change"] == "delete":
                            database.execute("DELETE FROM orders WHERE order_id = ?", (row["order_id"],))
                        else:
                            database.execute("REPLACE INTO orders VALUES (?, ?)", (row["order_id"], row["status"]))
                database.execute("REPLACE INTO cursor VALUES (1, ?)", (changes.cursor.json(),))
            print(changes.counts(), "up to snapshot", changes.to)


if __name__ == "__main__":
    main(*sys.argv[1:])
