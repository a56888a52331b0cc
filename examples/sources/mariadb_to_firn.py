"""MariaDB -> Debezium Server -> Firn: clients write rows of every type, a column is added, processes are killed if you
like, and in the end every row of every Iceberg table is compared with MariaDB's own. `make example-mysql` runs it.

Exit code 0: all rows are equal. 1: they are not, or something failed. 3: the machine lacks what the text says.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from examples.sources import fetching, needs
from examples.sources.mariadb import Programs
from examples.sources.shop import STREAM, Client, Shop
from firn.deployment.flush_run import flush
from firn.deployment.terminal import print_json, print_table
from firn.errors import FirnError
from firn_demo.comparing import Comparison

_JAVA = 21
_CLIENTS = 3
_LARGE = "UPDATE orders SET amount = amount + 1"  # one transaction, in which Debezium Server is killed


@dataclass
class Report:
    """What a run did. `seconds`: of the load, until all was delivered, until all was committed; all from its start."""

    transactions: int = 0
    events: list[str] = field(default_factory=list)
    debezium_starts: int = 0
    debezium_ended_by_itself: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    audit: bool = False
    dead: int = 0
    tables: list[Comparison] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Every row of every table is equal, and every acknowledged event is accounted for and no dead letter."""
        return self.audit and not self.dead and bool(self.tables) and all(one.ok for one in self.tables)


