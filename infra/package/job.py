"""What an EMR Serverless job needs, in one folder as it will lie below code/{sha256}/ in the staging bucket.

    start.py                    the entry point: checks the archive, then runs another one out of it, such as commit.py
    job.tar.gz                  spark.archives: all entry points of spark_emr but this one, our packages and the
                                libraries, for one version of Python on x86_64; contents.json says the SHA-256 of
                                each file in it and beside it
    iceberg-*.jar               --jars: our own Iceberg, newer than the image's; the library of a cloud where one was
                                asked for (CLOUDS)
    manifest.json               size and sha256 of each, and what it was made for

The SHA-256 of contents.json names all of it: the template's JobSha256 (docs/adr/0041-what-is-deployed-is-locked.md).

The archive holds libraries and no interpreter. A virtual environment would hold a link to the interpreter of the
machine that made it, which the image has to have at the same place; a folder of libraries needs no more than a place on
Python's path, and is made on any machine: pip fetches wheels for Linux whatever it runs on. The same input gives the
same bytes.
"""

import gzip
import hashlib
import io
import json
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name

from firn_local import spark_jars
from infra.package import PackageError
from infra.package.locks import PLATFORMS, ROOT, Pin, fetched, pins

MANIFEST: Final = "manifest.json"
START: Final = "start.py"
# template.yaml's JobPython: one that the image has, and the one that the tests run the jobs with.
PYTHON: Final = "3.11"
ARCHIVE: Final = "job.tar.gz"
CONTENTS: Final = "contents.json"
PACKAGES: Final = (
    ROOT / "layers/core/python/firn",
    ROOT / "layers/lake/python/firn_sql",
    ROOT / "spark_emr/firn_spark",
)
# The template names them without their version: the folder's name says which they are.
JARS: Final = {
    "iceberg-spark-runtime-4.0_2.13": "iceberg-spark-runtime.jar",
    "iceberg-aws-bundle": "iceberg-aws-bundle.jar",
    "postgresql": "postgresql.jar",
}
# What a warehouse there needs besides. Templates and people call a cloud by this word.
CLOUDS: Final = {
    "azure": ("azure_jars.lock", "iceberg-azure-bundle", "iceberg-azure-bundle.jar"),
    "google": ("google_jars.lock", "iceberg-gcp-bundle", "iceberg-gcp-bundle.jar"),
}
# Of pyarrow's 170 MB a third is for compilers, its own tests and services that no job talks to. Of the services that
# botocore describes (28 MB) jobs ask none but STS, for credentials.
_LEFT_OUT: Final = re.compile(
    r"pyarrow/(include|tests|src|includes)/|pyarrow/(libarrow_(python_)?flight|_flight)"
    r"|boto(core|3)/(data/(?!sts/)[^/]+/|examples/)"
    r"|\.(pyx|pxd|pxi|h|pyi)$|zstandard/_cffi|/sboms/|__pycache__"
)


def build(
    folder: Path,
    python: str = PYTHON,
    began: Callable[[str], None] = lambda _what: None,
    *,
    level: int = 6,
    clouds: Sequence[str] = (),
) -> dict[str, Any]:
    """Make everything again in `folder`, and return the manifest. `python`: the version that the image's jobs run;
    `clouds`: words of CLOUDS, where warehouses may be besides S3.

    `began` hears each step; `level` is gzip's: 1 takes a third of the time, and a tenth more room. Raises PackageError.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copyfile(ROOT / "spark_emr" / START, folder / START)
    began("jars")
    _copy_jars(folder, clouds)
    beside = {file.name: _described(file) for file in sorted(folder.iterdir())}
    with tempfile.TemporaryDirectory() as scratch:
        began("libraries")
        libraries = Path(scratch)
        taken = _fetch(libraries, python)
        began(ARCHIVE)
        files = {**sources(), **_libraries(libraries)}
        contents = _json(
            {
                "format": 1,
                "python": python,
                "platform": PLATFORMS[0],
                "files": {name: _sha256(content) for name, content in sorted(files.items())},
                "beside": {name: one["sha256"] for name, one in beside.items()},
            }
        )
        _archive(folder / ARCHIVE, {CONTENTS: contents, **files}, level)
    manifest = {
        "format": 1,
        "sha256": _sha256(contents),
        "made_of": _made_of(python, clouds),
        "python": python,
        "platform": PLATFORMS[0],
        "libraries": {pin.name: {"version": pin.version, "sha256": min(pin.hashes)} for pin in taken},
        "files": {**beside, ARCHIVE: _described(folder / ARCHIVE)},
    }
    (folder / MANIFEST).write_bytes(_json(manifest))
    return manifest


def current(folder: Path, python: str = PYTHON, clouds: Sequence[str] = ()) -> dict[str, Any] | None:
    """The manifest of what lies in `folder`, if `build` would make the same; else None."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        there = {name: _described(folder / name) for name in manifest["files"]}
    except (OSError, ValueError, KeyError):
        return None
    return manifest if manifest.get("made_of") == _made_of(python, clouds) and there == manifest["files"] else None


