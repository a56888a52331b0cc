"""Which Python LocalStack and the functions get."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
OURS = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("firn_setup", ROOT / "infra" / "setup" / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_that_is_named_is_taken_if_it_is_of_that_release(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRN_PYTHON_X", sys.executable)
    assert setup.python_of(OURS, "FIRN_PYTHON_X") == sys.executable
    assert setup.python_of("3.2", "FIRN_PYTHON_X") is None


def test_one_that_is_named_and_not_there_is_not_replaced_by_another(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRN_PYTHON_X", "/nowhere/python")
    assert setup.python_of(OURS, "FIRN_PYTHON_X") is None


def test_a_shim_that_runs_nothing_is_passed_by(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shim = tmp_path / f"python{OURS}"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    real = tmp_path / "pyenv" / "versions" / f"{OURS}.99" / "bin" / "python"
    real.parent.mkdir(parents=True)
    real.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert setup.python_of(OURS, "FIRN_PYTHON_X") == str(real)


def test_what_is_missing_comes_with_the_way_to_get_it(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRN_PYTHON_LOCALSTACK", "/nowhere/python")
    [said, *_] = setup.missing_pythons()
    assert "Python 3.13" in said
    assert "uv python install 3.13" in said
    assert "FIRN_PYTHON_LOCALSTACK" in said
