"""What `make package` says of each layer, each function with its layers, and the job's archive: how large it is, how
long it takes to import, and whether what runs it has the Python and the system libraries that it needs.

Lambda takes 250 MB unzipped, layers included (its quotas). The import is most of a cold start that is ours.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from firn_local.environment import RUNTIME_PYTHON
from firn_local.intrinsics import load
from infra.package.job import ARCHIVE, MANIFEST
from infra.package.locks import ROOT
from infra.package.native import Needs, needs
from infra.package.runtimes import Runtime, runtime

MEGABYTE: Final = 1_000_000
LARGEST_BYTES: Final = 240 * MEGABYTE
RUNS: Final = 5  # of a function that has a budget of seconds
_MORE: Final = 8  # times as many, while it is over it
_PAUSE: Final = 1.5  # seconds between those: what else a machine does may go on for a while
TEMPLATE: Final = ROOT / "template.yaml"
# A process that sees the built folders and Python's own library, and nothing else: what the package lacks is missing.
# Its CPU seconds, because the clock on the wall also counts what else the machine does.
_IMPORT: Final = """
import importlib, sys, time
modules, sys.path[:0] = sys.argv[1].split(","), sys.argv[2:]
began = time.process_time()
for module in modules:
    importlib.import_module(module)
print(time.process_time() - began)
"""
# What each is there for: all that its users import of it. A function's is its handler's module.
_MODULES: Final[Mapping[str, Sequence[str]]] = {
    "CoreLayer": ("firn.function_context", "arro3.io", "aws_lambda_powertools", "obstore", "yaml", "zstandard"),
    "LakeLayer": ("firn_lake.tables", "firn_lake.tiering", "pyiceberg.catalog.sql", "pyiceberg.catalog.rest"),
    "AvroLayer": ("fastavro",),
    "QueryLayer": ("duckdb", "pyarrow.parquet", "pyarrow.dataset", "sqlglot"),
    "SourcesLayer": ("firn.sources.postgres.slot_reader", "pg8000.native"),
    ARCHIVE: (
        "firn_spark.commit",
        "firn_spark.rebuild",
        "firn_spark.maintenance_job",
        "firn_spark.session",
        "firn_sql.transform",
        "obstore.auth.boto3",
    ),
}


@dataclass(frozen=True)
class Budget:
    """At most so many bytes unzipped, and so many CPU seconds to import; None: as many as it takes."""

    bytes: int | None = LARGEST_BYTES
    seconds: float | None = None


UNLIMITED: Final = Budget(bytes=None)
# Senders wait for the ingest functions.
BUDGETS: Final[Mapping[str, Budget]] = {
    "IngestHttp": Budget(80 * MEGABYTE, 0.2),
    "IngestQueue": Budget(80 * MEGABYTE, 0.2),
    "IngestStream": Budget(90 * MEGABYTE, 0.2),  # with fastavro, which is imported for Avro alone
}


@dataclass(frozen=True)
class Measured:
    """A layer, a function with its layers, or the job's archive.

    bytes       unzipped
    seconds     of CPU, of a cold import, the least of several where there is a budget; None: nothing is known to be
                imported of it
    python, glibc               what runs it has; `…_needed`: what it needs, None for any
    problems    what of its budget it breaks, and what it needs that is not there, in words
    """

    kind: str
    name: str
    bytes: int
    seconds: float | None
    budget: Budget
    python: str
    python_needed: str | None
    glibc: str
    glibc_needed: str | None
    problems: tuple[str, ...]


class NotBuilt(Exception):
    """There is nothing to measure, or it can't be imported. The text says what to do."""


def measure(
    built: Path,
    budgets: Mapping[str, Budget] = BUDGETS,
    runs: int = RUNS,
    began: Callable[[str], None] = lambda _name: None,
) -> list[Measured]:
    """Measure the layers and functions of a built template. `built`: .aws-sam/build; `began` hears each name.

    Raises NotBuilt, PackageError.
    """
    template = built / "template.yaml"
    if not template.is_file():
        raise NotBuilt(f"{template} is not there: run `make sam` first")
    data = load(template.read_text())
    resources: Mapping[str, Any] = data["Resources"]
    defaults = data.get("Globals", {}).get("Function", {})
    read: dict[Path, Needs] = {}
    found: dict[str, Measured] = {}

    def one(kind: str, name: str, folders: list[Path], modules: Sequence[str], on: Runtime) -> None:
        began(name)
        together = Needs()
        budget = budgets.get(name, Budget()) if kind == "function" else UNLIMITED
        for folder in folders:
            if folder not in read:
                read[folder] = needs(folder)
            together.add(read[folder])
        # A function counts with its layers; a layer by itself, though it is imported with those below it.
        size = sum(map(_size, folders if kind == "function" else folders[-1:]))
        shown = together if kind == "function" else read[folders[-1]]
        with tempfile.TemporaryDirectory() as scratch:
            path = [*map(_on_path, reversed(folders)), *_unpacked(folders, Path(scratch))]
            seconds = None
            # The least of some runs: whatever else the machine does lengthens one. Of what is too long, of more.
            most = budget.seconds
            for run in range((_MORE * runs if most is not None else 1) if modules else 0):
                if run >= runs and seconds is not None and most is not None and seconds <= most:
                    break
                if run >= runs:
                    time.sleep(_PAUSE)
                took = _import_seconds(name, modules, path, on.pythons[0])
                seconds = took if seconds is None else min(seconds, took)
        found[name] = _measured(kind, name, size, seconds, budget, shown, together, on)

    for name, resource in resources.items():
        if resource["Type"] != "AWS::Serverless::Function":
            continue
        properties = {**defaults, **resource["Properties"]}
        on = runtime(properties["Runtime"])
        layers = [layer["Ref"] for layer in (*defaults.get("Layers", ()), *resource["Properties"].get("Layers", ()))]
        folders = [built / resources[layer]["Properties"]["ContentUri"] for layer in layers]
        for count, layer in enumerate(layers, 1):
            if layer not in found:
                one("layer", layer, folders[:count], _MODULES.get(layer, ()), on)
        one("function", name, [*folders, built / properties["CodeUri"]], [properties["Handler"].rpartition(".")[0]], on)
    return sorted(found.values(), key=lambda it: it.kind, reverse=True)


