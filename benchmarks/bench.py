"""What suites share: sizes, data, running a case n times, checking each result, and saying so."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import measuring, reference, workload
from benchmarks.results import ROOT, Case, Must, Suite
from benchmarks.workload import Events

CACHE = ROOT / ".cache" / "bench"
RED, GREEN, PLAIN = ("\033[31m", "\033[32m", "\033[0m") if sys.stdout.isatty() else ("", "", "")


@dataclass
class Data:
    """A base table and events for it."""

    rows: int
    base: Path | None  # None: empty
    events: Path
    count: int

    @property
    def arguments(self) -> tuple[object, ...]:
        """As the cases take them."""
        return ("--base", self.base, "--events", self.events)


class Bench:
    """One suite's run. `quick`: a hundredth of the sizes and one run, to see that everything works. `runs`: how often
    each case is run, 3 as a rule. `own`: cases of others are left out, and have no runs."""

    def __init__(self, suite: Suite, quick: bool, runs: int | None = None, *, own: bool = False) -> None:
        self.suite = suite
        self.quick = quick
        self._own = own
        self.runs = runs or (1 if quick else 3)
        suite.quick = quick

    def size(self, number: int) -> int:
        """So many rows or events, in a quick run fewer."""
        return max(1_000, number // 100) if self.quick else number

    def data(self, rows: int, count: int, keys: workload.Keys = "mixed", files: int = 8, toasted: int = 0) -> Data:
        """Base table and events of these full sizes, made if they are not there."""
        rows, count = self.size(rows), self.size(count)
        folder = CACHE / "data"
        base, events = workload.base(folder, rows), workload.events(folder, Events(rows, count, keys, files, toasted))
        return Data(rows, base, events, count)

    def warm(self, group: str, who: str, data: Data, *more: object, label: str = "", check: bool = True) -> Case:
        """A case of benchmarks.warm: one process, a run to warm up, then the runs that count."""
        if self._left_out(who):
            return Case(group, who)
        arguments = (who, *data.arguments, "--rows", data.rows, "--runs", self.runs, *more)
        ran = measuring.run("firn", "benchmarks.warm", *arguments)
        return self._case(group, label or who, [ran], data, check and who != "fold")

    def peer(self, group: str, who: str, data: Data, *more: object, note: str = "") -> Case:
        """A case of benchmarks.peers: a process a run."""
        if self._left_out(who):
            return Case(group, who)
        work = CACHE / "runs" / who
        ran = [
            measuring.run("peer", "benchmarks.peers", who, *data.arguments, "--work", work / str(n), *more)
            for n in range(self.runs)
        ]
        found = self._case(group, who, ran, data, True, note)
        shutil.rmtree(work, ignore_errors=True)
        return found

    def aged(self, group: str, who: str, data: Data, commits: int) -> Case:
        """The case of benchmarks.care, once: it takes minutes, and looks often."""
        ran = [measuring.run("firn", "benchmarks.care", who, *data.arguments, "--rows", data.rows, "--epochs", commits)]
        return self._case(group, who, ran, data, True)

    def cold(self, group: str, who: str, data: Data, runs: int | None = None, *, slices: bool = False) -> Case:
        """A case of benchmarks.cold: a process a run, from the start of Spark on. `slices`: by Spark's tasks, however
        few the events are."""
        sized = (*data.arguments, "--rows", data.rows)
        prepared = measuring.run("firn", "benchmarks.cold", "prepare", *sized)
        assert prepared.code == 0, prepared.text
        forced = {"FIRN_DRIVER_EVENTS": "0"} if slices else None
        ran = [
            self._looked("benchmarks.cold", who, *sized, "--run", n, forced=forced) for n in range(runs or self.runs)
        ]
        return self._case(group, f"{who}, slices" if slices else who, ran, data, True)

    def many(self, group: str, who: str, events: Path, tables: int) -> Case:
        """A case of benchmarks.many: a process a run."""
        if self._left_out(who):
            return Case(group, who)
        sized = ("--events", events, "--tables", tables)
        prepared = measuring.run("firn", "benchmarks.many", "prepare", *sized)
        assert prepared.code == 0, prepared.text
        ran = [self._looked("benchmarks.many", who, *sized, "--run", n) for n in range(self.runs)]
        return self._case(group, who, ran, Data(0, None, events, 0), True)

    def steady(self, group: str, rate: int, seconds: int) -> Case:
        """The case of benchmarks.fresh at one rate, once: it takes as long as it says."""
        count = rate * seconds
        events = workload.events(CACHE / "data", Events(100_000, count))
        ran = [
            measuring.run(
                "firn", "benchmarks.fresh", "--events", events, "--rate", rate, "--work", CACHE / "runs" / "fresh"
            )
        ]
        return self._case(group, "firn", ran, Data(0, None, events, count), True)

    def sent(self, group: str, count: int, columns: int, size: int = 0, partition: str = "") -> Case:
        """The case of benchmarks.send: a new stack a run."""
        count = self.size(count)
        events = workload.wide(CACHE / "data", count, columns, size)
        command = ("benchmarks.send", "--events", events, "--partition", partition, "--work", CACHE / "runs" / "send")
        ran = [measuring.run("firn", *command) for _ in range(self.runs)]
        case = self._case(group, "firn", ran, Data(0, None, events, count), check=False)
        case.right = bool(case.runs) and not any(run["wrong"] for run in case.runs)
        return case

    def _left_out(self, who: str) -> bool:
        return self._own and who not in ("firn", "fold", "duckdb")

    def say(self, module: str, *arguments: object) -> str:
        """What a module of this folder prints, in Firn's environment."""
        command = [str(measuring.PYTHON["firn"]), "-m", f"benchmarks.{module}", *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        print(done.stdout + done.stderr, flush=True)
        return done.stdout

    def _looked(self, module: str, *arguments: object, forced: dict[str, str] | None = None) -> measuring.Ran:
        """A run whose table is looked at before the next one, which tidies the base table's folders, removes it."""
        ran = measuring.run("firn", module, *arguments, environment=forced)
        for line in ran.runs:
            line["digest"] = reference.digest_of(line["table"])
        return ran

    def _case(
        self, group: str, who: str, ran: Sequence[measuring.Ran], data: Data, check: bool, note: str = ""
    ) -> Case:
        runs = [line for one in ran for line in one.runs if line.get("warm", True)]
        right = None
        if check:
            wanted = reference.expected(data.base, data.events)
            right = bool(runs) and all(
                (line.get("digest") or reference.digest_of(line["table"])) == wanted for line in runs
            )
        if len(runs) == 1:
            note = f"{note}; one run" if note else "one run"
        return self.add(Case(group, who, [_kept(line) for line in runs], right, note, data.count), ran)

    def add(self, case: Case, ran: Sequence[measuring.Ran]) -> Case:
        """Notes a case and says what it found; of a process that failed, its last lines."""
        failed = next((one for one in ran if one.code), None)
        if failed is not None:
            case.note = f"exit code {failed.code}"
            print(RED + failed.text[-3_000:] + PLAIN)
        self.suite.cases.append(case)
        right = {None: "", True: f"{GREEN}right{PLAIN}", False: f"{RED}WRONG{PLAIN}"}[case.right]
        figures = f"{case.median():8.2f} s {case.median('cpu'):8.2f} CPU s {case.median('peak'):7.0f} MB"
        print(f"  {case.group:<44} {case.who:<16} {figures}  {right} {case.note}", flush=True)
        return case

    def must(self, text: str, value: float, most: float, unit: str = "") -> None:
        """Notes a line that must hold, and says whether it does: red if not. In a quick run none has to."""
        if self._own and value != value:
            return  # by a case that was left out
        must = Must(text, value, most, unit)
        self.suite.musts.append(must)
        colour, word = (GREEN, "holds") if must.held else (RED, "FAILS")
        if self.quick:
            colour, word = "", "(quick)"
        print(f"  {colour}{word}{PLAIN} {text}: {value:.2f}{unit} (at most {most:g}{unit})", flush=True)


def _kept(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in ("table", "warm", "digest")}
