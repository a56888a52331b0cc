"""`python -m examples.deployed`: deploy with SAM to LocalStack, post 55,462 events of a bank to the deployed API and a
shop's to the deployed queue, wait until the deployed schedule has committed them, and compare every table with
PostgreSQL's own final state.

Exit code 0 only if every row is equal and every event is accounted for. A second run changes nothing.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from examples.deployed.proving import Proof, all_is_in, prove
from examples.deployed.sending import Handed, send_all
from examples.deployed.updating import Update, before
from examples.deployed.waiting import wait_for_the_schedule
from firn.errors import FirnError
from firn_demo.corpus import PGBENCH_EVENTS
from firn_deploy.__main__ import add_options
from firn_deploy.deploying import Deployed, Options, deploy
from firn_deploy.showing import Steps
from firn_local.intrinsics import TemplateError

STREAMS = ("pgbench", "shop")


def main(arguments: list[str] | None = None) -> int:
    """Run it; -> the exit code."""
    parser = argparse.ArgumentParser(prog="make deploy-local", description=__doc__.partition("\n\n")[0])
    add_options(parser)
    parser.add_argument("--port", type=int, help="LocalStack's port, 0 for a free one (default 4566)")
    parser.add_argument("--seconds", type=float, default=420, help="how long to wait for the schedule's commits")
    parser.add_argument(
        "--update-while-posting", action="store_true", help="update the stack while the events are posted"
    )
    given = parser.parse_args(arguments)
    steps = Steps(as_json=given.json)
    try:
        result = _run(given, steps)
    except (FirnError, TemplateError) as error:
        print(f"deploy-local: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("deploy-local: stopped; what was started runs on (make undeploy-local)", file=sys.stderr)
        return 130
    if given.json:
        print(json.dumps(result))
    return 0 if result["ok"] else 1


def _run(given: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    options = Options(folder=given.dir, port=given.port)
    update = Update(options, PGBENCH_EVENTS // 5, PGBENCH_EVENTS * 9 // 10) if given.update_while_posting else None
    deployed = deploy(before(options) if update else options, steps.step)
    steps.say(f"deployed at {deployed.stack.url}: {', '.join(deployed.changed) or 'nothing was to be changed'}")
    known = all_is_in(deployed.stack)
    if known:
        steps.say("the tables are equal to PostgreSQL's already: the queue's messages are not sent a second time")
    handed = _send(deployed, steps, queue=not known, update=update)
    during = None
    if update is not None:
        during = update.events_meanwhile()
        steps.say(f"the stack was updated meanwhile: {during:,} events were acknowledged in the course of it")
    with steps.console.status("waiting for the schedule") as status:
        wait_for_the_schedule(deployed.stack, STREAMS, lambda text: status.update(f"waiting: {text}"), given.seconds)
    steps.say("the deployed schedule has committed everything")
    proof = prove(deployed.stack, STREAMS)
    _show(proof, steps)
    ok = proof.holds and during != 0
    verdict = "every row is equal, every event accounted for" if ok else "NOT everything holds"
    steps.say(f"[bold]{verdict}[/bold]")
    _how_to_use(deployed, given.dir, steps)
    return _result(deployed, handed, proof) | {
        "ok": ok,
        "events_during_update": during,
        "seconds": round(steps.seconds, 1),
    }


def _send(deployed: Deployed, steps: Steps, *, queue: bool, update: Update | None) -> Handed:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=steps.console, transient=True) as progress:
        task = progress.add_task("posting", total=PGBENCH_EVENTS)
        handed = send_all(
            deployed.stack,
            lambda done, of: progress.update(task, completed=done, total=of),
            queue=queue,
            between=update.between if update else lambda _: None,
        )
    sent = handed.pgbench
    steps.say(
        f"pgbench over HTTP: {sent.events:,} events in {sent.batches} requests, {sent.duplicates} of them there already"
    )
    if queue:
        steps.say(f"shop: {handed.shop.events} events as messages on the queue")
    return handed


def _show(proof: Proof, steps: Steps) -> None:
    for table in proof.tables:
        steps.say(f"{'[green]✓[/green]' if table.ok else '[red]✗[/red]'} {table.line()}")
    for one in proof.audits:
        found = f"{one.acked:,} acknowledged = {one.merged:,} merged + {one.superseded:,} superseded"
        rest = f" + {sum(one.ignored.values()):,} ignored + {one.pending:,} pending + {one.dead:,} dead"
        steps.say(f"{'[green]✓[/green]' if one.balanced else '[red]✗[/red]'} {one.stream}: {found}{rest}")


def _how_to_use(deployed: Deployed, folder: Path, steps: Steps) -> None:
    where = "" if folder == Path(".localstack") else f" --dir {folder}"
    steps.console.print(
        f"""
The deployment is up, and commits by itself every minute:
  events     POST {deployed.stack.url}/v1/streams/{{stream}}
  queue      {deployed.stack.queues["Queue"]}
  AWS        {deployed.stack.env["AWS_ENDPOINT_URL"]} (LocalStack, stack {Options().name}; keys test/test, us-east-1)
  tables     firn tables --dir {folder}    firn query "FROM shop.orders" --dir {folder}
  logs       {folder}/functions, Spark's in {folder}/jobs
Stop it:     {f".venv/bin/python -m firn_deploy down{where}" if where else "make undeploy-local"}""",
        markup=False,
        soft_wrap=True,
    )


def _result(deployed: Deployed, handed: Handed, proof: Proof) -> dict[str, Any]:
    return {
        "url": deployed.stack.url,
        "queue": deployed.stack.queues["Queue"],
        "aws_endpoint": deployed.stack.env["AWS_ENDPOINT_URL"],
        "changed": deployed.changed,
        "sent": asdict(handed),
        "tables": [{**asdict(one), "ok": one.ok} for one in proof.tables],
        "audits": {one.stream: {"balanced": one.balanced, **asdict(one)} for one in proof.audits},
    }


if __name__ == "__main__":
    sys.exit(main())
