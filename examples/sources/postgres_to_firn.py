"""PostgreSQL -> Debezium Server -> Firn: pgbench writes, tables change their schema meanwhile, and in the end every row
of every Iceberg table is compared with PostgreSQL's own. `make example-postgres` runs it.

Exit code 0: all rows are equal. 1: they are not, or something failed. 3: the machine lacks what the text says.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.sources import fetching, needs
from examples.sources.bank import STREAM, Bank
from examples.sources.schema_changes import SCHEMA_CHANGES, make
from firn.deployment.flush_run import flush
from firn.deployment.terminal import print_json, print_table
from firn.errors import FirnError
from firn_demo.comparing import Comparison
from firn_lake.catalogs.stack_catalog import catalog_of
from firn_lake.tables import find_table, history

_JAVA = 21


@dataclass
class Report:
    """What a run did. `seconds`: of the load, until all was delivered, until all was committed; all from its start."""

    sink: str
    signed: bool
    transactions: int = 0
    changes: int = 0
    events: list[str] = field(default_factory=list)
    debezium_starts: int = 0
    debezium_ended_by_itself: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    snapshots: dict[str, int] = field(default_factory=dict)
    audit: bool = False
    tables: list[Comparison] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Every row of every table is equal, and every acknowledged event is accounted for."""
        return self.audit and bool(self.tables) and all(one.ok for one in self.tables)


