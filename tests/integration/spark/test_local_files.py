"""Hadoop's file system of local files, once no process gives them their permissions."""

import stat
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn_spark import local_files


def test_local_files_get_their_permissions_without_a_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_files.without_processes(spark)
    jvm: Any = spark._jvm
    settings = spark._jsc.hadoopConfiguration()
    hadoop = jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(jvm.java.net.URI(f"file://{tmp_path}"), settings)
    assert files.getClass().getName() == "firn.LocalFiles"
    new = tmp_path / "made" / "new.txt"
    written = files.create(hadoop.Path(f"file://{new}"))
    written.write(65)
    written.close()
    assert (new.read_bytes(), [one.name for one in new.parent.iterdir()]) == (b"A", ["new.txt"])
    umask = hadoop.permission.FsPermission.getUMask(settings).toShort()
    assert stat.S_IMODE(new.stat().st_mode) == 0o666 & ~umask
    for asked in (0o640, 0o755, 0o400, 0o1777, 0o600):  # one of them is Hadoop's own way: Java knows no sticky bit
        files.setPermission(hadoop.Path(f"file://{new}"), hadoop.permission.FsPermission(f"{asked:o}"))
        assert stat.S_IMODE(new.stat().st_mode) == asked
    before = files.hashCode()
    local_files.without_processes(spark)
    assert hadoop.FileSystem.get(jvm.java.net.URI("file:///"), settings).hashCode() == before


def test_without_a_compiler_all_stays_as_it_is(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "_NAME", "firn.Others")
    monkeypatch.setattr(local_files, "_SOURCE", "no Java")
    local_files.without_processes(spark)
    local_files.without_checksums(spark)
