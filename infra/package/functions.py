"""How large each built function is with its layers, and how long it takes to import: from what `sam build` left.

Lambda takes 250 MB unzipped, layers included (its quotas). The import is most of a cold start that is ours.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from firn_local.intrinsics import load

MEGABYTE: Final = 1_000_000
LARGEST_BYTES: Final = 240 * MEGABYTE
RUNS: Final = 9
# A process that sees the built folders and Python's own library, and nothing else: what the package lacks is missing.
_IMPORT: Final = """
import sys, time
sys.path[:0] = sys.argv[2:]
began = time.perf_counter()
__import__(sys.argv[1])
print(time.perf_counter() - began)
"""


@dataclass(frozen=True)
class Budget:
    """At most so many bytes unzipped, and so many seconds to import; None: as long as it takes."""

    bytes: int = LARGEST_BYTES
    seconds: float | None = None


# Senders wait for the ingest functions.
BUDGETS: Final[Mapping[str, Budget]] = {
    "IngestHttp": Budget(80 * MEGABYTE, 0.2),
    "IngestQueue": Budget(80 * MEGABYTE, 0.2),
}


@dataclass(frozen=True)
class Measured:
    """One function. `bytes`: unzipped, with its layers; `seconds`: the median of cold imports. `over`: what of its
    budget it breaks, in words."""

    name: str
    bytes: int
    seconds: float
    budget: Budget
    over: tuple[str, ...] = ()


class NotBuilt(Exception):
    """There is nothing to measure, or it can't be imported. The text says what to do."""


def measure(
    built: Path,
    budgets: Mapping[str, Budget] = BUDGETS,
    runs: int = RUNS,
    began: Callable[[str], None] = lambda _name: None,
) -> list[Measured]:
    """Measure all functions of a built template. `built`: .aws-sam/build; `began` hears each function's name.

    Raises NotBuilt.
    """
    template = built / "template.yaml"
    if not template.is_file():
        raise NotBuilt(f"{template} is not there: run `make sam` first")
    data = load(template.read_text())
    resources: Mapping[str, Any] = data["Resources"]
    defaults = data.get("Globals", {}).get("Function", {})
    found = []
    for name, resource in resources.items():
        if resource["Type"] != "AWS::Serverless::Function":
            continue
        began(name)
        properties = {**defaults, **resource["Properties"]}
        layers = (*defaults.get("Layers", ()), *resource["Properties"].get("Layers", ()))
        contents = (resources[layer["Ref"]]["Properties"]["ContentUri"] for layer in layers)
        folders = [built / folder for folder in (properties["CodeUri"], *contents)]
        size = sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())
        module = properties["Handler"].rpartition(".")[0]
        seconds = statistics.median(_import_seconds(name, module, folders) for _ in range(runs))
        budget = budgets.get(name, Budget())
        found.append(Measured(name, size, round(seconds, 4), budget, _over(size, seconds, budget)))
    return found


def _over(size: int, seconds: float, budget: Budget) -> tuple[str, ...]:
    over = []
    if size > min(budget.bytes, LARGEST_BYTES):
        over.append(f"{size / MEGABYTE:.1f} MB unzipped, of {min(budget.bytes, LARGEST_BYTES) / MEGABYTE:g}")
    if budget.seconds is not None and seconds > budget.seconds:
        over.append(f"{seconds * 1000:.0f} ms to import, of {budget.seconds * 1000:g}")
    return tuple(over)


def _import_seconds(name: str, module: str, folders: list[Path]) -> float:
    # A layer's `python` folder is on Lambda's path; the function's own folder comes first.
    path = [str(folder / "python" if (folder / "python").is_dir() else folder) for folder in folders]
    done = subprocess.run(
        # -B: /opt can't be written to, so an import that left bytecode behind would flatter the next one.
        [sys.executable, "-I", "-S", "-B", "-c", _IMPORT, module, *path],
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
    return float(json.loads(done.stdout))