class Run:
    """One run on a Bank that is up; tells of it on `console`."""

    def __init__(self, bank: Bank, console: Console, report: Report) -> None:
        self._bank, self._console, self._report = bank, console, report
        self._started = time.monotonic()
        self._signal = ""  # the last one that asked for a table to be read again

    def load(self, transactions: int, rate: float, accounts: int, *, chaos: bool) -> None:
        """pgbench, and what happens while it runs."""
        # Until the snapshot is in: what a killed Debezium Server would start over with new positions.
        with self._console.status("Debezium reads what is there") as status:
            self._bank.delivered("", status.update)
        self.say("the initial snapshot is handed over; pgbench starts")
        before, plan = self._bank.changes(), self._plan(chaos)
        load = self._bank.load(transactions, rate, accounts)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task("pgbench transactions", total=transactions)
            while load.poll() is None or plan:
                done = self._bank.transactions()
                progress.update(task, completed=done)
                while plan and (load.poll() is not None or done >= plan[0][0] * transactions):
                    self.say(plan.pop(0)[1]())
                self._bank.supervise()
                time.sleep(0.2)
        if load.returncode:
            raise FirnError(f"pgbench failed: see {self._bank.folder / 'pgbench.log'}")
        self._report.transactions = self._bank.transactions()
        self._report.changes = self._bank.changes() - before
        self.say(f"{self._report.transactions:,} transactions made {self._report.changes:,} changes", mark="load")

    def finish(self) -> None:
        """Deliver, commit, account for everything and compare."""
        with self._console.status("handing over") as status:
            self._bank.delivered(self._signal, status.update)
        self.say("everything is handed over", mark="delivered")
        with self._console.status("committing") as status:
            flush(self._bank.firn.stack(), STREAM, report=lambda name, text: status.update(f"{name}: {text}"))
        self.say("everything is committed", mark="committed")
        audit = self._bank.run_firn("audit", STREAM, "--dir", str(self._bank.firn.folder))
        self._report.audit = audit.returncode == 0
        if audit.returncode:
            self._console.print(audit.stdout + audit.stderr, markup=False)
        self._report.tables = self._bank.compare()
        catalog = catalog_of(self._bank.firn.stack())
        self._report.snapshots = {
            one.table: len(history(find_table(catalog, f"{STREAM}.{one.table}"))) for one in self._report.tables
        }
        self._report.debezium_starts = self._bank.debezium.starts
        self._report.debezium_ended_by_itself = self._bank.debezium_ended

    def say(self, text: str, mark: str = "") -> None:
        """A line with the time since the start."""
        seconds = time.monotonic() - self._started
        if mark:
            self._report.seconds[mark] = round(seconds, 1)
        self._report.events.append(f"{seconds:.1f} s: {text}")
        self._console.print(f"[dim]{seconds:6.1f} s[/dim]  [bold]{text}[/bold]")

    def _plan(self, chaos: bool) -> list[tuple[float, Callable[[], str]]]:
        """When what happens: after which part of the load, and what."""
        plan: list[tuple[float, Callable[[], str]]] = [
            (0.1 + 0.2 * n, partial(self._change, n)) for n in range(len(SCHEMA_CHANGES))
        ]
        if chaos:
            plan += [(0.2, self._kill_debezium), (0.4, self._bank.restart_firn), (0.55, self._kill_debezium)]
        return sorted(plan, key=lambda one: one[0])

    def _change(self, number: int) -> str:
        change = SCHEMA_CHANGES[number]
        self._signal = make(change, number, self._bank.postgres, self._bank.firn) or self._signal
        again = f"; {', '.join(change.read_again)} read again" if change.read_again else ""
        return f"schema: {change.what}{again}"

    def _kill_debezium(self) -> str:
        self._bank.kill_debezium()
        return "Debezium Server killed (SIGKILL) and started again"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; -> its exit code."""
    given = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # in order, as Ctrl-C does
    console = Console(stderr=given.json, highlight=False)
    folder = Path(tempfile.mkdtemp(prefix="firn-postgres-"))
    report, bank = Report(given.sink, given.signed), None
    try:
        java, postgres = tools()
        with console.status("Debezium Server (the first time it is fetched: 780 MB)"):
            program = fetching.debezium_server()
        bank = Bank(folder, postgres, java, program, given.sink, signed=given.signed)
        with console.status("starting PostgreSQL, Firn and Debezium Server"):
            bank.start(given.accounts)
        run = Run(bank, console, report)
        run.say(f"PostgreSQL, Debezium Server ({given.sink} sink) and Firn ({bank.firn.stack().url}) are up")
        run.load(given.transactions, given.rate, given.accounts, chaos=given.chaos)
        run.finish()
    except needs.Missing as missing:
        print(f"example-postgres: skipped: {missing}", file=sys.stderr)
        return needs.SKIPPED
    except FirnError as error:
        print(f"example-postgres: {error}\nall logs are in {folder}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("example-postgres: stopped", file=sys.stderr)
        return 130
    finally:
        if bank is not None:
            bank.stop()
        if report.ok or bank is None:
            shutil.rmtree(folder, ignore_errors=True)
    _show(report, console, as_json=given.json)
    if not report.ok:
        console.print(f"NOT everything is equal; all logs are in {folder}")
    return 0 if report.ok else 1


def tools() -> tuple[Path, Path]:
    """The machine's java and PostgreSQL. Raises Missing with all that is not there."""
    java, postgres = needs.java(_JAVA), needs.postgres()
    lacks = [text for text, found in ((needs.JAVA_21, java), (needs.POSTGRES, postgres)) if found is None]
    if java is None or postgres is None:
        raise needs.Missing(lacks)
    return java, postgres


def _show(report: Report, console: Console, *, as_json: bool) -> None:
    if as_json:
        print_json({**vars(report), "ok": report.ok})
        return
    console.rule("[bold]Against PostgreSQL's own tables[/bold]", align="left")
    rows: list[tuple[Any, ...]] = [
        (one.table, one.expected, one.equal, one.extra, report.snapshots[one.table], "equal" if one.ok else "NOT equal")
        for one in report.tables
    ]
    print_table(["table", "rows in PostgreSQL", "equal", "too many", "snapshots", ""], rows)
    console.print(f"firn audit: {'every event is accounted for' if report.audit else 'does NOT balance'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make example-postgres", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--sink", choices=("http", "sqs"), default="http", help="Debezium Server's sink (http)")
    parser.add_argument("--transactions", type=int, default=5_000, help="of pgbench, about 6 changes each (5000)")
    parser.add_argument("--rate", type=float, default=150, help="transactions a second at most (150)")
    parser.add_argument("--accounts", type=int, default=5_000, help="rows of pgbench_accounts (5000)")
    parser.add_argument(
        "--chaos", action="store_true", help="kill Debezium Server twice, and Firn's function host once"
    )
    parser.add_argument("--signed", action="store_true", help="the stream takes signed requests only (http)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser


if __name__ == "__main__":
    sys.exit(main())
