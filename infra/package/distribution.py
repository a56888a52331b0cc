"""`python -m infra.package.distribution [FOLDER]`: the wheel and the sdist of `firn-cdc`, in dist unless a folder is
given.

The wheel is made out of the unpacked sdist: what an sdist lacks can't be in the wheel, nor what an earlier build left
in `build/`. Both are the same bytes for the same commit (SOURCE_DATE_EPOCH: its time).
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from infra.package import PackageError
from infra.package.locks import ROOT

_BUILD: Final = "import sys\nfrom setuptools import build_meta\nprint(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def build(folder: Path) -> tuple[Path, Path]:
    """Make both in `folder` -> the sdist, the wheel. Raises PackageError."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(ROOT / "firn_cdc.egg-info", ignore_errors=True)  # it would add what it once listed
    sdist = folder / _built("build_sdist", folder, ROOT)
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(sdist) as archive:
            archive.extractall(scratch, filter="data")
        (unpacked,) = Path(scratch).iterdir()
        wheel = folder / _built("build_wheel", folder, unpacked)
    return sdist, wheel


def _built(what: str, folder: Path, source: Path) -> str:
    time = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    environment = {**os.environ, **({"SOURCE_DATE_EPOCH": time} if time else {})}
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, what, str(folder)],
        cwd=source, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise PackageError(f"{what} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout.splitlines()[-1]


def main() -> int:
    """Build, and say what there is. -> the exit code."""
    try:
        for file in build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"):
            print(f"{file} ({file.stat().st_size / 1_000_000:.1f} MB)")
    except PackageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
