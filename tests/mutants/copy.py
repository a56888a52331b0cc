"""A copy of Firn in which one mistake at a time is made, and its tests are run."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.mutants.witness import TOLD

ROOT: Final = Path(__file__).resolve().parents[2]
COPIED: Final = (
    "layers", "cli", "spark_emr", "functions", "infra/local", "infra/setup", "tests", "examples", "docs",
    "template.yaml", "firn.yaml", "pyproject.toml",
)  # fmt: skip
PACKAGES_IN: Final = ("layers/core/python", "cli", "layers/lake/python", "spark_emr", "infra/local")
SECONDS: Final = 300  # for the tests of one mutant, on a machine that does much else
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
_OURS: Final = ("FIRN_", "HYPOTHESIS_", "PYTEST_", "COV_")  # of the environment: a run must not depend on who starts it


def _without(name: str) -> dict[str, str]:
    return {other: value for other, value in os.environ.items() if other != name}


@dataclass(frozen=True)
class Mutant:
    """One mistake that somebody could make.

    name   says the mistake
    file   where it is made, from the repository's root
    old    the right text, which is in the file exactly once
    new    the wrong one
    tests  ids of the tests that must fail, each of them
    hangs  whether it may show as a run that does not end
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    hangs: bool = False


@dataclass(frozen=True)
class Ran:
    """A run of pytest. `code`: its exit code, None if it did not end in time; `tests`: id -> outcome and error;
    `files`: the modules of Firn that were loaded, from the root; `text`: the end of what it printed."""

    code: int | None
    tests: dict[str, str]
    files: frozenset[str]
    text: str


class Copy:
    """The tree, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._compiled = True  # whether what Python compiles is kept for the next run
        # Without this folder on its path, nor anything of Firn: the forks add the copy's.
        self._server = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("forked.py"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=_without("PYTHONPATH"),
        )  # fmt: skip
        unwanted = shutil.ignore_patterns("__pycache__", ".hypothesis", "*.egg-info")
        # What pytest has compiled of the tests holds in the copy too; what it is writing may be gone in a moment.
        of_tests = shutil.ignore_patterns("*.pyc.*", ".hypothesis")
        for name in COPIED:
            source, target = ROOT / name, folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=of_tests if name == "tests" else unwanted, symlinks=True)
            else:
                shutil.copy2(source, target)
        if (ROOT / ".cache").exists():  # the jars
            (folder / ".cache").symlink_to(ROOT / ".cache")

    def close(self) -> None:
        """Ends what runs the tests."""
        self._server.kill()
        self._server.communicate()

    def _forked(self, about: Mapping[str, object], seconds: float) -> int | None:
        """The exit code of pytest in a fork (forked.py); None if it did not end in time."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(about).encode() + b"\n")
        self._server.stdin.flush()
        fork = int(self._server.stdout.readline())
        answered = select.poll()  # not select(): this process may have more than 1,024 files open
        answered.register(self._server.stdout, select.POLLIN)
        if not answered.poll(seconds * 1_000):
            os.killpg(fork, signal.SIGKILL)
            self._server.stdout.readline()
            return None
        code = int(self._server.stdout.readline())
        with suppress(ProcessLookupError):  # whatever it started (a JVM) ends with it
            os.killpg(fork, signal.SIGKILL)
        return code

    @contextmanager
    def with_mistake(self, mutant: Mutant) -> Iterator[None]:
        """The copy with the mutant's text; afterwards it is as before. Fails if the right text is not there once."""
        path = self.folder / mutant.file
        right = path.read_text(encoding="utf-8")
        times = right.count(mutant.old)
        assert times == 1, (
            f"{mutant.file} holds the right text of {mutant.name!r} {times} times, not once: the list in "
            f"tests/mutants/ has to follow the code. It looks for\n{mutant.old}"
        )
        before = path.stat()
        try:
            path.write_text(right.replace(mutant.old, mutant.new), encoding="utf-8")
            # Python takes compiled code for current by size and second; the mutant's own is never kept.
            os.utime(path, (before.st_atime, before.st_mtime + 1))
            self._compiled = False
            yield
        finally:
            self._compiled = True
            path.write_text(right, encoding="utf-8")
            os.utime(path, (before.st_atime, before.st_mtime))

    def run(self, tests: Sequence[str], seconds: float = SECONDS, settings: Mapping[str, str] = NO_SETTINGS) -> Ran:
        """Runs tests of the copy, on the copy's code. Fails if any other code of Firn was loaded.

        `settings`: of the environment.
        """
        told = self.folder / "witness.json"
        told.unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        path = [str(self.folder / name) for name in PACKAGES_IN]
        environment |= {
            "PYTHONPATH": os.pathsep.join(path),
            "HYPOTHESIS_PROFILE": "mutant",
            "FIRN_MUTANTS": "one",  # of what CI has no time for, what it names
            "PYTHONDONTWRITEBYTECODE": "" if self._compiled else "1",
            TOLD: str(told),
            **settings,
        }
        output = self.folder / "output.txt"
        about = {
            "folder": str(self.folder), "path": path, "environment": environment, "output": str(output),
            "arguments": ["-q", "-p", "no:cacheprovider", "-p", "tests.mutants.witness", *tests],
        }  # fmt: skip
        code = self._forked(about, seconds)
        text = output.read_text(encoding="utf-8", errors="replace")[-6_000:]
        if code is None and not told.exists():
            return Ran(None, {}, frozenset(), text)
        assert told.exists(), f"pytest ended with {code} and ran nothing:\n{text}"
        seen = json.loads(told.read_text(encoding="utf-8"))
        assert not seen["foreign"], f"code from outside of the copy was loaded: {seen['foreign']}"
        return Ran(code, seen["ran"], frozenset(seen["files"]), text)
