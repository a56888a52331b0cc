"""The embedded stack in the foreground: what `firn up` runs, and what it says."""

import logging
import signal
import sys
import threading
from collections.abc import Callable

from firn.config.catalogs import shown
from firn_local import commit_progress
from firn_local.aws import REGION
from firn_local.claim import AlreadyRunning
from firn_local.config_process import NotReached
from firn_local.intrinsics import TemplateError
from firn_local.kept_catalog import OtherCatalog
from firn_local.other_s3 import NoOtherS3
from firn_local.serving import PortInUse
from firn_local.stack import Options, Stack, StackError
from firn_local.storage_choice import refusal


def up(options: Options, say: Callable[[str], None] = print) -> int:
    """Run the stack until Ctrl-C, SIGTERM or SIGHUP. Returns the exit code: 0, or 2 when it could not start."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    if (refused := refusal(options)) is not None:
        print(f"firn: {refused}", file=sys.stderr)
        return 2
    stopped = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, lambda *_: stopped.set())

    def greet(running: Stack) -> None:
        for line in greeting(running):
            say(line)

    stack = Stack(options, say, ready=greet)
    try:
        stack.start()
    except (StackError, NoOtherS3, OtherCatalog, NotReached, AlreadyRunning, PortInUse, TemplateError) as error:
        print(f"firn: {error}", file=sys.stderr)
        return 2
    try:
        commit_progress.say_until(stopped, stack.dir / "staging", stack.runner, say)
        say("stopping")
    finally:
        stack.stop()
    return 0


def greeting(stack: Stack) -> list[str]:
    """What people are told once it answers: addresses and folders."""
    about = stack.description
    where = "S3 in memory: gone when the stack stops" if stack.options.s3 else f"files in {stack.dir}"
    if stack.options.other_s3 is not None:
        where = f"S3 at {stack.options.other_s3.endpoint}"
        where += "" if stack.options.catalog else f", the catalog in {stack.dir}/other_s3"
    told = {"staging": stack.options.staging, "warehouse": stack.options.warehouse}
    elsewhere = [f"{what} at {url}" for what, url in told.items() if url]
    where = ", ".join([*elsewhere, *([] if len(elsewhere) == len(told) else [where])])
    catalog = [f"  catalog   {shown(stack.options.catalog)}"] if stack.options.catalog else []
    return [
        f"firn is up (process {about['pid']}); Ctrl-C stops it",
        f"  console   {about['url']}/console/",
        f"  events    POST {about['url']}/v1/streams/{{stream}}",
        *(f"  queue     {url}" for name, url in about["queues"].items() if name == "Queue"),
        f"  metrics   {about['url']}/metrics",
        f"  AWS       {about['aws_endpoint']} (S3, SQS: keys test/test, {REGION}; EMR Serverless: those in stack.json)",
        f"  storage   {where}",
        *catalog,
        f"  logs      {stack.dir}/logs, Spark's in {stack.dir}/jobs",
    ]
