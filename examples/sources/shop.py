"""The parts of the MySQL example, wired as a user would: MariaDB, Debezium Server, `firn up` and `firn init --from`;
what its clients do, and the comparison of every row."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from examples.sources.debezium import DebeziumServer
from examples.sources.fetching import ROOT
from examples.sources.firn_up import FirnUp
from examples.sources.mariadb import MariaDb, Programs
from examples.sources.processes import ServerFailed
from firn_demo.comparing import Comparison
from firn_lake.catalogs.stack_catalog import catalog_of
from firn_lake.tables import find_table

STREAM = "shop"
TABLES = ("customers", "orders", "order_items", "types", "history")
FILES = ROOT / "examples" / "mysql-debezium"
_MARKER = "SELECT n FROM shop.marker"


class Shop:
    """All parts in one folder. `start`, and `stop` whatever happens."""

    def __init__(self, folder: Path, mariadb: Programs, java: Path, program: Path) -> None:
        self.folder = folder
        folder.chmod(0o755)  # MariaDB may run as another user
        self.mariadb = MariaDb(mariadb, folder / "mariadb", STREAM)
        self.firn = FirnUp(folder / "firn")
        environment = {"FIRN_SOURCE_PASSWORD": self.mariadb.password}
        self.debezium = DebeziumServer(program, java, folder / "debezium", environment)
        self.debezium_ended: list[str] = []  # why it ended by itself, each time, and was started again
        self._wanted, self._marked = False, 0

    def start(self) -> None:
        """The database with its tables, Firn with a configuration made from them, then Debezium Server, which begins
        with a snapshot. Raises ServerFailed, FirnError."""
        self.mariadb.start()
        statements = (FILES / "shop.sql").read_text().split(";\n")
        self.mariadb.run(*(one for one in statements if one.strip()))
        done = self.run_firn(
            "init", "--from", self.mariadb.url, "--config", str(self.firn.config), "--port", str(self.firn.port)
        )
        if done.returncode:
            raise ServerFailed(done.stderr)
        self.firn.edit(lambda config: config["streams"][STREAM].update(commit={"every": "15s"}))
        self.firn.start()
        self.debezium.configure((self.firn.folder / "debezium.properties").read_text(), {})
        self.debezium.start()
        self._wanted = True

    def stop(self) -> None:
        """End everything; the folder stays."""
        self._wanted = False
        for part in (self.debezium, self.firn, self.mariadb):
            with suppress(Exception):  # the others are stopped too, whatever one of them does
                part.stop()

    def supervise(self) -> None:
        """Start Debezium Server again if it ended, as a service manager would."""
        if self._wanted and not self.debezium.running:
            self.debezium_ended.append(self.debezium.last_error())
            self.debezium.start()

    def kill_debezium(self) -> str:
        """SIGKILL, and a new start. -> what was done."""
        self.debezium.kill()
        self.debezium.start(wait=False)
        return "Debezium Server killed (SIGKILL) and started again"

    def restart_firn(self) -> str:
        """SIGKILL of `firn up` and a new start. -> what was done."""
        self.firn.kill()
        self.firn.start()
        return "Firn's function host killed and started again"

    def restart_mariadb(self) -> str:
        """SIGKILL of the database and a new start. -> what was done."""
        self.mariadb.restart()
        return "MariaDB killed (SIGKILL) and started again"

    def delivered(self, report: Callable[[str], None], seconds: float = 600) -> None:
        """Wait until Firn has all that the database holds now: a row that is changed last. Raises ServerFailed."""
        self._marked += 1
        self.mariadb.run(f"UPDATE marker SET n = {self._marked} WHERE id = 1")  # noqa: S608 (a number of our own)
        deadline = time.monotonic() + seconds
        while (seen := self._seen()) < self._marked:
            if time.monotonic() > deadline:
                raise ServerFailed(f"the last change did not come within {seconds:.0f} s; see {self.debezium.log}")
            report(f"waiting for change {self._marked} of the marker; {seen} is here")
            self.supervise()
            time.sleep(2)

    def _seen(self) -> int:
        done = self.run_firn("query", "--fresh", "--json", _MARKER, "--dir", str(self.firn.folder))
        rows = json.loads(done.stdout) if done.returncode == 0 else []  # no table before the first change
        return int(rows[0]["n"]) if rows else -1

    def compare(self) -> list[Comparison]:
        """Each row of each table in Iceberg against MariaDB's own."""
        catalog = catalog_of(self.firn.stack())
        return [self._compared(name, find_table(catalog, f"{STREAM}.{name}").scan().to_arrow()) for name in TABLES]

    def _compared(self, name: str, table: Any) -> Comparison:
        columns = self.mariadb.rows(
            "SELECT column_name, column_type FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position", STREAM, name,
        )  # fmt: skip
        kinds = {column: kind for column, kind in columns if column in table.column_names}
        lacking = [column for column, _ in columns if column not in kinds]
        selected = ", ".join(f"CAST(`{c}` AS DOUBLE)" if k == "float" else f"`{c}`" for c, k in columns)
        rows = self.mariadb.rows(f"SELECT {selected} FROM `{name}`")  # noqa: S608 (names of our own)
        expected = Counter(
            tuple(_of_mariadb(kind, value) for (_, kind), value in zip(columns, row, strict=True)) for row in rows
        )
        ours = [table.column(column).to_pylist() if column in kinds else None for column, _ in columns]
        count = table.num_rows
        filled = [one if one is not None else [None] * count for one in ours]
        found = Counter(
            tuple(_of_iceberg(kind, value) for (_, kind), value in zip(columns, row, strict=True))
            for row in zip(*filled, strict=True)
        )
        equal, extra = (expected & found).total(), (found - expected).total()
        if lacking and any(row[i] is not None for row in expected for i, (c, _) in enumerate(columns) if c in lacking):
            equal = 0
        return Comparison(name, equal, expected.total(), extra)

    def run_firn(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """The firn command on this stack."""
        command = [sys.executable, "-m", "firn_cli.main", *arguments]
        environment = {**os.environ, "FIRN_SOURCE_PASSWORD": self.mariadb.password}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def _of_mariadb(kind: str, value: Any) -> Any:
    """A value as PyMySQL gives it, in the form that both sides are compared in."""
    if value is None:
        return None
    if kind.startswith("bit("):
        return value != b"\0" if kind == "bit(1)" else int.from_bytes(value, "big")
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if kind.startswith("decimal") or kind == "bigint(20) unsigned":
        return Decimal(value).normalize()
    return value


def _of_iceberg(kind: str, value: Any) -> Any:
    """The same of a value as Arrow gives it."""
    if value is None:
        return None
    if kind.startswith("bit(") and kind != "bit(1)":
        return int.from_bytes(value, "little")
    if kind.startswith("time") and isinstance(value, str):
        sign, clock = (-1, value[1:]) if value.startswith("-") else (1, value)
        hours, minutes, seconds = clock.split(":")
        return sign * ((int(hours) * 60 + int(minutes)) * 60_000_000 + int(Decimal(seconds) * 1_000_000))
    if kind.startswith("decimal") or kind == "bigint(20) unsigned":
        return Decimal(value).normalize()
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


class Client:
    """One client of the shop: transactions of a seed, against a database that may go away under it."""

    def __init__(self, mariadb: MariaDb, seed: int) -> None:
        self._mariadb, self._dice = mariadb, random.Random(seed)
        self._connection: Any = None
        self.done = 0

    def transaction(self) -> None:
        """One transaction, committed, rolled back, or lost with the server. Keeps on where the server is not there."""
        import pymysql

        try:
            if self._connection is None:
                self._connection = self._mariadb.connect()
                self._connection.autocommit(False)
            with self._connection.cursor() as cursor:
                for _ in range(self._dice.randint(1, 4)):
                    self._statement(cursor)
            if self._dice.random() < 0.05:
                self._connection.rollback()
            else:
                self._connection.commit()
            self.done += 1
        except (pymysql.err.MySQLError, ServerFailed, OSError):
            # Deadlock, duplicate key, or the server is gone: a client begins again.
            with suppress(Exception):
                if self._connection is not None:
                    self._connection.close()
            self._connection = None
            time.sleep(0.05)

    def close(self) -> None:
        """Leave."""
        if self._connection is not None:
            self._connection.close()

    def _statement(self, cursor: Any) -> None:
        dice, one = self._dice, self._dice.randint(1, 1500)
        match dice.randint(0, 11):
            case 0 | 1:
                cursor.execute(
                    "INSERT INTO orders (customer_id, amount, placed) VALUES (%s, %s, now(6))",
                    (dice.randint(1, 500), dice.choice([None, Decimal(dice.randint(-(10**6), 10**6)) / 100])),
                )
                items = [(cursor.lastrowid, line, f"SKU-{one}", one) for line in range(1, dice.randint(2, 5))]
                cursor.executemany("INSERT INTO order_items VALUES (%s, %s, %s, %s / 7)", items)
            case 2 | 3:
                cursor.execute("UPDATE orders SET status = %s WHERE id = %s", (dice.choice(["paid", "shipped"]), one))
            case 4:
                cursor.execute("UPDATE orders SET amount = amount * 1.1 WHERE id BETWEEN %s AND %s", (one, one + 40))
            case 5:
                cursor.execute("DELETE FROM order_items WHERE order_id = %s", (one,))
                cursor.execute("DELETE FROM orders WHERE id = %s", (one,))
            case 6:
                cursor.execute("UPDATE customers SET id = %s WHERE id = %s", (one + 500, dice.randint(1, 500)))
            case 7:
                cursor.execute("REPLACE INTO order_items VALUES (%s, 1, 'REPLACED', 1)", (one,))
            case 8:  # equal rows of one statement, in a table without a key
                cursor.execute("INSERT INTO history VALUES (%s, 1, '2024-01-01'), (%s, 1, '2024-01-01')", (one, one))
            case 9:
                cursor.execute("UPDATE customers SET score = score + 1, note = %s WHERE id < 30", (f"Grüße 😀 {one}",))
            case _:
                self._types(cursor)

    def _types(self, cursor: Any) -> None:
        dice = self._dice
        sign = dice.choice(["", "-"])
        values = (
            dice.randint(1, 300), dice.randint(-128, 127), dice.randint(0, 255), dice.randint(0, 2**32 - 1),
            dice.randint(-(2**63), 2**63 - 1), dice.randint(0, 2**64 - 1),
            Decimal(dice.randint(-(10**10) + 1, 10**10 - 1)) / 100,
            f"{sign}{dice.randint(0, 10**35 - 1)}.{dice.randint(0, 10**30 - 1):030d}", dice.uniform(-1e30, 1e30),
            dice.uniform(-1e300, 1e300), dice.randint(0, 1), dice.randint(0, 2**17 - 1),
            datetime(1000, 1, 1) + timedelta(days=dice.randint(0, 3_000_000)),
            f"{sign}{dice.randint(0, 838)}:{dice.randint(0, 59)}:{dice.randint(0, 59)}",
            f"{sign}{dice.randint(0, 837)}:{dice.randint(0, 59)}:{dice.randint(0, 59)}.{dice.randint(0, 999999):06d}",
            datetime(1000, 1, 1) + timedelta(seconds=dice.randint(0, 2 * 10**11)),
            datetime(1000, 1, 1) + timedelta(microseconds=dice.randint(0, 2 * 10**17)),
            datetime(1970, 1, 2) + timedelta(milliseconds=dice.randint(0, 2 * 10**12)), dice.randint(1901, 2155),
            dice.choice(["", "äöü", "x"]), dice.choice([None, "", "漢字 😀\n\t\"'\\", "NULL"]),
            dice.choice(["a", "b", "ü"]), dice.choice(["", "x", "x,z", "x,y,z"]),
            json.dumps({"n": dice.randint(0, 9), "t": "ü"}), dice.randbytes(16), dice.randbytes(dice.randint(0, 300)),
            dice.choice([None, 1, 42]),
        )  # fmt: skip
        places = ", ".join(["%s"] * len(values))
        cursor.execute(f"REPLACE INTO types VALUES ({places})", values)  # noqa: S608 (places alone)
