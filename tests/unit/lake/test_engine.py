"""The query function's wheels: unpacked once, and only where there are any."""

import os
import sys
import zipfile
from pathlib import Path

import pytest

from firn_lake.sql.engine import FOLDER, unpack


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
    into = unpack(below=tmp_path)
    assert into is not None
    assert sorted(str(file.relative_to(into)) for file in into.rglob("*.*")) == ["one/__init__.py", "pyarrow/lib.py"]
    assert sys.path[-1] == str(into)


def test_what_is_there_is_not_unpacked_again(layer: Path, tmp_path: Path) -> None:
    into = unpack(below=tmp_path)
    assert into is not None
    (into / "one" / "__init__.py").write_text("ours")
    assert unpack(below=tmp_path) == into
    assert (into / "one" / "__init__.py").read_text() == "ours"
    assert sys.path.count(str(into)) == 1
    assert {entry.name for entry in tmp_path.iterdir()} == {"layer", into.name}


def test_other_wheels_are_unpacked_elsewhere(layer: Path, tmp_path: Path) -> None:
    before = unpack(below=tmp_path)
    (layer / "one-1-py3-none-any.whl").rename(layer / "one-2-py3-none-any.whl")
    assert unpack(below=tmp_path) != before


def test_an_unpacking_that_broke_off_leaves_nothing_that_counts(layer: Path, tmp_path: Path) -> None:
    (layer / "broken-1-py3-none-any.whl").write_bytes(b"no zip")
    with pytest.raises(zipfile.BadZipFile):
        unpack(below=tmp_path)
    assert list(tmp_path.glob("firn_engine*")) == []


def test_what_another_user_left_there_is_not_imported(
    layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack(below=tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(PermissionError, match="belongs to another user"):
        unpack(below=tmp_path)


def test_where_there_are_no_wheels_nothing_happens(tmp_path: Path) -> None:
    assert unpack([str(tmp_path)], tmp_path) is None
    assert list(tmp_path.iterdir()) == []
