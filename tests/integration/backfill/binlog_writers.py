"""Writers on a table `t (id, v)` of a MariaDB, and their changes by the places that the binlog has them at."""

import random
import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from examples.sources.mariadb import MariaDb
from firn.changes.merge.fold import RowChange
from firn.changes.merge.ordering import order_key
from firn.changes.positions import position

Change = tuple[str, int, int | None]  # op, key, value
_AGAIN = (1062, 1205, 1213)  # another was quicker, or waits for this one
_XID = re.compile(r"XA START X'([0-9a-f]+)'")
_ROWS = {"Write_rows_v1": "c", "Update_rows_v1": "u", "Delete_rows_v1": "d"}


def change(op: str, key: int, value: int | None, order: str) -> RowChange:
    """A change of the table, by its order text."""
    where = position("mysql", op, order, 0)
    values = None if value is None else {"id": key, "v": value}
    return RowChange(op, (key,), where, b"\1" + order_key(where, op, f"{key} {value}".encode()), values)


class Writer(threading.Thread):
    """Transactions of a few statements on random rows until it is told to stop, some by XA. `told`: what each did, by
    its GTID, or by its xid in hexadecimal."""

    def __init__(self, server: MariaDb, seed: int, keys: int, *, xa: bool = False) -> None:
        super().__init__(daemon=True)
        self._chance, self._keys, self._xa, self._seed = random.Random(seed), keys, xa, seed
        self._connection = server.connect()
        self._ask("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self.ended, self.count = threading.Event(), 0
        self.told: dict[str, list[Change]] = {}

    def run(self) -> None:
        """Until `ended`."""
        import pymysql

        while not self.ended.is_set():
            try:
                self._transaction()
            except pymysql.err.MySQLError as error:
                if error.args[0] not in _AGAIN:
                    raise
                for statement in ("XA END {}", "XA ROLLBACK {}", "ROLLBACK"):
                    with suppress(pymysql.err.MySQLError):
                        self._ask(statement.format(self._name))
        self._connection.close()

    def _ask(self, sql: str) -> Any:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.rowcount if cursor.description is None else cursor.fetchall()

    def _transaction(self) -> None:
        self.count += 1
        name = self._name = f"'w{self._seed}-{self.count}'"
        xa = self._xa and self._chance.random() < 0.3
        done: list[Change] = []
        self._ask(f"XA START {name}" if xa else "BEGIN")
        # In the order of their keys: no deadlocks.
        for key in sorted(self._chance.sample(range(self._keys), self._chance.randint(1, 3))):
            value = self._seed * 1_000_000 + self.count * 10 + len(done)
            if self._chance.random() < 0.3:
                done += [("d", key, None)] if self._ask(f"DELETE FROM t WHERE id = {key}") else []
            elif self._ask(f"UPDATE t SET v = {value} WHERE id = {key}"):
                done.append(("u", key, value))
            else:
                self._ask(f"INSERT INTO t VALUES ({key}, {value})")
                done.append(("c", key, value))
        if xa:
            self._ask(f"XA END {name}")
            self._ask(f"XA PREPARE {name}")
            self.told[name.strip("'").encode().hex()] = done
            time.sleep(self._chance.random() / 5)
            self._ask(f"XA COMMIT {name}")
        else:
            self._ask("COMMIT")
            if done:
                self.told[str(self._ask("SELECT @@last_gtid")[0][0])] = done


def streamed(server: MariaDb, writers: Sequence[Writer]) -> list[RowChange]:
    """What the stream has of the writers, as Debezium orders it: by file, offset of the rows' event, and row."""
    told = {gtid: done for writer in writers for gtid, done in writer.told.items() if done}
    found: list[RowChange] = []
    for file, *_ in server.rows("SHOW BINARY LOGS"):
        left: list[Change] = []
        for _, offset, kind, _, _, what in server.rows(f"SHOW BINLOG EVENTS IN '{file}'"):
            if kind == "Gtid":
                name = _XID.search(what)
                left = list(told.pop(name[1] if name else what.split("GTID ")[1].split()[0], []))
            elif kind in _ROWS and left:
                op, key, value = left.pop(0)
                assert op == _ROWS[kind]
                found.append(change(op, key, value, f'["{file}",{offset},0]'))
    assert not told, told
    return found
