"""The Java that Spark runs on: JAVA_HOME's, the first on the PATH, or one at a usual place. Standard library only, as
`make setup` uses it before anything is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

RELEASES = (17, 21)
"""What Spark 4.0 and Iceberg run on."""

HOW_TO_INSTALL = (
    "Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17; or point JAVA_HOME at "
    "one that is already there"
)
# Where packages of Debian, Fedora, macOS, Homebrew, SDKMAN, asdf, IDEs and container images put theirs.
_USUAL = (
    "/usr/lib/jvm/*/bin/java",
    "/usr/java/*/bin/java",
    "/opt/java/*/bin/java",
    "/opt/homebrew/opt/openjdk@*/bin/java",
    "/usr/local/opt/openjdk@*/bin/java",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java",
    "~/Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java",
    "~/.sdkman/candidates/java/*/bin/java",
    "~/.asdf/installs/java/*/bin/java",
    "~/.jdks/*/bin/java",
)


@dataclass(frozen=True)
class Java:
    """One that runs. `version` as it says it (17.0.15), `release` its first number."""

    command: Path
    version: str
    release: int

    @property
    def home(self) -> Path:
        """What JAVA_HOME has to be for it."""
        return self.command.resolve().parents[1]

    @property
    def fits(self) -> bool:
        """Whether Spark runs on it."""
        return self.release in RELEASES


def find(environ: Mapping[str, str] | None = None) -> Java | None:
    """The first that fits, None if there is none."""
    return next((java for java in installed(environ) if java.fits), None)


def installed(environ: Mapping[str, str] | None = None) -> Iterator[Java]:
    """All that run, in the order in which they would be taken. None is asked for its version before its turn."""
    seen = set()
    for command in _candidates(os.environ if environ is None else environ):
        real = command.resolve()
        if real not in seen and (java := look(command)) is not None:
            yield java
        seen.add(real)


def look(command: Path) -> Java | None:
    """What that command is; None if it is no Java that runs. macOS has one that only says where to get it."""
    try:
        done = subprocess.run(
            [str(command), "-version"], capture_output=True, text=True, check=False, timeout=30, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', done.stderr + done.stdout)
    return Java(command, found[1], int(found[2])) if found and done.returncode == 0 else None


def none_fits(environ: Mapping[str, str] | None = None) -> str:
    """For people, where `find` found none: what is there instead, and what to do."""
    others = [f"{java.version} ({java.command})" for java in installed(environ)]
    found = f"only {', '.join(others)}" if others else "none was found by JAVA_HOME, PATH or at the usual places"
    return f"a Java 17 or 21 runtime is missing, for Spark: {found}. {HOW_TO_INSTALL}"


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if (first := shutil.which("java", path=environ.get("PATH"))) is not None:
        yield Path(first)
    for pattern in _USUAL:
        full = Path(pattern.replace("~", environ.get("HOME", "/nonexistent"), 1))
        yield from sorted(Path("/").glob(str(full.relative_to("/"))), reverse=True)
