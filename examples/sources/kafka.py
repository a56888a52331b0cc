"""A Kafka broker of our own for the time of an example, and what happens to its topics."""

import base64
import json
import socket
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from examples.sources.fetching import ROOT
from examples.sources.processes import Server, ServerFailed, free_port, tail
from firn.deployment.stack import Stack

TOPICS = ROOT / "examples" / "kafka" / "topics.py"
POLLER = ROOT / "infra" / "local" / "firn_local" / "kafka_poller.py"
PYTHON = ROOT / ".venv-kafka" / "bin" / "python"


class KafkaBroker:
    """One node that is broker and controller (KRaft), on loopback, its log in `folder`."""

    def __init__(self, program: Path, java: Path, folder: Path) -> None:
        self.folder = folder
        port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": folder / "data",
            "num.partitions": 3,
            "auto.create.topics.enable": "true",
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        folder.mkdir(parents=True)
        self._file = folder / "server.properties"
        self._file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._java = [str(java), "-Xmx512m", "-cp", f"{program}/*"]
        self._server = Server("kafka", [*self._java, "kafka.Kafka", str(self._file)], folder)

    def start(self) -> None:
        """Format its storage, start it, and wait until it takes connections. Raises ServerFailed."""
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = [*self._java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._file)]
        done = subprocess.run(tool, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ServerFailed(f"Kafka's storage can't be made:\n{(done.stdout + done.stderr)[-2000:]}")
        self._server.start()
        self._server.wait(self._answers, 60)

    def kill(self) -> None:
        """SIGKILL, and a new start on the same log. Raises ServerFailed."""
        self._server.kill()
        self._server.log.unlink()
        self._server.start()
        self._server.wait(self._answers, 120)

    def stop(self) -> None:
        """End it; the folder stays."""
        self._server.stop()

    def _answers(self) -> bool:
        host, _, port = self.address.partition(":")
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return "Kafka Server started" in self._server.log.read_text(errors="replace")
        return False


class Topics:
    """What happens to topics, and how far Firn has come with them, by examples/kafka/topics.py."""

    def __init__(self, folder: Path, broker: KafkaBroker) -> None:
        folder.mkdir(parents=True)
        self._folder, self._brokers = folder, broker.address
        self._writer: subprocess.Popen[str] | None = None

    def start_writing(self, keys: int, records: int, rate: float) -> None:
        """Write rows of users, with tombstones among them."""
        counts = ["--keys", str(keys), "--records", str(records), "--rate", str(rate)]
        with (self._folder / "writer.log").open("wb") as errors:
            self._writer = subprocess.Popen(
                self._command("write", *counts), stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def written(self) -> dict[int, int]:
        """Wait for the end of it -> the rows that are left: key, version. Raises ServerFailed."""
        assert self._writer is not None  # noqa: S101
        said, _ = self._writer.communicate(timeout=600)
        if self._writer.returncode:
            raise ServerFailed(f"the rows were not written:\n{tail(self._folder / 'writer.log')}")
        return {int(key): int(version) for key, version in json.loads(said).items()}

    def grow(self, topics: str, partitions: int) -> list[str]:
        """Give them more partitions -> those that got some. Raises ServerFailed."""
        grown: list[str] = self._said("grow", "--topics", topics, "--partitions", str(partitions))
        return grown

    def lag(self) -> int:
        """How many messages the embedded stack's mapping has not got through. Raises ServerFailed."""
        behind: int = self._said("lag")
        return behind

    def all_again(self, stack: Stack, topics: list[str]) -> int:
        """Bring every message of these topics once more, as another mapping -> how many there were. Raises
        ServerFailed."""
        asked = {
            "url": f"{stack.url}/_firn/invoke/ingest_stream", "token": stack.token, "servers": self._brokers,
            "topics": topics, "batch_size": 777, "window": 0.2, "group": "once-more", "until_read": True,
        }  # fmt: skip
        log = self._folder / "once-more.log"
        with log.open("wb") as errors:
            done = subprocess.run(
                [str(PYTHON), "-P", str(POLLER)], input=json.dumps(asked), stdout=subprocess.PIPE, stderr=errors,
                text=True, check=False,
            )  # fmt: skip
        if done.returncode:
            raise ServerFailed(f"the second mapping ended with exit code {done.returncode}:\n{tail(log)}")
        return int(json.loads(done.stdout)["messages"])

    def stop(self) -> None:
        """End what still writes."""
        if self._writer is not None:
            self._writer.kill()
            self._writer.wait()

    def _said(self, *what: str) -> Any:
        done = subprocess.run(self._command(*what), capture_output=True, text=True, check=False)
        if done.returncode:
            raise ServerFailed(f"topics.py {what[0]}: {done.stderr.strip()[-1000:]}")
        return json.loads(done.stdout)

    def _command(self, what: str, *more: str) -> list[str]:
        return [str(PYTHON), str(TOPICS), what, "--brokers", self._brokers, *more]


def environment_is_there() -> bool:
    """Whether `make setup-kafka` has been run for this Python."""
    return PYTHON.exists() and sys.platform != "win32"
