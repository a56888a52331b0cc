"""What an EMR Serverless job needs, in one folder as it will lie below code/ in the staging bucket.

    commit.py, rebuild.py       the entry points
    firn.zip                    --py-files: firn and firn_spark
    natives.tar.gz              spark.archives: libraries with compiled parts, for one version of Python on x86_64
    iceberg-*.jar               --jars: our own Iceberg, newer than the image's
    manifest.json               size and sha256 of each, and what it was made for

The archive holds libraries and no interpreter. A virtual environment would hold a link to the interpreter of the
machine that made it, which the image has to have at the same place; a folder of libraries needs no more than
PYTHONPATH, and is made on any machine: pip fetches wheels for Linux whatever it runs on. The same input gives the same
bytes.
"""

import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
PYTHON: Final = "3.11"
MANIFEST: Final = "manifest.json"
ENTRY_POINTS: Final = ("commit.py", "rebuild.py")
PACKAGES: Final = (ROOT / "layers/core/python/firn", ROOT / "spark_emr/firn_spark")
# The template names them without their version: code/ holds one version of everything (docs/deploy-aws.md).
JARS: Final = {
    "iceberg-spark-runtime-4.0_2.13": "iceberg-spark-runtime.jar",
    "iceberg-aws-bundle": "iceberg-aws-bundle.jar",
    "postgresql": "postgresql.jar",
}
# glibc of Amazon Linux 2023 is 2.34.
_PLATFORMS: Final = ("manylinux_2_28_x86_64", "manylinux2014_x86_64")
# Of pyarrow's 170 MB a third is for compilers, its own tests and services that no job talks to.
_LEFT_OUT: Final = re.compile(
    r"pyarrow/(include|tests|src|includes)/|pyarrow/(libarrow_(python_)?flight|_flight)"
    r"|\.(pyx|pxd|pxi|h|pyi)$|zstandard/_cffi|/sboms/|__pycache__"
)
_FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)


class PackageError(Exception):
    """The job can't be packaged. The text says what to do."""


def build(folder: Path, python: str = PYTHON, began: Callable[[str], None] = lambda _what: None) -> dict[str, Any]:
    """Make everything anew in `folder`, and return the manifest. `python`: the version that the image's jobs run.

    `began` hears each step. Raises PackageError.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ENTRY_POINTS:
        shutil.copyfile(ROOT / "spark_emr" / name, folder / name)
    began("firn.zip")
    _zip_sources(folder / "firn.zip")
    began("natives.tar.gz")
    _archive_natives(folder / "natives.tar.gz", python)
    began("jars")
    _copy_jars(folder)
    manifest = {
        "format": 1,
        "python": python,
        "platform": _PLATFORMS[0],
        "files": {file.name: _described(file) for file in sorted(folder.iterdir())},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest


def _described(file: Path) -> dict[str, Any]:
    with file.open("rb") as opened:
        return {"bytes": file.stat().st_size, "sha256": hashlib.file_digest(opened, "sha256").hexdigest()}


def _zip_sources(target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as zipped:
        for package in PACKAGES:
            for file in sorted(package.rglob("*.py")):
                info = zipfile.ZipInfo(str(file.relative_to(package.parent)), _FIXED_TIME)
                info.external_attr = 0o644 << 16
                zipped.writestr(info, file.read_bytes(), zipfile.ZIP_DEFLATED)


def locked(names: Iterable[str], lock: str) -> str:
    """The lines of `lock` (pip-compile's) that pin `names`, hashes included. Raises PackageError for one it lacks."""
    pinned = {
        _canonical(found[1]): found[0].rstrip("\n") + "\n"
        for found in re.finditer(r"^([A-Za-z0-9._-]+)==\S+ \\\n(?:    --hash=\S+(?: \\)?\n)+", lock, re.MULTILINE)
    }
    lacking = [name for name in names if _canonical(name) not in pinned]
    if lacking:
        raise PackageError(f"requirements.lock does not pin {', '.join(lacking)}: run `make lock`")
    return "".join(pinned[_canonical(name)] for name in names)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _archive_natives(target: Path, python: str) -> None:
    lines = (ROOT / "spark_emr/requirements.txt").read_text().splitlines()
    names = [line for line in lines if line and not line.startswith("#")]
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch) / "requirements.txt"
        wanted.write_text(locked(names, (ROOT / "requirements.lock").read_text()))
        libraries = Path(scratch) / "natives"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"),
                *("--no-deps", "--require-hashes", "--only-binary=:all:", "--implementation", "cp"),
                *("--python-version", python, *(part for one in _PLATFORMS for part in ("--platform", one))),
                *("--target", str(libraries), "-r", str(wanted)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise PackageError(
                f"pip can't fetch the jobs' libraries for Python {python}:\n{done.stderr.strip()[-2000:]}"
            )
        # gzip's own header would carry the time.
        with (
            target.open("wb") as out,
            gzip.GzipFile("", "wb", 6, out, mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for file in sorted(libraries.rglob("*")):
                name = str(file.relative_to(libraries))
                if file.is_file() and not _LEFT_OUT.search(name):
                    info = tarfile.TarInfo(name)
                    info.size, info.mode = file.stat().st_size, 0o644
                    archive.addfile(info, io.BytesIO(file.read_bytes()))


def _copy_jars(folder: Path) -> None:
    for name, plain in JARS.items():
        found = sorted((ROOT / ".cache" / "jars").glob(f"{name}-*.jar"))
        if len(found) != 1:
            raise PackageError(f".cache/jars has {len(found)} jars {name}-*.jar instead of one: run `make setup`")
        shutil.copyfile(found[0], folder / plain)