class Run:
    """One run on a Shop that is up; tells of it on `console`."""

    def __init__(self, shop: Shop, console: Console, report: Report) -> None:
        self._shop, self._console, self._report = shop, console, report
        self._started = time.monotonic()

    def load(self, transactions: int, *, chaos: bool) -> None:
        """So many transactions of a few clients, and what happens while they run."""
        with self._console.status("Debezium reads what is there") as status:
            self._shop.delivered(status.update)
        self.say("the initial snapshot is handed over; the clients start")
        ended = threading.Event()
        clients = [Client(self._shop.mariadb, seed) for seed in range(_CLIENTS)]
        threads = [threading.Thread(target=_run, args=(client, ended), daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        plan = self._plan(chaos)
        try:
            while (done := sum(client.done for client in clients)) < transactions or plan:
                while plan and done >= plan[0][0] * transactions:
                    self.say(plan.pop(0)[1]())
                self._shop.supervise()
                time.sleep(0.1)
        finally:
            ended.set()
            for thread in threads:
                thread.join(60)
        self._report.transactions = sum(client.done for client in clients)
        self.say(f"{self._report.transactions:,} transactions are done", mark="load")

    def finish(self) -> None:
        """Deliver, commit, account for everything and compare."""
        with self._console.status("handing over") as status:
            self._shop.delivered(status.update)
        self.say("everything is handed over", mark="delivered")
        with self._console.status("committing") as status:
            flush(self._shop.firn.stack(), STREAM, report=lambda name, text: status.update(f"{name}: {text}"))
        self.say("everything is committed", mark="committed")
        folder = str(self._shop.firn.folder)
        audit = self._shop.run_firn("audit", STREAM, "--dir", folder)
        self._report.audit = audit.returncode == 0
        if audit.returncode:
            self._console.print(audit.stdout + audit.stderr, markup=False)
        dead = self._shop.run_firn("dead", "list", STREAM, "--dir", folder, "--json")
        self._report.dead = sum(group["letters"] for group in json.loads(dead.stdout))
        self._report.tables = self._shop.compare()
        self._report.debezium_starts = self._shop.debezium.starts
        self._report.debezium_ended_by_itself = self._shop.debezium_ended

    def say(self, text: str, mark: str = "") -> None:
        """A line with the time since the start."""
        seconds = time.monotonic() - self._started
        if mark:
            self._report.seconds[mark] = round(seconds, 1)
        self._report.events.append(f"{seconds:.1f} s: {text}")
        self._console.print(f"[dim]{seconds:6.1f} s[/dim]  [bold]{text}[/bold]")

    def _plan(self, chaos: bool) -> list[tuple[float, Callable[[], str]]]:
        """When what happens: after which part of the load, and what."""
        plan: list[tuple[float, Callable[[], str]]] = [(0.3, self._add_column), (0.8, self._rotate)]
        if chaos:
            plan += [(0.15, self._kill_in_a_transaction), (0.4, self._shop.restart_firn)]
            plan += [(0.5, self._shop.restart_mariadb), (0.65, self._shop.kill_debezium)]
        return sorted(plan, key=lambda one: one[0])

    def _add_column(self) -> str:
        self._shop.mariadb.run("ALTER TABLE customers ADD COLUMN city varchar(40)")
        self._shop.mariadb.run("UPDATE customers SET city = 'Zürich' WHERE id % 2 = 0")
        return "schema: customers got a column"

    def _rotate(self) -> str:
        self._shop.mariadb.run("FLUSH BINARY LOGS")
        return "the binlog goes on in another file"

    def _kill_in_a_transaction(self) -> str:
        self._shop.mariadb.run(_LARGE)
        time.sleep(0.3)
        return f"a transaction of every order; {self._shop.kill_debezium()}"


def _run(client: Client, ended: threading.Event) -> None:
    while not ended.is_set():
        client.transaction()
        time.sleep(0.02)
    client.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; -> its exit code."""
    given = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # in order, as Ctrl-C does
    console = Console(stderr=given.json, highlight=False)
    folder = Path(tempfile.mkdtemp(prefix="firn-mysql-"))
    report, shop = Report(), None
    try:
        java, mariadb = tools()
        with console.status("Debezium Server (the first time it is fetched: 780 MB)"):
            program = fetching.debezium_server()
        shop = Shop(folder, mariadb, java, program)
        with console.status("starting MariaDB, Firn and Debezium Server"):
            shop.start()
        run = Run(shop, console, report)
        run.say(f"MariaDB, Debezium Server and Firn ({shop.firn.stack().url}) are up")
        run.load(given.transactions, chaos=given.chaos)
        run.finish()
    except needs.Missing as missing:
        print(f"example-mysql: skipped: {missing}", file=sys.stderr)
        return needs.SKIPPED
    except FirnError as error:
        print(f"example-mysql: {error}\nall logs are in {folder}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("example-mysql: stopped", file=sys.stderr)
        return 130
    finally:
        if shop is not None:
            shop.stop()
        if report.ok or shop is None:
            shutil.rmtree(folder, ignore_errors=True)
    _show(report, console, as_json=given.json)
    if not report.ok:
        console.print(f"NOT everything is equal; all logs are in {folder}")
    return 0 if report.ok else 1


def tools() -> tuple[Path, Programs]:
    """The machine's java and MariaDB. Raises Missing with all that is not there."""
    java, mariadb = needs.java(_JAVA), needs.mariadb()
    lacks = [text for text, found in ((needs.JAVA_21, java), (needs.MARIADB, mariadb)) if found is None]
    if java is None or mariadb is None:
        raise needs.Missing(lacks)
    return java, Programs(*mariadb)


def _show(report: Report, console: Console, *, as_json: bool) -> None:
    if as_json:
        print_json({**vars(report), "ok": report.ok})
        return
    console.rule("[bold]Against MariaDB's own tables[/bold]", align="left")
    rows = [
        (one.table, one.expected, one.equal, one.extra, "equal" if one.ok else "NOT equal") for one in report.tables
    ]
    print_table(["table", "rows in MariaDB", "equal", "too many", ""], rows)
    console.print(f"firn audit: {'every event is accounted for' if report.audit else 'does NOT balance'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make example-mysql", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--transactions", type=int, default=3_000, help="of three clients, about 8 changes each (3000)")
    parser.add_argument("--chaos", action="store_true", help="kill Debezium Server twice, MariaDB once and Firn once")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser


if __name__ == "__main__":
    sys.exit(main())