def _made_of(python: str, clouds: Sequence[str]) -> str:
    """One hash of all that goes into a job: our sources, the locks of libraries and jars, and how it is made."""
    files = {name: _sha256(content) for name, content in sources().items()}
    locks = [f"infra/setup/{CLOUDS[one][0]}" for one in sorted(clouds)]
    for name in (
        "spark_emr/start.py",
        "spark_emr/requirements.txt",
        "requirements.lock",
        "infra/setup/jars.lock",
        *locks,
    ):
        files[name] = _sha256((ROOT / name).read_bytes())
    return _sha256(
        _json({"python": python, "how": _sha256(Path(__file__).read_bytes()), "files": sorted(files.items())})
    )


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _described(file: Path) -> dict[str, Any]:
    with file.open("rb") as opened:
        return {"bytes": file.stat().st_size, "sha256": hashlib.file_digest(opened, "sha256").hexdigest()}


def locked(names: Iterable[str], lock: str) -> str:
    """Lines of a requirements file: `names` as `lock` pins them, by hash. Raises PackageError for one that it lacks."""
    known = pins(lock)
    wanted = [canonicalize_name(name) for name in names]
    if lacking := [name for name in wanted if name not in known or not known[name].hashes]:
        raise PackageError(f"requirements.lock does not pin {', '.join(lacking)}: run `make lock`")
    return "".join(_line(known[name]) for name in wanted)


def _line(pin: Pin) -> str:
    return f"{pin.name}=={pin.version}{''.join(f' --hash=sha256:{one}' for one in sorted(pin.hashes))}\n"


def _fetch(libraries: Path, python: str) -> list[Pin]:
    lines = (ROOT / "spark_emr/requirements.txt").read_text().splitlines()
    names = [line for line in lines if line and not line.startswith("#")]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write(locked(names, (ROOT / "requirements.lock").read_text()))
        wanted.flush()
        return fetched("--no-deps", "--require-hashes", "--target", str(libraries), "-r", wanted.name, python=python)


def sources() -> dict[str, bytes]:
    """What of the archive is ours, by its name there: all entry points but start.py, firn, firn_sql, firn_spark."""
    found = {file.name: file.read_bytes() for file in (ROOT / "spark_emr").glob("*.py") if file.name != START}
    for package in PACKAGES:
        found |= {str(file.relative_to(package.parent)): file.read_bytes() for file in package.rglob("*.py")}
    return found


def _libraries(folder: Path) -> dict[str, bytes]:
    named = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    return {name: file.read_bytes() for name, file in named.items() if not _LEFT_OUT.search(name)}


def _archive(target: Path, files: Mapping[str, bytes], level: int) -> None:
    # gzip's own header would carry the time.
    with (
        target.open("wb") as out,
        gzip.GzipFile("", "wb", level, out, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            archive.addfile(info, io.BytesIO(content))


def jars(lock: str = "jars.lock") -> dict[str, tuple[str, str, str]]:
    """What a lock of infra/setup says: artifact -> its group, version and SHA-256."""
    found = spark_jars.locked(ROOT / "infra/setup" / lock)
    return {jar.name: (jar.group, jar.version, jar.sha256) for jar in found}


def _copy_jars(folder: Path, clouds: Sequence[str]) -> None:
    cache = ROOT / ".cache" / "jars"
    wanted = [(cache, "jars.lock", name, plain) for name, plain in JARS.items()]
    wanted += [(cache / "clouds", *CLOUDS[cloud]) for cloud in clouds]
    for place, lock, name, plain in wanted:
        _, version, sha256 = jars(lock)[name]
        jar = place / f"{name}-{version}.jar"
        make = "`make setup`" if place == cache else "`make package CLOUDS=…`, which fetches it"
        if not jar.is_file():
            raise PackageError(f"{jar} is not there: run {make}")
        shutil.copyfile(jar, folder / plain)
        if _described(folder / plain)["sha256"] != sha256:
            raise PackageError(f"{jar} is not the file that {lock} names: remove it, and run {make}")
