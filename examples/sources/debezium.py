"""Debezium Server as a process, with the properties that `firn init --from` wrote and what an example adds to them."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from examples.sources.processes import Server, free_port, tail

_WHY_IT_ENDED = (" ERROR ", "Connector completed", "Caused by: ")
_NOTIFICATION, _COMPLETED = "aggregateType='Incremental Snapshot'", "type='COMPLETED'"


class DebeziumServer:
    """Runs in `folder`: config/application.properties, data/offsets.dat (how far it has come), and its log.

    `environment` holds the secrets that the properties name; they are in no file.
    """

    def __init__(self, program: Path, java: Path, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self._port = folder, free_port()
        runner = next(program.glob("*-runner.jar"))
        # It runs for minutes and is killed often: the optimising compiler would only slow its starts down.
        # Quarkus asks for the opened module from Java 24 on.
        options = ["-Xmx768m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        options += ["--add-opens", "java.base/java.lang=ALL-UNNAMED"]
        command: list[str | Path] = [java, *options, "-cp", f"{runner}:{program}/lib/*", "io.debezium.server.Main"]
        (folder / "config").mkdir(parents=True)
        (folder / "data").mkdir()  # without it Debezium Server runs, warns, and forgets how far it has come
        self._server = Server("debezium-server", command, folder, environment=environment)
        self.log, self.starts = self._server.log, 0

    @property
    def running(self) -> bool:
        """Started and not ended."""
        return self._server.running

    def configure(self, properties: str, more: Mapping[str, str]) -> None:
        """Write application.properties: `properties` (their text), and `more` that go before them."""
        ours = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self._port),
            "quarkus.log.console.json": "false",
            "debezium.source.notification.enabled.channels": "log",
            **more,
        }
        kept = [line for line in properties.splitlines() if line.partition("=")[0] not in ours]
        text = "\n".join([*kept, *(f"{name}={value}" for name, value in ours.items())]) + "\n"
        (self.folder / "config" / "application.properties").write_text(text)

    def start(self, *, wait: bool = True) -> None:
        """Start it, and wait until it is up. Raises ServerFailed."""
        self._server.start()
        self.starts += 1
        if wait:
            self._server.wait(self._up, 120)

    def kill(self) -> None:
        """SIGKILL."""
        self._server.kill()

    def stop(self) -> None:
        """SIGTERM: it finishes what it has in hand."""
        self._server.stop(30)

    def last_error(self) -> str:
        """Why it ended, as its log says, "" if it does not."""
        lines = [line for line in tail(self.log, 400).splitlines() if any(word in line for word in _WHY_IT_ENDED)]
        return "\n".join(line[:300] for line in lines[-4:])

    def has_read_again(self, signal: str) -> bool:
        """Whether the incremental snapshots are done that this signal (its id) and all before it asked for. Its
        notifications in the log say so, of the last one alone where one asks while another is under way."""
        lines = self.log.read_text(errors="replace").splitlines()
        return any(_NOTIFICATION in line and signal in line and _COMPLETED in line for line in lines)

    def _up(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/q/health", timeout=5) as answer:
                return bool(json.load(answer)["status"] == "UP")
        except (urllib.error.URLError, OSError, ValueError, KeyError):
            return False
