"""Functions on Arrow batches, as Spark's Python workers run them."""

import importlib
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from firn_spark import arrow


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python reads an archive again only once it is asked for it")
def test_a_worker_reads_no_archive_again_before_each_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", zipimport.zipimporter.invalidate_caches)
    archive, read = tmp_path / "some.zip", []
    with zipfile.ZipFile(archive, "w") as some:
        some.writestr("in_an_archive.py", "")
    monkeypatch.syspath_prepend(str(archive))
    importlib.import_module("in_an_archive")
    directory = zipimport._read_directory  # type: ignore[attr-defined]
    monkeypatch.setattr(zipimport, "_read_directory", lambda path: read.append(path) or directory(path))

    importlib.invalidate_caches()
    assert str(archive) in read, "what Python does by itself"
    read.clear()
    assert list(arrow._cheap_to_start(iter)([])) == []
    importlib.invalidate_caches()
    assert read == []
