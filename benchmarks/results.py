"""What a suite found: cases with their runs, and the lines that must hold. Kept as JSON, one file a suite."""

import os
import platform
import re
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Case:
    """`runs`: seconds, cpu (seconds), peak (MB) of each. `right`: whether every result was the reference's; None where
    there is no table to compare. Cases of one group
    are compared with each other."""

    group: str
    who: str
    runs: list[dict[str, Any]] = field(default_factory=list)
    right: bool | None = None
    note: str = ""
    events: int = 0  # of one run; 0 where they are not counted

    def median(self, of: str = "seconds") -> float:
        """Of all runs; NaN if there is none."""
        found = [float(run[of]) for run in self.runs if of in run]
        return median(found) if found else float("nan")


@dataclass
class Must:
    """A line that must hold: `value` at most `most`. A value that could not be measured (NaN) does not hold."""

    text: str
    value: float
    most: float
    unit: str = ""

    @property
    def held(self) -> bool:
        return self.value <= self.most


@dataclass
class Plot:
    """A line for each of `lines`: (x, y) points. `log`: which axes are logarithmic, of "xy"."""

    name: str
    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]]
    log: str = ""


@dataclass
class Suite:
    """All of one suite's run."""

    name: str
    about: str
    date: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="minutes"))
    commit: str = field(default_factory=lambda: _git("rev-parse", "--short", "HEAD"))
    machine: str = field(default_factory=lambda: machine())
    quick: bool = False
    cases: list[Case] = field(default_factory=list)
    musts: list[Must] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    text: str = ""

    def case(self, group: str, who: str) -> Case:
        """The case of that group; one without runs if there is none, so that a ratio with it is NaN."""
        found = (case for case in self.cases if (case.group, case.who) == (group, who))
        return next(found, Case(group, who))

    def json(self) -> dict[str, Any]:
        """For a file; `suite_of` reads it."""
        return asdict(self)


def suite_of(said: dict[str, Any]) -> Suite:
    """Out of what `Suite.json` gave."""
    kinds = {"cases": Case, "musts": Must, "plots": Plot}
    parts: dict[str, Any] = {name: [kind(**one) for one in said.get(name, ())] for name, kind in kinds.items()}
    return Suite(**(said | parts))


def machine() -> str:
    """Processor, cores, memory, system."""
    cpus = Path("/proc/cpuinfo")
    told = re.search(r"model name\s*: (.*)", cpus.read_text()) if cpus.exists() else None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    name = told[1] if told else platform.processor()
    return f"{name}, {os.cpu_count()} cores, {memory} GB, {platform.system()}"


def _git(*arguments: str) -> str:
    done = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
