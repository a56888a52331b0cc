"""A Kafka broker of our own for the time of an example, and examples/kafka/consumer.py as a process."""

import base64
import json
import os
import socket
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

from examples.sources.fetching import ROOT
from examples.sources.processes import Server, ServerFailed, free_port, tail

CONSUMER = ROOT / "examples" / "kafka" / "consumer.py"
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

    def stop(self) -> None:
        """End it; the folder stays."""
        self._server.stop()

    def _answers(self) -> bool:
        host, _, port = self.address.partition(":")
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return "Kafka Server started" in self._server.log.read_text(errors="replace")
        return False


class KafkaConsumer:
    """The consumer, as its user runs it, in the environment that `make setup-kafka` made."""

    def __init__(self, folder: Path, broker: KafkaBroker, url: str, stream: str, secret_file: Path | None) -> None:
        self._folder, self._environment = folder, {"PYTHONPATH": str(ROOT / "layers" / "core" / "python")}
        if secret_file:
            self._environment["FIRN_SECRET_FILE"] = str(secret_file)
        self._command = [str(PYTHON), str(CONSUMER), "--brokers", broker.address, "--url", url, "--stream", stream]
        self._command += ["--topics", f"^{stream}[.]", "--instance", "one"]
        folder.mkdir(parents=True)
        self._server = Server("consumer", self._command, folder, environment=self._environment)
        self.log = self._server.log

    def start(self) -> None:
        """Start it; it works until it is stopped."""
        self._server.start()

    def kill(self) -> None:
        """SIGKILL, and a new start."""
        self._server.kill()
        self._server.start()

    def stop(self) -> None:
        """SIGTERM: it finishes the range in hand."""
        self._server.stop(60)

    def supervise(self) -> bool:
        """Start it again if it has ended by itself -> whether it had."""
        if self._server.running:
            return False
        self._server.start()
        return True

    def until_read(self, group: str = "firn") -> dict[str, int]:
        """Forward what is there and end -> {"messages": …, "duplicates": …}. Raises ServerFailed."""
        command = [*self._command, "--group", group, "--until-read"]
        log = self._folder / f"until-read-{group}.log"
        with log.open("wb") as errors:
            done = subprocess.run(
                command, env={**os.environ, **self._environment}, stdout=subprocess.PIPE, stderr=errors, check=False
            )
        if done.returncode:
            raise ServerFailed(f"the consumer ended with exit code {done.returncode}:\n{tail(log)}")
        said: dict[str, int] = json.loads(done.stdout)
        return said


def environment_is_there() -> bool:
    """Whether `make setup-kafka` has been run for this Python."""
    return PYTHON.exists() and sys.platform != "win32"
