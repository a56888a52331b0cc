"""What an example needs of the machine and does not bring itself. All that is missing is said at once."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from firn.errors import FirnError

SKIPPED = 3
"""Exit code of an example that can't run here."""

_JVM_FOLDERS = ("/usr/lib/jvm", "/opt", "/Library/Java/JavaVirtualMachines")
_POSTGRES_FOLDERS = ("/usr/lib/postgresql", "/usr/pgsql-*", "/opt/homebrew/opt", "/usr/local/opt")
_MARIADB_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/opt/mariadb/bin")  # not on every user's PATH
_POSTGRES_TOOLS = ("initdb", "postgres", "pgbench", "psql")


class Missing(FirnError):
    """The machine lacks something; each line names one thing and how to install it."""

    def __init__(self, lacks: list[str]) -> None:
        super().__init__("this example needs\n" + "\n".join(f"  - {lack}" for lack in lacks))
        self.lacks = lacks


def java(at_least: int) -> Path | None:
    """The java of the lowest release that is high enough: $JAVA_HOME's, the PATH's, or one where JVMs lie."""
    found = [(release, command) for command in _javas() if (release := _release(command)) >= at_least]
    return min(found, default=(0, None))[1]


def _javas() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)
    for folder in map(Path, _JVM_FOLDERS):
        yield from sorted(folder.glob("*/bin/java"))
        yield from sorted(folder.glob("*/Contents/Home/bin/java"))


def _release(command: Path) -> int:
    try:
        answer = subprocess.run([str(command), "-version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else 0


def postgres() -> Path | None:
    """The folder with PostgreSQL's server and pgbench, the newest where there are several."""
    folders = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    for root in _POSTGRES_FOLDERS:
        folders += sorted(Path("/").glob(f"{root[1:]}/*/bin"), key=_version, reverse=True)
    return next((one for one in folders if all((one / tool).exists() for tool in _POSTGRES_TOOLS)), None)


def _version(folder: Path) -> int:
    digits = re.search(r"(\d+)", folder.parent.name)
    return int(digits.group(1)) if digits else 0


def mariadb() -> tuple[Path, Path] | None:
    """MariaDB's server and what makes its data folder."""
    places = [Path(folder) for folder in (*os.environ.get("PATH", "").split(":"), *_MARIADB_FOLDERS) if folder]
    server, install = (
        next((place / name for place in places if (place / name).exists()), None)
        for name in ("mariadbd", "mariadb-install-db")
    )
    return None if server is None or install is None else (server, install)


def maven() -> Path | None:
    """Maven's command."""
    found = shutil.which("mvn")
    return Path(found) if found else None


JAVA_21 = (
    "Java 21 or later, for Debezium Server\n"
    "      Debian 13, Ubuntu 24.04: apt-get install openjdk-21-jre-headless    macOS: brew install openjdk@21\n"
    "      or point JAVA_HOME at one that is already there"
)
POSTGRES = (
    "PostgreSQL's server and pgbench, 14 or later (initdb, postgres, psql, pgbench)\n"
    "      Debian, Ubuntu: apt-get install postgresql    macOS: brew install postgresql@16"
)
MARIADB = (
    "MariaDB's server, 10.6 or later (mariadbd, mariadb-install-db)\n"
    "      Debian, Ubuntu: apt-get install mariadb-server    macOS: brew install mariadb"
)
MAVEN = "Maven, to fetch {what} once\n      Debian, Ubuntu: apt-get install maven    macOS: brew install maven"
