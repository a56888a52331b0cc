"""PostgreSQL -> Debezium Server -> Kafka -> Firn, and somebody's own rows beside it: the embedded stack polls Kafka as
Lambda's mapping would. The broker, the function and the stack are killed in the midst, topics get more partitions, and
all of it is read twice. In the end every row is compared with PostgreSQL's own, and with what was written.
`make example-kafka` runs it.

Exit code 0: all rows are equal. 1: they are not, or something failed. 3: the machine lacks what the text says.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.sources import fetching, kafka, needs
from examples.sources.bank import STREAM, USERS, Bank
from examples.sources.postgres_to_firn import tools
from examples.sources.processes import ServerFailed
from firn.deployment.flush_run import flush
from firn.deployment.terminal import print_json, print_table
from firn.errors import FirnError
from firn_demo.comparing import Comparison

PARTITIONS = 7
"""Of each topic in the end; they begin with three."""


@dataclass
class Report:
    """What a run did. `events`: what was killed and changed; `messages`: all that is in Kafka, brought a second time;
    `users`: how many of the rows that were written are in their table as they are, `users_wrong` how many are not."""

    transactions: int = 0
    events: list[str] = field(default_factory=list)
    messages: int = 0
    seconds: float = 0.0
    audit: bool = False
    tables: list[Comparison] = field(default_factory=list)
    tables_after_all_again: list[Comparison] = field(default_factory=list)
    users: list[int] = field(default_factory=list)
    users_wrong: list[int] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Every row is equal, also after all was brought a second time."""
        both = (self.tables, self.tables_after_all_again)
        equal = all(tables and all(one.ok for one in tables) for tables in both)
        return self.audit and equal and self.users_wrong == [0, 0]


