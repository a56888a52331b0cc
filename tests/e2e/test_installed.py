"""The wheel in an empty environment, away from the checkout: examples/first-row/first_row.sh, and what is missing.

Libraries come from this environment (nothing is downloaded); Firn itself comes from the wheel alone.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra.package.distribution import build
from tests.e2e.conftest import ROOT
from tests.soak import long_only

BROWSER = ROOT / ".venv-browser" / "bin" / "python"
LIBRARIES = next((ROOT / ".venv" / "lib").glob("python3*/site-packages"))
LOOK = f"{BROWSER} {ROOT}/tests/e2e/row_in_browser.py"
PATIENCE = 400  # seconds, for the whole script

needs_chromium = pytest.mark.skipif(
    not BROWSER.exists() or shutil.which("chromium") is None, reason="needs Chromium: make setup-tests"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))[1]


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment's Python that has the wheel, and all libraries but Firn's own checkout."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    own = next((folder / "lib").glob("python3*/site-packages"))
    (own / "libraries.pth").write_text(f"{LIBRARIES}\n")  # its own .pth files, the checkout's among them, are not read
    pip = [sys.executable, "-m", "pip", "--python", str(folder), "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--ignore-installed", str(wheel)], check=True, timeout=120)
    return folder / "bin" / "python"


def environment(python: Path, cache: Path) -> dict[str, str]:
    """What a shell with that environment first on its PATH has. The jars are those of the checkout."""
    (cache / "firn").mkdir(exist_ok=True)
    if not (cache / "firn" / "jars").exists():
        (cache / "firn" / "jars").symlink_to(ROOT / ".cache" / "jars")
    return {
        **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(cache),
        "PIP_NO_INDEX": "1",
    }


def first_row(python: Path, wheel: Path, cache: Path, **more: str) -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    done = subprocess.run(
        ["bash", str(ROOT / "examples" / "first-row" / "first_row.sh"), f"{wheel}[all]"],
        cwd=cache, env=environment(python, cache) | {"PORT": str(port), **more},
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shown() -> list[str]:
    """The commands of docs/how-to/install.md, but for the one that makes the wheel."""
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    found = re.findall(r"```sh tested=tests/e2e/test_installed.py\n(.*?)```", page, re.DOTALL)
    return [line for block in found for line in block.splitlines() if not line.startswith("make ")]


def port_of(told: str) -> str:
    return re.findall(r"firn up --port (\d+)", told)[0]


@needs_chromium
def test_an_installed_firn_shows_its_own_row_fresh_after_four_commands(
    python: Path, wheel: Path, tmp_path: Path
) -> None:
    """In the terminal and in a browser, however long it takes beside other tests."""
    told = first_row(python, wheel, tmp_path, ROW_ONLY="1", LOOK=LOOK, ROW_SECONDS=str(PATIENCE))
    assert '"name": "Ada"' in told
    assert "the browser shows: 1 Ada" in told
    assert "in 4 commands after" in told
    typed = [line.removeprefix("$ ") for line in told.splitlines() if line.startswith("$ ")][:4]
    assert [re.sub(r" --(quiet|json|port \d+)| &$|/\S*(?=/firn_cdc)", "", one) for one in typed] == [
        re.sub("/path/to|8181", lambda found: "" if found[0] != "8181" else port_of(told), " ".join(shlex.split(one)))
        for one in shown()
    ]


@long_only
@needs_chromium
def test_the_first_row_takes_60_seconds_at_most_and_its_commit_three_minutes(
    python: Path, wheel: Path, tmp_path: Path
) -> None:
    """The script ends with 1 after that. On a machine that does nothing else: `make soak` runs one test at a time."""
    told = first_row(python, wheel, tmp_path, FLUSH="1", LOOK=LOOK)
    assert re.search(r"in 4 commands after \d", told)
    assert "committed after" in told


def test_what_the_wheel_holds_is_not_the_checkout(python: Path, tmp_path: Path) -> None:
    """`import firn` beside a folder that is called firn, such as a clone of it."""
    (tmp_path / "firn").mkdir()
    said = subprocess.run(
        [str(python), "-c", "import firn, firn_cli, firn_local.environment as at; print(firn.__file__, at.INSTALLED)"],
        cwd=tmp_path, env=environment(python, tmp_path), capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    assert said == f"{next((python.parents[1] / 'lib').glob('python3*'))}/site-packages/firn/__init__.py True\n"


@pytest.mark.parametrize(("lacks", "extra"), [("duckdb", "lake"), ("moto", "local"), ("typer", "cli")])
def test_what_is_not_installed_is_named_with_its_extra(python: Path, tmp_path: Path, lacks: str, extra: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{lacks!r}] = None\n")
    command = {"lake": ["query", "SELECT 1"], "local": ["up", "--port", "0"], "cli": ["status"]}[extra]
    told = subprocess.run(
        [str(python.parent / "firn"), *command],
        cwd=tmp_path, env=environment(python, tmp_path) | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert told.returncode != 0
    assert f"pip install 'firn-cdc[{extra}]'" in told.stderr, told.stderr + told.stdout
    assert "Traceback" not in told.stderr


def test_the_embedded_stack_without_its_extra_names_it(python: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['waitress'] = None\n")
    told = subprocess.run(
        [str(python), "-m", "firn_local"],
        cwd=tmp_path, env=environment(python, tmp_path) | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.strip().endswith("pip install 'firn-cdc[local]'")
    assert "Traceback" not in told.stderr


def test_the_wheel_says_who_it_is_and_holds_no_test(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as held:
        names = held.namelist()
        (about,) = [held.read(name).decode() for name in names if name.endswith("dist-info/METADATA")]
    assert "Name: firn-cdc" in about
    assert "License-Expression: Apache-2.0" in about
    assert {"firn_bundle/template.yaml", "firn_console/assets/index.html"} <= set(names)
    assert not [name for name in names if name.startswith("tests/") or "__pycache__" in name]
