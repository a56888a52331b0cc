"""Cold files on the disk of who reads them."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from firn.errors import ConfigError
from firn_cli.main import main
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.reading import cold_cache
from firn_lake.tiering.class_port import Place
from tests.integration.stack.cold_ground import Ground

pytestmark = pytest.mark.stack


def test_cold_files_are_fetched_once_where_a_folder_is_named(
    ground: Ground, cold_stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold_cache._s3.cache_clear()
    cold_cache._is_cold.cache_clear()
    assert main(["tier", "shop.events", "--dir", str(cold_stack)]) == 0
    ground.endpoint.run_lifecycle(datetime.now(UTC))
    folder = tmp_path / "cache"
    known = {**ground.endpoint.credentials, "FIRN_COLD_CACHE": str(folder)}
    catalog = open_catalog(f"sqlite:///{tmp_path}/catalog.db", ground.warehouse, known)
    table = catalog.load_table("shop.events")
    before = table.scan().to_arrow().sort_by("text")
    (kept,) = folder.iterdir()
    (cold,) = [key for key, kind in ground.classes("events/data").items() if kind != "STANDARD"]
    assert kept.read_bytes() == ground.s3.get_object(Bucket=ground.lake, Key=cold)["Body"].read()
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    # Now it comes from there alone.
    ground.s3.delete_object(Bucket=ground.lake, Key=cold)
    assert table.scan().to_arrow().sort_by("text") == before
    catalog.close()


def test_the_cache_is_bounded_and_what_was_read_last_stays(ground: Ground, tmp_path: Path) -> None:
    cold_cache._s3.cache_clear()
    cold_cache._is_cold.cache_clear()
    for name, size in (("a", 400), ("b", 400), ("c", 400), ("large", 1_001), ("hot", 10)):
        kind = "STANDARD" if name == "hot" else "STANDARD_IA"
        ground.s3.put_object(Bucket=ground.lake, Key=name, Body=name[:1].encode() * size, StorageClass=kind)
    cache = cold_cache.ColdCache(tmp_path / "cache", 1_000)

    def fetch(name: str) -> bytes | None:
        found = cache.fetch(Place(ground.lake, name))
        return None if found is None else found.read_bytes()

    assert (fetch("a"), fetch("b")) == (b"a" * 400, b"b" * 400)
    for path in (tmp_path / "cache").iterdir():
        os.utime(path, (1, 1))
    assert fetch("a") == b"a" * 400
    assert fetch("c") == b"c" * 400
    kept = {path.read_bytes()[:1] for path in (tmp_path / "cache").iterdir()}
    assert kept == {b"a", b"c"}
    assert [fetch(name) for name in ("large", "hot", "missing")] == [None, None, None]
    assert cold_cache.ColdCache(Path("/dev/null/nowhere"), 1_000).fetch(Place(ground.lake, "b")) is None


def test_a_size_of_the_cache_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="FIRN_COLD_CACHE_BYTES is '10GB'"):
        open_catalog("sqlite:///x.db", "s3://a", {"FIRN_COLD_CACHE": "x", "FIRN_COLD_CACHE_BYTES": "10GB"})
