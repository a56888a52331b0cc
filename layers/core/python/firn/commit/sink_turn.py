"""The commit job's part in file sinks: how they stand for the cut, and their turn once it is made."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from firn.commit.job_context import Work
from firn.config.model import StreamConfig
from firn.metrics import dead_lines
from firn.quarantine import rules as rules
from firn.sinks import state
from firn.sinks.standing import Configs, SinkLog, SinkStanding
from firn.sinks.state import SinkStates
from firn.sinks.turn import Turn, open_files


class SinkTurn:
    """The file sinks of one job's stream, looked at once."""

    def __init__(self, work: Work) -> None:
        """Raises ConfigError, StorageUnavailable, UnreadableBatch."""
        self._work = work
        self._known = SinkStates()
        self._log = SinkLog(work.store, work.stream, Configs(work.store, work.stream, [work.config]), work.known)
        self._standings: list[SinkStanding] = []
        if (work.before is not None and work.before.files) or self._named():
            self._known = state.read(work.store, work.stream)
            self._standings = self._log.standings(work.before, work.epochs, work.last, self._known)

    def _named(self) -> bool:
        return any(self._log.configs.sinks(sha) for sha in {epoch.config for epoch in self._work.epochs.values()})

    @property
    def files(self) -> dict[str, int]:
        """For the cut: the epoch up to which each sink has everything. One that firn.yaml no longer names is left out
        once it has all."""
        return {one.name: one.upto for one in self._standings if not one.ended or one.upto < one.last}

    def take(self, log: Callable[[dict[str, Any]], None], now: Callable[[], datetime]) -> None:
        """Writes what is due. Never raises an Exception: what could not even be noted, the next job finds."""
        work = self._work
        try:
            self._take(log, now)
        except Exception as error:  # noqa: BLE001 (the tables are in, and stay so)
            log({"stream": work.stream, "status": "no files written", "error": work.lake.failure(error).text})

    def _take(self, log: Callable[[dict[str, Any]], None], now: Callable[[], datetime]) -> None:
        if not self._standings:
            return
        work = self._work

        def count(written: Mapping[str, Mapping[str, int]]) -> None:
            for line in dead_lines(work.stream, written, now()):
                log(line)

        def commits(settings: StreamConfig) -> bool:
            return rules.tells_commits(work.before.high if work.before else None, settings.generation)

        def why(error: Exception) -> str:
            return work.lake.failure(error).text

        turn = Turn(self._log, work.lake.files, commits, why, now, log, count, open_files)
        turn.take(self._standings, self._known, work.last)
