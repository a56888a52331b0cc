"""The EMR Serverless endpoint as a process of its own: `python -m firn_deploy.emr FOLDER AWS_ENDPOINT PORT`.

It starts a real spark-submit for each StartJobRun (infra/local/firn_local), with S3 at AWS_ENDPOINT. {FOLDER}/emr.json
keeps the application, {FOLDER}/jobs the runs.
"""

import json
import logging
import signal
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from firn_deploy import DeployError
from firn_deploy.daemon import Daemon
from firn_deploy.localstack import credentials, plain_environment
from firn_deploy.sam import client
from firn_local.emr import EmrServerless
from firn_local.emr_runs import Runner
from firn_local.environment import REPOSITORY
from firn_local.serving import Server
from firn_local.spark_submit import SparkSubmit

RELEASE = "emr-spark-8.0.0"
STOP_SECONDS = 20.0
_START_SECONDS = 30.0


class Endpoint(NamedTuple):
    """Where it is, and the application that runs the jobs."""

    url: str
    application: str


def start(daemon: Daemon, folder: Path, aws_port: int) -> Endpoint:
    """Start it, at the address it had before if it had one: the functions know that one. Raises DeployError."""
    before = described(folder)
    port = before.url.rpartition(":")[2] if before else "0"
    (folder / "endpoint.json").unlink(missing_ok=True)
    paths = (REPOSITORY / "infra" / "localstack", REPOSITORY / "infra" / "local", REPOSITORY / "layers/core/python")
    daemon.start(
        [sys.executable, "-P", "-m", "firn_deploy.emr", str(folder), str(aws_port), port],
        {**plain_environment(), "PYTHONPATH": ":".join(map(str, paths)), "PYTHONUNBUFFERED": "1"},
    )
    deadline = time.monotonic() + _START_SECONDS
    while (found := described(folder)) is None:
        if not daemon.running() or time.monotonic() > deadline:
            raise DeployError(f"the EMR Serverless endpoint did not start; {daemon.log}:\n{daemon.tail()}")
        time.sleep(0.1)
    return found


def described(folder: Path) -> Endpoint | None:
    """What the endpoint of this folder said about itself."""
    try:
        said = json.loads((folder / "endpoint.json").read_text())
    except (OSError, ValueError):
        return None
    return Endpoint(str(said["url"]), str(said["application"]))


def main(folder: Path, aws_port: int, port: int) -> None:
    """Serve until SIGTERM; jobs that run then are killed."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    stopped = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: stopped.set())
    s3 = client(aws_port, "s3")

    def fetch(url: str) -> bytes:
        bucket, _, key = url.removeprefix("s3://").partition("/")
        content: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    runner = Runner(folder / "jobs", SparkSubmit(environment=credentials(aws_port)), fetch=fetch)
    emr = EmrServerless(runner, folder / "emr.json")
    server = Server(emr, port)
    server.start()
    said = {"url": server.url, "application": emr.ensure_application("firn", RELEASE)}
    new = folder / "endpoint.json.new"
    new.write_text(json.dumps(said) + "\n")
    new.replace(folder / "endpoint.json")
    stopped.wait()
    server.stop()
    runner.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
