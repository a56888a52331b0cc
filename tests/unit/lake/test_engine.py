"""The query function's wheels: unpacked once, and only where there are any."""

import sys
import zipfile
from pathlib import Path

import pytest

from firn_lake.engine import FOLDER, unpack


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A layer with two wheels."""
    folder = tmp_path / "layer" / FOLDER
    folder.mkdir(parents=True)
    for name, files in {
        "one": ["one/__init__.py"],
        "pyarrow": ["pyarrow/lib.py", "pyarrow/include/a.h", "pyarrow/a.pyx"],
    }.items():
        with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as wheel:
            for file in files:
                wheel.writestr(file, "")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "layer")])
    return folder


def test_wheels_are_unpacked_without_what_only_compilers_need(layer: Path, tmp_path: Path) -> None:
    into = tmp_path / "engine"
    assert unpack(into=into) == into
    assert sorted(str(file.relative_to(into)) for file in into.rglob("*.*")) == ["one/__init__.py", "pyarrow/lib.py"]
    assert sys.path[-1] == str(into)


def test_what_is_there_is_not_unpacked_again(layer: Path, tmp_path: Path) -> None:
    into = tmp_path / "engine"
    unpack(into=into)
    (into / "one" / "__init__.py").write_text("ours")
    unpack(into=into)
    assert (into / "one" / "__init__.py").read_text() == "ours"
    assert sys.path.count(str(into)) == 1
    assert {entry.name for entry in tmp_path.iterdir()} == {"layer", "engine"}


def test_an_unpacking_that_broke_off_leaves_nothing_that_counts(layer: Path, tmp_path: Path) -> None:
    into = tmp_path / "engine"
    (layer / "broken-1-py3-none-any.whl").write_bytes(b"no zip")
    with pytest.raises(zipfile.BadZipFile):
        unpack(into=into)
    assert not into.exists()
    (layer / "broken-1-py3-none-any.whl").unlink()
    assert unpack(into=into) == into


def test_where_there_are_no_wheels_nothing_happens(tmp_path: Path) -> None:
    assert unpack([str(tmp_path)], tmp_path / "engine") is None
    assert not (tmp_path / "engine").exists()