class Chaos:
    """What is done to Kafka and to Firn while the load runs, one after another."""

    def __init__(self, bank: Bank, broker: kafka.KafkaBroker, topics: kafka.Topics, kills: int) -> None:
        self._bank, self._broker, self._topics = bank, broker, topics
        self._steps = [self._function, self._kafka, self._more_partitions, self._stack][: max(0, kills)]
        self._steps += [self._function, self._kafka] * max(0, (kills - 3) // 2)
        self.all = len(self._steps)

    @property
    def done(self) -> int:
        """How many steps."""
        return self.all - len(self._steps)

    def next(self) -> str:
        """Do the next one -> what it was."""
        return self._steps.pop(0)()

    def _function(self) -> str:
        return f"{self._bank.firn.kill_functions()} processes of Firn's functions killed (SIGKILL)"

    def _kafka(self) -> str:
        self._broker.kill()
        return "Kafka's broker killed (SIGKILL) and started again"

    def _stack(self) -> str:
        self._bank.firn.kill()
        self._bank.firn.start()
        return "Firn's embedded stack killed (SIGKILL) and started again"

    def _more_partitions(self) -> str:
        grown = self._topics.grow(f"^({STREAM}[.]|{USERS}$)", PARTITIONS)
        return f"{len(grown)} topics have {PARTITIONS} partitions now"


def run(
    bank: Bank, broker: kafka.KafkaBroker, topics: kafka.Topics, given: argparse.Namespace, console: Console
) -> Report:
    """The load while things are killed, what is left, then all of it again."""
    report, started = Report(), time.monotonic()
    chaos = Chaos(bank, broker, topics, given.kills)
    topics.start_writing(given.users, given.records, given.records * given.rate / given.transactions)
    load = bank.load(given.transactions, given.rate, given.accounts)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("pgbench transactions", total=given.transactions)
        while load.poll() is None:
            done = bank.transactions()
            progress.update(task, completed=done)
            if chaos.done < chaos.all and done >= given.transactions * (chaos.done + 1) / (chaos.all + 1):
                report.events.append(f"{done:,} transactions: {chaos.next()}")
                console.print(report.events[-1])
            bank.supervise()
            time.sleep(0.1)
    _expect_done(load, bank)
    while chaos.done < chaos.all:  # a step took longer than its part of the load
        load = bank.load(given.transactions // (chaos.all + 1), given.rate, given.accounts)
        report.events.append(f"{bank.transactions():,} transactions: {chaos.next()}")
        console.print(report.events[-1])
        load.wait()
        _expect_done(load, bank)
        bank.supervise()
    report.transactions = bank.transactions()
    with console.status("Debezium Server hands over to Kafka") as status:
        bank.delivered("", status.update)
    with console.status("the rest is written"):
        expected = topics.written()
    with console.status("Firn reads the rest"):
        _read(bank, topics)
    _compare(report, bank, expected, console, report.tables)
    with console.status("all of it once more, by another mapping"):
        report.messages = topics.all_again(bank.firn.stack(), [f"{STREAM}.*", USERS])
    _compare(report, bank, expected, console, report.tables_after_all_again)
    report.seconds = round(time.monotonic() - started, 1)
    return report


def _expect_done(load: "subprocess.Popen[bytes]", bank: Bank) -> None:
    """Raises FirnError if pgbench failed."""
    if load.returncode:
        raise FirnError(f"pgbench failed: see {bank.folder / 'pgbench.log'}")


def _read(bank: Bank, topics: kafka.Topics, seconds: float = 600) -> None:
    """Wait until the mapping has committed every message. Raises ServerFailed."""
    deadline = time.monotonic() + seconds
    while behind := topics.lag():
        if time.monotonic() > deadline:
            raise ServerFailed(f"{behind:,} messages are not read: see {bank.firn.folder / 'logs' / 'kafka.log'}")
        time.sleep(1)


def _compare(report: Report, bank: Bank, expected: dict[int, int], console: Console, tables: list[Comparison]) -> None:
    """Commit, then compare all tables."""
    first = not report.users
    for stream in (STREAM, USERS):
        with console.status("committing") as status:
            flush(bank.firn.stack(), stream, report=lambda name, text: status.update(f"{name}: {text}"))
        audit = bank.run_firn("audit", stream, "--dir", str(bank.firn.folder))
        if audit.returncode:
            console.print(audit.stdout + audit.stderr, markup=False)
        report.audit = (report.audit or first) and audit.returncode == 0
        first = False
    tables += bank.compare()
    there = bank.users()
    report.users.append(sum(there.get(key) == version for key, version in expected.items()))
    report.users_wrong.append(sum(there.get(key) != expected.get(key) for key in {*there, *expected}))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; -> its exit code."""
    given = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(stderr=given.json, highlight=False)
    folder, report = Path(tempfile.mkdtemp(prefix="firn-kafka-")), Report()
    bank: Bank | None = None
    broker: kafka.KafkaBroker | None = None
    topics: kafka.Topics | None = None
    try:
        java, postgres = tools()
        if not kafka.environment_is_there():
            raise needs.Missing(["Kafka's client\n      make setup-kafka"])
        with console.status("Kafka and Debezium Server (the first time they are fetched: 45 and 780 MB)"):
            jars, program = fetching.kafka_broker(), fetching.debezium_server()
        broker = kafka.KafkaBroker(jars, java, folder / "kafka")
        bank = Bank(folder, postgres, java, program, "kafka", kafka=broker.address)
        with console.status("starting Kafka, PostgreSQL, Firn and Debezium Server"):
            broker.start()
            bank.start(given.accounts)
        topics = kafka.Topics(folder / "topics", broker)
        report = run(bank, broker, topics, given, console)
    except needs.Missing as missing:
        print(f"example-kafka: skipped: {missing}", file=sys.stderr)
        return needs.SKIPPED
    except FirnError as error:
        print(f"example-kafka: {error}\nall logs are in {folder}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("example-kafka: stopped", file=sys.stderr)
        return 130
    finally:
        for part in (topics, bank, broker):
            if part is not None:
                with suppress(Exception):
                    part.stop()
        if report.ok or bank is None:
            shutil.rmtree(folder, ignore_errors=True)
    _show(report, console, as_json=given.json)
    if not report.ok:
        console.print(f"NOT everything is equal; all logs are in {folder}")
    return 0 if report.ok else 1


def _show(report: Report, console: Console, *, as_json: bool) -> None:
    if as_json:
        print_json({**vars(report), "ok": report.ok})
        return
    console.print(f"{report.transactions:,} transactions; then all {report.messages:,} messages a second time")
    console.rule("[bold]Against PostgreSQL's own tables[/bold]", align="left")
    pairs = zip(report.tables, report.tables_after_all_again, strict=True)
    print_table(
        ["table", "rows in PostgreSQL", "equal", "too many", "equal after all again", "too many"],
        [(one.table, one.expected, one.equal, one.extra, two.equal, two.extra) for one, two in pairs],
    )
    wrong = " and ".join(map(str, report.users_wrong))
    console.print(f"users: {' and '.join(map(str, report.users))} rows as they were written, {wrong} wrong")
    console.print(f"firn audit: {'every event is accounted for' if report.audit else 'does NOT balance'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make example-kafka", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--transactions", type=int, default=3_000, help="of pgbench, about 6 changes each (3000)")
    parser.add_argument("--rate", type=float, default=100, help="transactions a second at most (100)")
    parser.add_argument("--accounts", type=int, default=2_000, help="rows of pgbench_accounts (2000)")
    parser.add_argument("--users", type=int, default=300, help="keys of the rows beside (300)")
    parser.add_argument("--records", type=int, default=9_000, help="records of them, as long as pgbench runs (9000)")
    parser.add_argument("--kills", type=int, default=4, help="how many things happen: function, broker, … (4)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser


if __name__ == "__main__":
    sys.exit(main())
