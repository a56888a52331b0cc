"""The job's archive is checked by its hash when it runs, before anything of it is imported."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.package.locks import ROOT

START = ROOT / "spark_emr" / "start.py"


def unpacked(folder: Path) -> str:
    """The job as EMR unpacks it: a script and a library -> the hash that the run is started with."""
    (folder / "job" / "library").mkdir(parents=True)
    files = {
        "commit.py": b"import sys, library\nprint('ran', sys.argv, library.x, __name__)\nsys.exit(7)\n",
        "library/__init__.py": b"x = 1\n",
    }
    for name, content in files.items():
        (folder / "job" / name).write_bytes(content)
    contents = json.dumps({"files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}})
    (folder / "job" / "contents.json").write_text(contents)
    return hashlib.sha256(contents.encode()).hexdigest()


def started(folder: Path, sha256: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-S", str(START), sha256, *(arguments or ("commit.py", "--stream", "shop"))]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_the_script_runs_as_if_it_had_been_started_itself(tmp_path: Path) -> None:
    done = started(tmp_path, unpacked(tmp_path))
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout == f"ran ['{tmp_path}/job/commit.py', '--stream', 'shop'] 1 __main__\n"


def planted(name: str, content: str = "print('ran')") -> Callable[[Path], None]:
    def plant(job: Path) -> None:
        (job / name).parent.mkdir(parents=True, exist_ok=True)
        (job / name).write_text(content)

    return plant


def linked(job: Path) -> None:
    (job.parent / "elsewhere").mkdir()
    os.symlink(job.parent / "elsewhere", job / "json")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (planted("commit.py"), "commit.py has another hash"),
        (planted("library/__init__.py"), "library/__init__.py has another hash"),
        (planted("json.py"), "json.py is not in contents.json"),
        (planted("sitecustomize.py"), "sitecustomize.py is not in contents.json"),
        (planted("library/__pycache__/x.pyc"), "library/__pycache__/x.pyc is not in contents.json"),
        (planted("contents.json", '{"files": {}}'), "contents.json has another hash"),
        (linked, "json is not in contents.json"),
        (lambda job: (job / "commit.py").unlink(), "commit.py is missing"),
        (lambda job: (job / "contents.json").unlink(), "contents.json can't be read"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_nothing_of_an_archive_that_was_replaced_is_run(
    tmp_path: Path, change: Callable[[Path], None], told: str
) -> None:
    sha256 = unpacked(tmp_path)
    change(tmp_path / "job")
    done = started(tmp_path, sha256)
    assert (done.returncode, done.stdout) == (3, "")
    assert told in done.stderr


def test_an_archive_of_another_release_is_not_run(tmp_path: Path) -> None:
    unpacked(tmp_path)
    done = started(tmp_path, "0" * 64)
    assert (done.returncode, done.stdout) == (3, "")
