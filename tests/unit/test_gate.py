"""Files whose tests are made when their turn has come: each is run once, and what fails is told."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "test_good.py": """
import pytest
from tests.gate import made_in

@pytest.fixture(scope="module")
def chosen(request):
    return [test.callspec.params["n"] for test in made_in(request.path, request.session)]

@pytest.mark.parametrize("n", [1, 2, 3])
def test_it(n, chosen):
    assert chosen == [1, 2, 3]
""",
    "test_bad.py": """
import pytest

@pytest.fixture
def kept():
    yield
    raise ValueError("at its end")

def test_wrong():
    assert not "wrong"

def test_left_out():
    pytest.skip("not here")

def test_ends_badly(kept):
    pass
""",
    "test_no_module.py": "import nothing_of_this_name\n",
}


def test_all_are_run_once_and_what_fails_is_told(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadscope", "-p", "tests.conftest", "-ra", "."],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    told = [line.partition(" - ")[0] for line in ran.stdout.splitlines()]
    assert told[-1].strip("= ").startswith("1 failed, 4 passed, 1 skipped, 2 errors in"), ran.stdout
    assert "FAILED test_bad.py::test_wrong" in told
    assert "ERROR test_bad.py::test_ends_badly" in told
    assert "ERROR test_no_module.py" in told
