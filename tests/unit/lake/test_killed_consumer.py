"""A consumer in a process of its own, killed with SIGKILL while commits go on, takes each change once."""

import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog

from tests.soak import SEED, times

ITEMS = pa.schema([("id", pa.int64()), ("name", pa.string())])
# Each statement fails on a change that was taken before: an insert of what is there, an update of what is otherwise.
CONSUMER = """
import sqlite3, sys
import firn_lake
folder, copy = sys.argv[1:]
database = sqlite3.connect(copy, timeout=30)
[stored] = database.execute("SELECT at FROM cursor").fetchone()
statements = {
    "insert": "INSERT INTO items VALUES (:id, :name)",
    "update": "UPDATE items SET name = :name WHERE id = :id AND name = :old",
    "delete": "DELETE FROM items WHERE id = :id AND name = :old",
}
print("up", flush=True)
for changes in firn_lake.connect(folder).table("shop.killed").follow(stored, poll=0.01, batch_size=2):
    with database:
        for batch in changes:
            for row in batch.to_pylist():
                values = {"id": row["id"], "name": row["name"], "old": (row["_before"] or {}).get("name")}
                assert database.execute(statements[row["_change"]], values).rowcount == 1, row
                database.execute("INSERT INTO log VALUES (?)", (row["_change"],))
        database.execute("UPDATE cursor SET at = ?", (changes.cursor.json(),))
"""


def taken(copy: Path) -> bool:
    """Whether a life of the consumer has stored a step."""
    with closing(sqlite3.connect(copy, timeout=30)) as database:
        return database.execute("SELECT at FROM cursor").fetchone()[0] is not None


def test_a_killed_consumer_takes_each_change_once(catalog: Catalog, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table("shop.killed", ITEMS, properties={"firn.key": '["id"]'})
    copy = tmp_path / "copy.sqlite"
    with closing(sqlite3.connect(copy)) as database:
        database.executescript(
            "PRAGMA journal_mode = WAL; CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT);"
            "CREATE TABLE log (change TEXT); CREATE TABLE cursor (at TEXT); INSERT INTO cursor VALUES (NULL)"
        )
    there: dict[int, str] = {}
    for _ in range(times(2, 4)):
        consumer = subprocess.Popen(
            [sys.executable, "-c", CONSUMER, str(tmp_path), str(copy)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == "up\n"
        until = time.monotonic() + dice.uniform(0.2, 1.5)
        while time.monotonic() < until or not taken(copy):
            numbers = dice.sample(range(30), 6)
            old = there.keys() & set(numbers)
            new = {number: f"{dice.random():.4f}" for number in numbers[:4]}
            with table.transaction() as together:
                if old:
                    together.delete(f"id in ({', '.join(map(str, old))})")
                together.append(pa.table({"id": list(new), "name": list(new.values())}, ITEMS))
            there = {number: name for number, name in there.items() if number not in old} | new
        assert consumer.poll() is None, consumer.communicate()[1]
        consumer.send_signal(signal.SIGKILL)
        consumer.communicate()
    consumer = subprocess.Popen([sys.executable, "-c", CONSUMER, str(tmp_path), str(copy)], stderr=subprocess.PIPE)
    try:
        with closing(sqlite3.connect(copy, timeout=30)) as database:
            deadline = time.monotonic() + 30
            while dict(database.execute("SELECT * FROM items").fetchall()) != there:
                assert consumer.poll() is None, consumer.communicate()[1]
                assert time.monotonic() < deadline
                time.sleep(0.05)
            kinds = dict(database.execute("SELECT change, count(*) FROM log GROUP BY 1").fetchall())
    finally:
        consumer.kill()
        consumer.communicate()
    assert kinds["update"] > 0  # not all in one step
    assert kinds["insert"] - kinds.get("delete", 0) == len(there)
