"""No circle of imports, among modules or packages; functions and modules are short; a package has each name once.

What may import what is in pyproject.toml (import-linter).
"""

import ast
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ("firn", "firn_lake", "firn_sql", "firn_console", "firn_spark", "firn_local", "firn_deploy", "firn_cli")
SOURCES = sorted(
    path
    for folder in (
        "layers/core",
        "layers/lake",
        "layers/console",
        "cli",
        "functions",
        "spark_emr",
        "infra/local",
        "infra/localstack",
    )
    for path in (ROOT / folder).rglob("*.py")
)


def package(module: str) -> str:
    """firn's subsystems are packages, and each of the others is one."""
    return ".".join(module.split(".")[:2]) if module.startswith("firn.") else module.partition(".")[0]


def circle(*packages: str, of: Callable[[str], str] = str) -> list[str]:
    """One circle of modules, or of what they are parts of; the first again at the end, [] if there is none. Imports
    within functions count, those for types alone do not."""
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=True, cache_dir=None)
    imports: dict[str, set[str]] = {}
    for module in graph.modules:
        mine = imports.setdefault(of(module), set())
        mine |= {of(other) for other in graph.find_modules_directly_imported_by(module)} - {of(module)}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle(*OURS) == []


def test_no_packages_import_each_other_in_a_circle() -> None:
    assert circle(*OURS, of=package) == []


@pytest.mark.parametrize(
    ("last", "found"),
    [
        ("from ringed import first\n", True),
        ("def use():\n    from ringed.first import begin\n", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ringed import first\n", False),
        ("", False),
    ],
)
def test_a_circle_of_three_is_found_lazy_imports_included(
    last: str, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "ringed"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "first.py").write_text("from ringed import second\n")
    (package / "second.py").write_text("from ringed.third import end\n")
    (package / "third.py").write_text(last)
    monkeypatch.syspath_prepend(tmp_path)
    assert (set(circle("ringed")) == {"ringed.first", "ringed.second", "ringed.third"}) is found


def lines(path: Path) -> int:
    return path.read_text().count("\n")


def test_modules_and_handlers_are_short() -> None:
    assert len(SOURCES) > 400
    assert not [path.name for path in SOURCES if lines(path) > 400]
    handlers = [path for path in SOURCES if path.parts[-3] == "functions"]
    assert handlers
    assert [str(path) for path in handlers if lines(path) > 100] == []


def test_functions_are_short() -> None:
    long = {
        node.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno >= 60
    }
    assert not long


@pytest.mark.parametrize(
    "folder",
    [
        "layers/core/python",
        "layers/lake/python",
        "layers/console/python",
        "spark_emr/firn_spark",
        "cli",
        "infra/local",
        "infra/localstack",
    ],
)
def test_no_two_modules_of_a_package_have_one_name(folder: str) -> None:
    names = [path.name for path in SOURCES if path.is_relative_to(ROOT / folder) and path.name != "__init__.py"]
    assert names
    assert sorted({name for name in names if names.count(name) > 1}) == []
