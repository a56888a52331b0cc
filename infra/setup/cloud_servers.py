"""Servers that answer as Azure's and Google's storage do, for tests: Azurite by npm, fake-gcs-server by Go. Standard
library only, as infra/setup/setup.py, whose part it is.

What is fetched is what the locks beside this file name. Where npm or Go is missing the tests of that cloud are skipped.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_AZURITE = _HERE / "azurite"
_AZURITE_LOCK = _AZURITE / "package-lock.json"
_FAKE_GCS_LOCK = _HERE / "fake_gcs_server.lock"
_SECONDS = 1200

Run = Callable[..., None]
"""What runs one step: its name for people, the command, `seconds`."""


def install(folder: Path, run: Run) -> bool:
    """Bring both into `folder`. False if there was nothing to do."""
    azure = _brought("npm", folder / "azurite", _AZURITE_LOCK, _azurite, run)
    google = _brought("go", folder / "fake-gcs-server", _FAKE_GCS_LOCK, _fake_gcs_server, run)
    return azure or google


def _brought(tool: str, folder: Path, lock: Path, place: Callable[[Path, Run], None], run: Run) -> bool:
    stamp_file, stamp = folder / ".firn-setup", hashlib.sha256(lock.read_bytes()).hexdigest()
    if stamp_file.exists() and stamp_file.read_text() == stamp:
        return False
    if shutil.which(tool) is None:
        print(f"  no {tool} here: {folder.name} is left out, and its tests are skipped", flush=True)
        return False
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    place(folder, run)
    stamp_file.write_text(stamp)
    return True


def _azurite(folder: Path, run: Run) -> None:
    """Each package by its hash; no script of theirs is run."""
    for name in ("package.json", _AZURITE_LOCK.name):
        shutil.copyfile(_AZURITE / name, folder / name)
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder))
    run("install azurite", "npm", "ci", *quiet, seconds=_SECONDS)


def _fake_gcs_server(folder: Path, run: Run) -> None:
    """Built from source. Go checks each module by its checksum database; what went in has to be what the lock says."""
    [words] = [line.split() for line in _FAKE_GCS_LOCK.read_text().splitlines() if not line.startswith("#")]
    module, version, sha256 = words
    build = ("env", f"GOBIN={folder}", "go", "install", f"{module}@{version}")
    run("build fake-gcs-server", *build, seconds=_SECONDS)
    asked = ["go", "version", "-m", str(folder / "fake-gcs-server")]
    told = subprocess.run(asked, capture_output=True, check=True)
    parts = [line for line in told.stdout.splitlines(keepends=True) if line.startswith((b"\tmod\t", b"\tdep\t"))]
    if hashlib.sha256(b"".join(parts)).hexdigest() != sha256:
        sys.exit(f"setup: fake-gcs-server was not built of what infra/setup/{_FAKE_GCS_LOCK.name} names.")
