"""Runs a case as a process and measures it from outside: CPU seconds and peak memory of the whole process tree.

A case writes JSON lines to standard output: {"begin": …} before what is timed, then a line with `seconds`. Between the
two its tree's CPU time is taken, and its resident memory looked at twenty times a second. Other lines are kept as text.
"""

import json
import os
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil

from benchmarks.results import ROOT

PYTHON = {"firn": ROOT / ".venv" / "bin" / "python", "peer": ROOT / ".venv-bench" / "bin" / "python"}


@dataclass
class Ran:
    """What a case said. `runs`: its lines with `seconds`, with `cpu` (seconds) and `peak` (MB) added."""

    code: int
    runs: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""


def run(where: str, module: str, *arguments: object, environment: dict[str, str] | None = None) -> Ran:
    """Runs `python -m module arguments…` in the environment `where`, firn or peer."""
    command = [str(PYTHON[where]), "-m", module, *map(str, arguments)]
    env = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    tree, ran = _Tree(process.pid), Ran(0)
    assert process.stdout is not None
    for line in process.stdout:
        said = _json(line)
        if "begin" in said:
            tree.begin()
        elif "seconds" in said:
            ran.runs.append(said | tree.end())
        else:
            ran.text += line
    ran.code = process.wait()
    tree.close()
    return ran


def _json(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line) if line.startswith("{") else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class _Tree:
    """A process and all below it."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._peak = 0
        self._began: dict[str, float] = {}
        self._closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self) -> None:
        self._began, self._peak = self._cpu(), self._resident()

    def end(self) -> dict[str, float]:
        now = self._cpu()
        self._peak = max(self._peak, self._resident())
        cpu = {kind: now[kind] - self._began.get(kind, 0.0) for kind in now}
        told = {f"cpu_{kind}": round(seconds, 2) for kind, seconds in cpu.items()}
        return {"cpu": round(sum(cpu.values()), 2), "peak": self._peak // 2**20} | (told if len(cpu) > 1 else {})

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(0.05):
            self._peak = max(self._peak, self._resident())

    def _all(self) -> Sequence[psutil.Process]:
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.Error:
            return []

    def _cpu(self) -> dict[str, float]:
        """Seconds of the driver, of the JVM and of what the JVM has started (Python workers)."""
        total: dict[str, float] = {}
        below_java: set[int] = set()
        for process in self._all():
            try:
                times, java, parent = process.cpu_times(), process.name() == "java", process.ppid()
            except psutil.Error:
                continue
            if java or parent in below_java:
                below_java.add(process.pid)
            kind = "jvm" if java else "workers" if process.pid in below_java else "driver"
            # Of children that have ended, too: workers come and go.
            ended = times.children_user + times.children_system
            total[kind] = total.get(kind, 0.0) + times.user + times.system + (0.0 if java else ended)
        return total

    def _resident(self) -> int:
        total = 0
        java: set[int] = set()
        for process in self._all():
            try:
                memory, name, parent = process.memory_info().rss, process.name(), process.ppid()
            except psutil.Error:
                continue
            if name == "java":
                java.add(process.pid)
                if parent in java:
                    continue  # a JVM about to start a command: a fork that shares all of its pages
            total += memory
        return total
