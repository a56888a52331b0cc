"""Servers that answer as Azure's and Google's storage do, for tests: Azurite by npm, fake-gcs-server by Go. Standard
library only, as infra/setup/setup.py, whose part it is.

What is fetched is what the locks beside this file name. Where npm or Go is missing the tests of that cloud are skipped.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from infra.setup import go_build

_HERE = Path(__file__).resolve().parent
_AZURITE = _HERE / "azurite"
_AZURITE_LOCK = _AZURITE / "package-lock.json"
_FAKE_GCS = _HERE / "fake_gcs_server"
_SECONDS = 1200

Run = Callable[..., None]
"""What runs one step: its name for people, the command, `seconds`."""


def install(folder: Path, run: Run) -> bool:
    """Bring both into `folder`. False if there was nothing to do."""
    azure = _brought(folder / "azurite", (_AZURITE_LOCK,), _lacks_npm, _azurite, run)
    locks = (_FAKE_GCS / "go.mod", _FAKE_GCS / "go.sum")
    google = _brought(folder / "fake-gcs-server", locks, lambda: go_build.lacks(_FAKE_GCS), _fake_gcs_server, run)
    return azure or google


def _brought(
    folder: Path, locks: tuple[Path, ...], lacks: Callable[[], str | None], place: Callable[[Path, Run], None], run: Run
) -> bool:
    """`lacks`: why it can't be placed on this machine; None if it can."""
    stamp_file = folder / ".firn-setup"
    stamp = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks)).hexdigest()
    if stamp_file.exists() and stamp_file.read_text() == stamp:
        return False
    if why := lacks():
        print(f"  {folder.name} is left out, and its tests are skipped: {why}", flush=True)
        return False
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    place(folder, run)
    stamp_file.write_text(stamp)
    return True


def _lacks_npm() -> str | None:
    return None if shutil.which("npm") else "there is no npm: https://nodejs.org has it"


def _azurite(folder: Path, run: Run) -> None:
    """Each package by its hash; no script of theirs is run."""
    for name in ("package.json", _AZURITE_LOCK.name):
        shutil.copyfile(_AZURITE / name, folder / name)
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder))
    run("install azurite", "npm", "ci", *quiet, seconds=_SECONDS)


def _fake_gcs_server(folder: Path, run: Run) -> None:
    build = go_build.command(_FAKE_GCS, "github.com/fsouza/fake-gcs-server", folder / "fake-gcs-server")
    run("build fake-gcs-server", *build, seconds=_SECONDS)
