"""The jars that Spark needs beside its own: what infra/setup/jars.lock names, fetched from Maven's registry by the Ivy
that PySpark ships, and taken only if size and SHA-256 are the lock's. Standard library only: `make setup` uses it too.

A proxy or a mirror: Ivy reads Java's own properties (JAVA_TOOL_OPTIONS) and the settings that FIRN_IVY_SETTINGS names.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Run = Callable[[str, Sequence[str], Callable[[], None]], None]
    """Runs one step: its name for people, the command, what to call now and then meanwhile. Raises if it fails."""


class WrongJar(Exception):
    """What came is not what the lock names, or nothing came. The text says what to do."""


@dataclass(frozen=True)
class Jar:
    """One line of the lock; `size` in bytes."""

    group: str
    name: str
    version: str
    sha256: str
    size: int

    @property
    def file(self) -> str:
        """Its file's name."""
        return f"{self.name}-{self.version}.jar"


def locked(lock: Path) -> list[Jar]:
    """What the lock names."""
    lines = (line.split() for line in lock.read_text().splitlines() if line and not line.startswith("#"))
    return [Jar(group, name, version, sha256, int(size)) for group, name, version, sha256, size in lines]


def needed(warehouse: str, folder: Path, locks: Mapping[str, Path]) -> list[tuple[Path, Path]]:
    """(folder, lock) of the jars that only warehouses such as this one need; `locks`: by scheme."""
    lock = locks.get(warehouse.partition("://")[0])
    return [] if lock is None else [(folder, lock)]


def missing(folder: Path, lock: Path) -> list[Jar]:
    """Those that are not in `folder` whole."""
    return [jar for jar in locked(lock) if not _whole(folder / jar.file, jar)]


def fetch(
    folder: Path,
    lock: Path,
    java: str,
    ivy: Path,
    run: Run,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> bool:
    """Bring what is missing into `folder`; one process at a time, and a file is there whole or not at all.

    `progress` hears of bytes that are here and bytes in all. -> whether there was something to do. Raises WrongJar, and
    what `run` raises.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".fetching").open("w") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        wanted = missing(folder, lock)
        arriving = folder / "arriving"
        shutil.rmtree(arriving, ignore_errors=True)  # of one that was killed
        total, before = sum(jar.size for jar in wanted), 0
        for jar in wanted:
            done = before
            run(
                f"fetch {jar.file}",
                _command(jar, java, ivy, arriving),
                lambda done=done: progress(done + _arrived(arriving), total),  # type: ignore[misc]
            )
            _take(jar, arriving / jar.file, folder)
            shutil.rmtree(arriving, ignore_errors=True)
            before += jar.size
            progress(before, total)
    return bool(wanted)


def by_hand(folder: Path, lock: Path) -> str:
    """For people whose machine reaches no registry: how to bring the files in."""
    names = ", ".join(f"{jar.group}:{jar.name}:{jar.version}" for jar in missing(folder, lock))
    return (
        f"behind a proxy set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=…; for a mirror let FIRN_IVY_SETTINGS name Ivy's "
        f"settings; or put the jars ({names}) into {folder}"
    )


def _command(jar: Jar, java: str, ivy: Path, arriving: Path) -> list[str]:
    settings = os.environ.get("FIRN_IVY_SETTINGS")
    return [
        *(java, "-jar", str(ivy), *(("-settings", settings) if settings else ())),
        *("-cache", str(arriving / "ivy"), "-notransitive", "-types", "jar", "bundle"),
        *("-dependency", jar.group, jar.name, jar.version),
        *("-retrieve", f"{arriving}/[artifact]-[revision].[ext]"),
    ]


def _arrived(arriving: Path) -> int:
    """Bytes of what Ivy has of the jar by now: it writes beside the name that the file will have."""
    found = 0
    for file in arriving.glob("ivy/**/*.jar*"):
        try:
            found += file.stat().st_size
        except OSError:  # it got its name just now
            continue
    return found


def _take(jar: Jar, got: Path, folder: Path) -> None:
    if not got.is_file():
        raise WrongJar(f"{jar.file} did not come")
    with got.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != jar.sha256 or not _whole(got, jar):
        raise WrongJar(
            f"{jar.file} is not the file that jars.lock names (SHA-256 {found}, not {jar.sha256}), and was not taken"
        )
    got.replace(folder / jar.file)


def _whole(file: Path, jar: Jar) -> bool:
    try:
        return file.stat().st_size == jar.size
    except OSError:
        return False
