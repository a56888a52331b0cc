"""What is deployed is locked: each layer and each tool by version and hash, as the tests ran with it."""

import importlib.metadata
import re
import shutil
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra.package.locks import LAYERS, PLATFORMS, PYTHON, ROOT, pins, problems, requirements

# Lambda's Python brings it; the layers' own libraries ask for it.
BY_LAMBDA = {"boto3", "botocore", "s3transfer"}


def copied(folder: Path) -> Path:
    """The files that pin what is deployed, to be changed."""
    for layer in LAYERS:
        (folder / "layers" / layer / "python").mkdir(parents=True)
        for name in ("requirements.txt", "requirements.lock"):
            shutil.copy(ROOT / "layers" / layer / "python" / name, folder / "layers" / layer / "python")
    (folder / "infra" / "setup").mkdir(parents=True)
    for file in (ROOT / "infra" / "setup").glob("*.*"):
        shutil.copy(file, folder / "infra" / "setup")
    shutil.copy(ROOT / "requirements.lock", folder)
    return folder


def changed(file: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, file.read_text(), flags=re.MULTILINE)
    assert count == 1, (file, pattern)
    file.write_text(text)


def needed(wanted: list[Requirement]) -> set[str]:
    """The names of these libraries and of all that they need, as installed here."""
    found: set[str] = set()
    todo = list(wanted)
    while todo:
        one = todo.pop()
        name = canonicalize_name(one.name)
        found.add(name)
        for text in importlib.metadata.requires(one.name) or ():
            child = Requirement(text)
            known = [
                {"extra": extra, "python_version": PYTHON, "python_full_version": f"{PYTHON}.0"}
                for extra in ("", *one.extras)
            ]
            if child.marker is not None and not any(child.marker.evaluate(environment) for environment in known):
                continue
            if canonicalize_name(child.name) not in found:
                todo.append(child)
    return found


def test_every_lock_is_what_is_asked_for_and_what_is_tested() -> None:
    assert list(problems()) == []


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_holds_what_it_asks_for_and_what_that_needs_and_nothing_else(layer: str) -> None:
    folder = ROOT / "layers" / layer / "python"
    locked = pins((folder / "requirements.lock").read_text())
    wanted = needed(requirements((folder / "requirements.txt").read_text()))
    assert set(locked) == wanted - BY_LAMBDA


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_is_built_by_hashes_alone_for_the_python_of_the_functions(layer: str) -> None:
    recipe = (ROOT / "layers" / layer / "python" / "Makefile").read_text()
    assert "--require-hashes -r requirements.lock" in recipe
    assert "requirements.txt" not in recipe
    assert f"--python-version {PYTHON} " in recipe
    assert any(f"--platform {platform}" in recipe for platform in PLATFORMS)
    assert f"Runtime: python{PYTHON}\n" in (ROOT / "template.yaml").read_text()


def test_a_range_that_the_lock_does_not_meet_is_told(tmp_path: Path) -> None:
    root = copied(tmp_path)
    changed(root / "layers/core/python/requirements.txt", r"^msgspec.*", "msgspec>=99")
    changed(root / "infra/setup/sam.in", r"^cfn-lint.*", "cfn-lint==0.1")
    assert [one.split(" is ")[0] for one in problems(root)] == ["core: msgspec>=99", "sam: cfn-lint==0.1"]


def test_a_library_that_nobody_pinned_is_told(tmp_path: Path) -> None:
    root = copied(tmp_path)
    changed(root / "layers/query/python/requirements.lock", r"^sqlglot.*\n", "")
    assert [one.split(">=")[0] for one in problems(root)] == ["query: sqlglot"]


def test_another_file_than_the_tested_one_is_told(tmp_path: Path) -> None:
    root = copied(tmp_path)
    changed(root / "layers/core/python/requirements.lock", r"^(msgspec.*sha256:).*", r"\g<1>" + "0" * 64)
    changed(root / "layers/lake/python/requirements.lock", r"^requests==\S+", "requests==2.0")
    told = [one.split("==")[0] for one in problems(root)]
    assert told == ["core: msgspec", "lake: requests"]


def test_a_library_without_a_hash_is_told(tmp_path: Path) -> None:
    root = copied(tmp_path)
    changed(root / "infra/setup/checkov.lock", r"^checkov==(\S+) \\\n(?: .*\n)+", r"checkov==\1\n")
    assert [one.partition("==")[0] + one[-12:] for one in problems(root)] == ["checkov: checkov has no hash"]


def test_every_environment_is_installed_from_a_lock_with_hashes() -> None:
    locks = [ROOT / "requirements.lock", ROOT / "examples/kafka/requirements.lock"]
    locks += [file.with_suffix(".lock") for file in (ROOT / "infra/setup").glob("*.in")]
    for file in locks:
        found = pins(file.read_text())
        assert found, file
        assert [pin for pin in found.values() if not pin.hashes] == [], file
