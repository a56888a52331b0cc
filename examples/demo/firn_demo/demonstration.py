"""`firn demo`: 55,462 change events of a bank over HTTP and a shop's over SQS, committed in two
steps, queried, read as of the first step, and compared with PostgreSQL's own final state.

Exit code 0 only if every row of every table is equal.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from firn.deployment.delivery import Sent, post, send_to_queue
from firn.deployment.event_files import Batch, cut, read_lines
from firn.deployment.flush_run import flush
from firn.deployment.stack import Stack
from firn.deployment.terminal import print_table, size
from firn.errors import FirnError
from firn_demo.corpus import EXAMPLES, PGBENCH, PGBENCH_EVENTS, SHOP, compare_all
from firn_demo.embedded import running_stack
from firn_demo.storages import Storage, storage_of
from firn_lake.catalogs.stack_catalog import catalog_of
from firn_lake.sql.query import query
from firn_lake.tables import find_table, history, list_tables
from firn_local.spark_preparation import SparkLacks, bring_jars

FIRST_PART = 30_000
NOW = """SELECT tid AS teller, tbalance AS balance, sum(delta)::BIGINT AS history_says, count(*) AS transactions
FROM bank.tellers JOIN bank.history USING (tid) GROUP BY ALL ORDER BY tbalance DESC LIMIT 5"""
THEN = "SELECT count(*) AS transactions, sum(delta)::BIGINT AS moved FROM bank.history"

console = Console(highlight=False)


def demonstrate(keep: bool, options: Sequence[str] = (), storage: str | Storage = "s3") -> int:
    """Run the demo; -> its exit code. `keep` leaves the stack up afterwards; `options`: more of firn_local's;
    `storage`: one of firn_demo.storages by its name, or another that is there."""
    if keep and storage == "versitygw":
        print("demo: versitygw ends with the demo, and a stack that is kept would be without it", file=sys.stderr)
        return 2
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="firn-demo-"))
    try:
        bring_jars()  # here, with a progress bar: the stack's own output goes to a file
        with ExitStack() as running:
            with console.status("starting the embedded stack"):
                where = running.enter_context(storage_of(storage, folder)) if isinstance(storage, str) else storage
                config = EXAMPLES.parent / "firn.yaml"
                stack = running.enter_context(running_stack(folder, config, *options, keep=keep, storage=where))
            _say(f"The embedded stack is up at {stack.url}, storage {where.name}", started)
            equal = _run(stack, started)
    except (FirnError, SparkLacks) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: stopped, and the stack with it", file=sys.stderr)
        return 130
    _say("every row is equal" if equal else "NOT all rows are equal", started)
    if keep:
        _how_to_use(stack)
    return 0 if equal else 1


def _run(stack: Stack, started: float) -> bool:
    pgbench, shop = read_lines(PGBENCH), read_lines(SHOP)
    _post(stack, islice(pgbench, FIRST_PART), FIRST_PART)
    _commit(stack, "pgbench")
    between = time.time()
    _say("the first part is committed: one Iceberg snapshot a table", started)
    _post(stack, pgbench, PGBENCH_EVENTS - FIRST_PART)
    _queue(stack, shop)
    _commit(stack, None)
    _say("the rest is in too", started)
    _show(stack, int(between * 1000))
    comparisons = list(compare_all(catalog_of(stack)))
    console.rule("[bold]Against PostgreSQL's own final state[/bold]", align="left")
    for one in comparisons:
        console.print(f"  {'[green]✓[/green]' if one.ok else '[red]✗[/red]'} {one.line()}")
    return all(one.ok for one in comparisons)


def _post(stack: Stack, pgbench: Iterator[tuple[bytes, int]], events: int) -> None:
    sent = Sent()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("pgbench over HTTP", total=events)

        def batches() -> Iterator[tuple[Batch, int]]:
            for batch in cut(pgbench, max_bytes=1_000_000):
                yield batch, 0
                progress.update(task, completed=sent.events)

        post(stack, "pgbench", batches(), sent)
    console.print(
        f"  {sent.events:,} events, {size(sent.bytes)} in {sent.batches} requests: {sent.accepted:,} accepted, "
        f"{sent.ignored:,} ignored (tombstones), {sent.rejected:,} rejected"
    )


def _queue(stack: Stack, shop: Iterator[tuple[bytes, int]]) -> None:
    sent = Sent()
    send_to_queue(stack, "shop", ((batch, 0) for batch in cut(shop)), sent)
    console.print(f"  shop: {sent.events} events as messages on the queue")


def _commit(stack: Stack, stream: str | None) -> None:
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, Any] = {}

        def report(name: str, text: str) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task("")
            progress.update(tasks[name], description=f"{name}: {text}")

        results = flush(stack, stream, report=report, timeout=300)
    for one in results:
        console.print(
            f"  {one.stream}: {one.events:,} changes sealed and committed up to epoch {one.epoch}, {one.seconds:.1f} s"
        )


def _show(stack: Stack, between: int) -> None:
    catalog = catalog_of(stack)
    console.rule("[bold]The tables[/bold] (firn tables)", align="left")
    print_table(
        ["table", "rows", "snapshots", "size", "mode", "key"],
        [
            (one.name, one.rows, one.snapshots, size(one.size_bytes), one.mode, ", ".join(one.key) or None)
            for one in list_tables(catalog)
        ],
    )
    console.rule("[bold]Their snapshots[/bold] (firn history bank.accounts, …)", align="left")
    print_table(
        ["table", "snapshot", "UTC", "added", "deleted", "rows", "epoch"],
        [
            (name, str(one.id), f"{one.time:%H:%M:%S}", one.added, one.deleted, one.total, epochs)
            for name in ("bank.accounts", "bank.history", "shop.orders")
            for one in history(find_table(catalog, name))
            for epochs in [", ".join(f"{stream} {n}" for stream, n in one.epochs.items())]
        ],
    )
    console.rule("[bold]A query[/bold] (firn query): does each teller's balance agree with the history?", align="left")
    console.print(NOW, style="dim", markup=False)
    _table(query(catalog, NOW))
    console.rule(
        "[bold]Time travel[/bold] (firn query --as-of): the history now, and after the first part", align="left"
    )
    console.print(THEN, style="dim", markup=False)
    _table(query(catalog, THEN))
    console.print(f"--as-of {between}", style="dim")
    _table(query(catalog, THEN, as_of=between))


def _table(result: Any) -> None:
    print_table(result.column_names, list(zip(*(column.to_pylist() for column in result.columns), strict=True)))


def _say(text: str, started: float) -> None:
    console.print(f"[dim]{time.monotonic() - started:5.1f} s[/dim]  [bold]{text}[/bold]")


def _how_to_use(stack: Stack) -> None:
    print(
        f"""
The stack is still up (process {stack.pid}):
  firn tables --dir {stack.dir}
  firn query "FROM shop.orders" --dir {stack.dir}
  curl {stack.url}/v1/streams
It commits when asked to:  firn flush --dir {stack.dir}
Stop it:                   kill {stack.pid} && rm -r {stack.dir}"""
    )
