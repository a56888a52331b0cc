"""Runs inside pytest over a copy of Firn (`-p tests.mutants.witness`) and tells what became of each test, and whose
code it was that ran."""

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from hypothesis import Phase, settings

PACKAGES: Final = frozenset({"firn", "firn_lake", "firn_local", "firn_spark"})
TOLD: Final = "FIRN_WITNESS"  # names the file to tell it in

# A failure need not be made small: that it fails is all.
settings.register_profile(
    "mutant",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=100,
    phases=(Phase.explicit, Phase.generate),
)
# That a test can be run in the copy shows by its first examples.
_FEW: Final = 5
settings.register_profile("copy", settings.get_profile("mutant"), max_examples=_FEW)
_ran: dict[str, str] = {}
_files: set[str] = set()
_here: Final = os.getcwd() + os.sep


def _executed(event: str, arguments: tuple[Any, ...]) -> None:
    """A function's app.py is loaded by its path and stands in no list of modules."""
    file = getattr(arguments[0], "co_filename", "") if event == "exec" else ""
    if file.startswith(_here):
        _files.add(file)


sys.addaudithook(_executed)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """In the profile `copy` a test that says how many examples it wants gets as few as the others."""
    if os.environ.get("HYPOTHESIS_PROFILE") != "copy":
        return
    for function in {item.obj for item in items if hasattr(item, "obj")}:
        if own := getattr(function, "_hypothesis_internal_use_settings", None):
            function._hypothesis_internal_use_settings = settings(own, max_examples=_FEW)


def pytest_runtest_logreport(report: Any) -> None:
    """`passed`, `failed` (the test itself), or `failed in setup` and the like; with the error's first line."""
    if report.when == "call" or report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        where = "" if report.when == "call" else f" in {report.when}"
        _ran[report.nodeid] = f"{report.outcome}{where}: {str(crash.message).partition(chr(10))[0] if crash else ''}"
    _files.update(
        str(Path(file).resolve())
        for module in [*sys.modules.values()]
        if module.__name__.partition(".")[0] in PACKAGES and (file := getattr(module, "__file__", None))
    )


def pytest_sessionfinish(session: Any) -> None:
    """Writes what was seen. Firn's own modules must all be the copy's."""
    here = str(Path(session.config.rootpath).resolve())
    foreign = sorted(file for file in _files if not file.startswith(here + os.sep))
    told = {"ran": _ran, "files": sorted(os.path.relpath(file, here) for file in _files), "foreign": foreign}
    Path(os.environ[TOLD]).write_text(json.dumps(told), encoding="utf-8")
