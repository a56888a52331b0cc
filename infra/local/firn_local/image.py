"""What EMR Serverless does for a job before its driver runs: brings its files and archives, sets its environment.

A run whose parameters name `spark.archives` brings all of its Python with it, so that it gets nothing of this checkout:
an interpreter, Spark, and what the parameters say, as in EMR's image. Sources: EMR Serverless User Guide, "Using Python
libraries with EMR Serverless" (archives), "Spark job properties" (spark.emr-serverless.driverEnv).
"""

import io
import json
import os
import re
import shlex
import shutil
import sys
import tarfile
import tempfile
import venv
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

DRIVER_ENVIRONMENT = "spark.emr-serverless.driverEnv."
# The template's place of a packaged job: what is below its hash never changes.
_SEALED = re.compile(r"/code/([0-9a-f]{64})/([^/]+)$")
_FILES = ("--jars", "--py-files", "--files")


@dataclass(frozen=True)
class Prepared:
    """Parameters as spark-submit takes them here, with local paths; the driver's environment; whether the run brought
    its own Python."""

    parameters: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    own_code: bool = False


def prepare(parameters: str, folder: Path, fetch: Callable[[str], bytes], kept: Path | None = None) -> Prepared:
    """Bring what `parameters` (sparkSubmitParameters) name by an s3:// URL into `folder`, the driver's working
    directory.

    `kept`: a folder beside it for what lies below its own hash (`_SEALED`): that is fetched and unpacked once, and each
    run gets links to it, one run after the other. Raises what `fetch` raises, ValueError for an archive that is none.
    """
    words = iter([part for word in shlex.split(parameters) for part in _parts(word)])
    left: list[str] = []
    environment: dict[str, str] = {}
    own_code = False
    for word in words:
        if word not in (*_FILES, "--archives", "--conf"):
            left.append(word)
            continue
        value = next(words, "")
        name, _, text = value.partition("=") if word == "--conf" else (word, "", value)
        if name in _FILES:
            left += [word, ",".join(_local(url, folder, fetch, kept) for url in text.split(","))]
        elif name in ("--archives", "spark.archives"):
            for url in text.split(","):
                _unpack(url, folder, fetch, kept)
            own_code = True
        elif name.startswith(DRIVER_ENVIRONMENT):
            environment[name.removeprefix(DRIVER_ENVIRONMENT)] = text
        else:
            left += [word, value]
    return Prepared(left, environment, own_code)


def _parts(word: str) -> list[str]:
    """`--option=value` as two words."""
    return word.split("=", 1) if word.startswith("--") and "=" in word else [word]


def _local(url: str, folder: Path, fetch: Callable[[str], bytes], kept: Path | None) -> str:
    if not url.startswith("s3://"):
        return url
    copy = folder / Path(urlparse(url).path).name
    held = _held(url, kept)
    if held is None:
        copy.write_bytes(fetch(url))
        return str(copy)
    if not held.exists():
        with _whole(held) as new:
            new.write_bytes(fetch(url))
    os.link(held, copy)
    return str(copy)


def _unpack(url: str, folder: Path, fetch: Callable[[str], bytes], kept: Path | None) -> None:
    """`URL#name` -> the folder `name`."""
    place, _, name = url.partition("#")
    name = name or Path(place).name
    if Path(name).name != name or name == "..":
        raise ValueError(f"{name!r} is not the name of a folder; write {place}#environment")
    held = _held(place, kept)
    if held is None:
        _extract(place, folder / name, fetch)
        return
    if not held.exists():
        with _whole(held) as new:
            _extract(place, new, fetch)
    shutil.copytree(held, folder / name, symlinks=True, copy_function=os.link)


def _held(url: str, kept: Path | None) -> Path | None:
    """Where what is at the URL is kept; None if it may change, or is not to be kept. That of other hashes goes."""
    sealed = _SEALED.search(url)
    if kept is None or sealed is None:
        return None
    folder = kept / sealed[1]
    if not folder.exists():
        shutil.rmtree(kept, ignore_errors=True)  # a run that still needs it has links of its own
        folder.mkdir(parents=True, exist_ok=True)
    return folder / sealed[2]


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Where to make what will be at `path` once all of it is there."""
    scratch = Path(tempfile.mkdtemp(dir=path.parent))
    try:
        yield scratch / path.name
        (scratch / path.name).rename(path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _extract(place: str, into: Path, fetch: Callable[[str], bytes]) -> None:
    try:
        with tarfile.open(fileobj=io.BytesIO(fetch(place) if place.startswith("s3://") else _read(place))) as archive:
            archive.extractall(into, filter="data")
    except (tarfile.TarError, EOFError, zlib.error) as error:  # the last two: it was cut off
        raise ValueError(f"{place} is not an archive: {error}") from error


def _read(path: str) -> bytes:
    return Path(path.removeprefix("file://")).read_bytes()


class NoSuchImage(Exception):
    """This machine can't stand in for the image that a job was packaged for. The text says what to do."""


def manifest(package: Path) -> dict[str, Any]:
    """What `make package` says of the job in `package`. Raises NoSuchImage."""
    try:
        found: dict[str, Any] = json.loads((package / "manifest.json").read_text())
    except OSError as error:
        raise NoSuchImage(f"{package} holds no packaged job: run `make package` first") from error
    return found


def python(folder: Path, version: str) -> Path:
    """The image's interpreter of that version ("3.11"): one in `folder`, with its own library and no other.

    Raises NoSuchImage.
    """
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version != here:
        raise NoSuchImage(
            f"the job was packaged for Python {version}, and this is {here}: `python -m infra.package --python {here}`"
        )
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / f"python{version}"