def measure_job(code: Path, manifest: Mapping[str, Any]) -> Measured:
    """Measure the archive of a packaged job, which needs no more of an EMR image than its Python and Spark.

    Raises NotBuilt, PackageError.
    """
    if not (code / MANIFEST).is_file():
        raise NotBuilt(f"{code / MANIFEST} is not there: run `make package` first")
    parameters = load(TEMPLATE.read_text())["Parameters"]
    on, python = runtime(parameters["EmrRelease"]["Default"]), str(manifest["python"])
    import py4j
    import pyspark

    with tempfile.TemporaryDirectory() as scratch:
        folder, image = Path(scratch) / "job", Path(scratch) / "image"
        with tarfile.open(code / ARCHIVE) as archive:
            archive.extractall(folder, filter="data")
        image.mkdir()
        for module in (py4j, pyspark):  # the image's own
            (image / module.__name__).symlink_to(Path(module.__file__).parent)
        wanted = needs(folder)
        path = [str(folder), str(image)]
        seconds = _import_seconds(ARCHIVE, _MODULES[ARCHIVE], path, python)
        return _measured("job", ARCHIVE, _size(folder), seconds, UNLIMITED, wanted, wanted, on, python)


def interpreter(python: str) -> str:
    """A Python of that version ("3.13"): this one, or the runtime's environment. Raises NotBuilt."""
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([str(RUNTIME_PYTHON), "-c", asked], capture_output=True, text=True, check=False)
        if done.stdout.strip() == python:
            return str(RUNTIME_PYTHON)
    except OSError:
        pass
    raise NotBuilt(f"there is no Python {python} in {RUNTIME_PYTHON.parents[1]}: run `make setup-sam`")


def _measured(
    kind: str,
    name: str,
    size: int,
    seconds: float | None,
    budget: Budget,
    shown: Needs,
    together: Needs,
    on: Runtime,
    python: str | None = None,
) -> Measured:
    python = python or on.pythons[0]
    return Measured(
        kind,
        name,
        size,
        None if seconds is None else round(seconds, 4),
        budget,
        python if len(on.pythons) == 1 else ", ".join(on.pythons),
        shown.python,
        str(on.system.glibc),
        None if shown.glibc is None else str(shown.glibc),
        (*_over(size, seconds, budget), *together.unmet(on, python)),
    )


def _over(size: int, seconds: float | None, budget: Budget) -> Iterator[str]:
    if budget.bytes is not None and size > budget.bytes:
        yield f"{size / MEGABYTE:.1f} MB unzipped, of {budget.bytes / MEGABYTE:g}"
    if budget.seconds is not None and seconds is not None and seconds > budget.seconds:
        yield f"{seconds * 1000:.0f} ms to import, of {budget.seconds * 1000:g}"


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _on_path(folder: Path) -> str:
    """What Lambda has on Python's path of a layer or of a function's code."""
    return str(folder / "python" if (folder / "python").is_dir() else folder)


def _unpacked(folders: Sequence[Path], into: Path) -> list[str]:
    """The wheels of a layer that keeps them packed (firn_lake/sql/engine.py), for what is imported of them."""
    for wheel in (wheel for folder in folders for wheel in sorted(folder.rglob("*.whl"))):
        with zipfile.ZipFile(wheel) as opened:
            opened.extractall(into)  # noqa: S202 (a wheel of the lock)
    return [str(into)]


def _import_seconds(name: str, modules: Sequence[str], path: Sequence[str], python: str) -> float:
    done = subprocess.run(
        # -B: /opt can't be written to, so an import that left bytecode behind would flatter the next one.
        [interpreter(python), "-I", "-S", "-B", "-c", _IMPORT, ",".join(modules), *path],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={
            "PATH": os.environ.get("PATH", os.defpath),
            "AWS_LAMBDA_FUNCTION_NAME": name,
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        },
    )
    if done.returncode:
        raise NotBuilt(f"{name} can't be imported from what was built:\n{done.stderr.strip()[-2000:]}")
    return float(done.stdout)
