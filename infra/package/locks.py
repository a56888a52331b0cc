"""A lock for each layer: the wheels that `sam build` puts into it, each by version and hash.

    layers/core/python/requirements.txt     what the layer needs, as ranges
    layers/core/python/requirements.lock    what it gets: one line a wheel, for Lambda's Python and platform

Versions are those of requirements.lock, so that what is deployed is what the tests ran with. Each hash is in there
too: the two files were made apart, from what the registry said each time, and agree.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra.package import PackageError

ROOT: Final = Path(__file__).resolve().parents[2]
LAYERS: Final = ("core", "lake", "query", "avro", "sources")
# template.yaml's Runtime and Architectures; the platform is the jobs' too.
PYTHON: Final = "3.13"
PLATFORMS: Final = ("manylinux2014_x86_64", "manylinux_2_28_x86_64")
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;]+)(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One library of a lock: its version, and the SHA-256 of each file that may be installed."""

    name: str
    version: str
    hashes: frozenset[str]


def pins(lock: str) -> dict[str, Pin]:
    """What a lock's text pins, by canonical name: pip-compile's or one of ours."""
    found = (Pin(canonicalize_name(one[1]), one[2], frozenset(_HASH.findall(one[3]))) for one in _PIN.finditer(lock))
    return {pin.name: pin for pin in found}


def requirements(text: str) -> list[Requirement]:
    """What a requirements file asks for."""
    return [Requirement(line) for line in text.splitlines() if line and not line.startswith("#")]


def make(layer: str, root: Path = ROOT) -> None:
    """Write the layer's lock again, by what the package registry has. Raises PackageError."""
    folder = root / "layers" / layer / "python"
    tested = pins((root / "requirements.lock").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        constraints = Path(scratch) / "constraints.txt"
        constraints.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in tested.values()))
        report = fetched(
            *("--dry-run", "--ignore-installed", "-c", str(constraints), "--target", str(Path(scratch) / "none")),
            *("-r", str(folder / "requirements.txt")),
            python=PYTHON,
        )
    head = f"# The wheels of this layer for Python {PYTHON} on {PLATFORMS[0]}, by `make lock`.\n"
    lines = [f"{pin.name}=={pin.version} --hash=sha256:{min(pin.hashes)}\n" for pin in report]
    (folder / "requirements.lock").write_text(head + "".join(lines))


def fetched(*arguments: str, python: str) -> list[Pin]:
    """Run `pip install` for the platform of functions and jobs -> what it took, by name. Raises PackageError."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"),
                *("--only-binary=:all:", "--implementation", "cp", "--python-version", python),
                *(part for one in PLATFORMS for part in ("--platform", one)),
                *("--report", report.name, *arguments),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise PackageError(f"pip can't fetch the libraries for Python {python}:\n{done.stderr.strip()[-2000:]}")
        return sorted(map(_pin, json.load(report)["install"]), key=lambda pin: pin.name)


def _pin(installed: dict[str, Any]) -> Pin:
    of = installed["metadata"]
    sha256 = installed["download_info"]["archive_info"]["hashes"]["sha256"]
    return Pin(canonicalize_name(of["name"]), of["version"], frozenset([sha256]))


def problems(root: Path = ROOT) -> Iterator[str]:
    """Where a lock disagrees with what is asked for, or with the versions that are tested."""
    tested = pins((root / "requirements.lock").read_text())
    for layer in LAYERS:
        folder = root / "layers" / layer / "python"
        lock = pins((folder / "requirements.lock").read_text())
        yield from (
            f"{layer}: {problem}" for problem in unmet(requirements((folder / "requirements.txt").read_text()), lock)
        )
        for name, pin in lock.items():
            known = tested.get(name)
            if known is None or known.version != pin.version or not pin.hashes <= known.hashes:
                yield f"{layer}: {name}=={pin.version} is not the file that requirements.lock names"
    for source in sorted((root / "infra" / "setup").glob("*.in")):
        lock = pins(source.with_suffix(".lock").read_text())
        yield from (f"{source.stem}: {problem}" for problem in unmet(requirements(source.read_text()), lock))


def unmet(asked: list[Requirement], lock: dict[str, Pin]) -> Iterator[str]:
    """What is asked for and not pinned so, and what is pinned without a hash."""
    for requirement in asked:
        pin = lock.get(canonicalize_name(requirement.name))
        if pin is None or not requirement.specifier.contains(pin.version, prereleases=True):
            yield f"{requirement} is pinned as {pin.version if pin else 'nothing'}"
    yield from (f"{pin.name}=={pin.version} has no hash" for pin in lock.values() if not pin.hashes)
