"""PostgreSQL -> Debezium Server -> Kafka -> Firn: a small consumer reads Debezium's messages with their keys and posts
them; it is killed in the middle, and all of it is read twice. In the end every row is compared with PostgreSQL's own.
`make example-kafka` runs it.

Exit code 0: all rows are equal. 1: they are not, or something failed. 3: the machine lacks what the text says.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.demo.comparing import Comparison
from examples.sources import fetching, kafka, needs
from examples.sources.bank import STREAM, Bank
from examples.sources.postgres_to_firn import tools
from firn.deployment.flush_run import flush
from firn.deployment.terminal import print_json, print_table
from firn.errors import FirnError


@dataclass
class Report:
    """What a run did. `killed`: the consumer, by SIGKILL; `ended_by_itself`: and started again. `messages`: all that is
    in Kafka, posted a second time by another group; `again`: how many ranges were posted twice after a kill."""

    transactions: int = 0
    killed: int = 0
    ended_by_itself: int = 0
    again: int = 0
    messages: int = 0
    seconds: float = 0.0
    audit: bool = False
    tables: list[Comparison] = field(default_factory=list)
    tables_after_all_again: list[Comparison] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Every row is equal, also after all was posted a second time."""
        both = (self.tables, self.tables_after_all_again)
        return self.audit and all(tables and all(one.ok for one in tables) for tables in both)


def run(bank: Bank, consumer: kafka.KafkaConsumer, given: argparse.Namespace, console: Console) -> Report:
    """The load with a consumer that is killed, what is left, then all of it again."""
    report, started = Report(), time.monotonic()
    consumer.start()
    load = bank.load(given.transactions, given.rate, given.accounts)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("pgbench transactions", total=given.transactions)
        while load.poll() is None:
            done = bank.transactions()
            progress.update(task, completed=done)
            if report.killed < given.kills and done >= given.transactions * (report.killed + 1) / (given.kills + 1):
                consumer.kill()
                report.killed += 1
                console.print(f"consumer killed (SIGKILL) and started again at {done:,} transactions")
            report.ended_by_itself += consumer.supervise()
            bank.supervise()
            time.sleep(0.1)
    if load.returncode:
        raise FirnError(f"pgbench failed: see {bank.folder / 'pgbench.log'}")
    report.transactions = bank.transactions()
    with console.status("Debezium Server hands over to Kafka") as status:
        bank.delivered("", status.update)
    with console.status("the consumer reads the rest"):
        consumer.stop()
        consumer.until_read()
    report.again = consumer.log.read_text().count(" again")
    report.tables, report.audit = _committed(bank, console)
    with console.status("all of it once more, by another consumer group"):
        report.messages = consumer.until_read("once-more")["messages"]
    report.tables_after_all_again, audit = _committed(bank, console)
    report.audit = report.audit and audit
    report.seconds = round(time.monotonic() - started, 1)
    return report


def _committed(bank: Bank, console: Console) -> tuple[list[Comparison], bool]:
    with console.status("committing") as status:
        flush(bank.firn.stack(), STREAM, report=lambda name, text: status.update(f"{name}: {text}"))
    audit = bank.run_firn("audit", STREAM, "--dir", str(bank.firn.folder))
    if audit.returncode:
        console.print(audit.stdout + audit.stderr, markup=False)
    return bank.compare(), audit.returncode == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; -> its exit code."""
    given = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(stderr=given.json, highlight=False)
    folder, report = Path(tempfile.mkdtemp(prefix="firn-kafka-")), Report()
    bank: Bank | None = None
    broker: kafka.KafkaBroker | None = None
    consumer: kafka.KafkaConsumer | None = None
    try:
        java, postgres = tools()
        if not kafka.environment_is_there():
            raise needs.Missing(["the consumer's environment\n      make setup-kafka"])
        with console.status("Kafka and Debezium Server (the first time they are fetched: 45 and 780 MB)"):
            jars, program = fetching.kafka_broker(), fetching.debezium_server()
        broker = kafka.KafkaBroker(jars, java, folder / "kafka")
        bank = Bank(folder, postgres, java, program, "kafka", signed=given.signed, kafka=broker.address)
        with console.status("starting Kafka, PostgreSQL, Firn and Debezium Server"):
            broker.start()
            bank.start(given.accounts)
        secret = bank.secret_file if given.signed else None
        consumer = kafka.KafkaConsumer(folder / "consumer", broker, bank.firn.stack().url, STREAM, secret)
        report = run(bank, consumer, given, console)
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
        for part in (consumer, bank, broker):
            if part is not None:
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
    console.print(
        f"{report.transactions:,} transactions; the consumer was killed {report.killed} times, {report.again} ranges "
        f"were posted again and known; then all {report.messages:,} messages a second time"
    )
    console.rule("[bold]Against PostgreSQL's own tables[/bold]", align="left")
    pairs = zip(report.tables, report.tables_after_all_again, strict=True)
    print_table(
        ["table", "rows in PostgreSQL", "equal", "too many", "equal after all again", "too many"],
        [(one.table, one.expected, one.equal, one.extra, two.equal, two.extra) for one, two in pairs],
    )
    console.print(f"firn audit: {'every event is accounted for' if report.audit else 'does NOT balance'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make example-kafka", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--transactions", type=int, default=3_000, help="of pgbench, about 6 changes each (3000)")
    parser.add_argument("--rate", type=float, default=150, help="transactions a second at most (150)")
    parser.add_argument("--accounts", type=int, default=2_000, help="rows of pgbench_accounts (2000)")
    parser.add_argument("--kills", type=int, default=3, help="how often the consumer is killed (3)")
    parser.add_argument("--signed", action="store_true", help="the stream takes signed requests only")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser


if __name__ == "__main__":
    sys.exit(main())
