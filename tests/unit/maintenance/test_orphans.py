"""Which files nobody needs: spelling, age, and other tables in the same folder."""

from datetime import UTC, datetime, timedelta

import pytest
from obstore.store import LocalStore

from firn.log.store import Stored, objects
from firn.maintenance.orphans import VERSION_HINT, orphans
from firn.tables.locations import below, spelled

NOW = datetime(2026, 11, 21, tzinfo=UTC)
OLD = NOW - timedelta(days=2)


@pytest.mark.parametrize(
    ("location", "one"),
    [
        ("s3://lake/a/b", "s3://lake/a/b"),
        ("s3a://lake/a/b/", "s3://lake/a/b"),
        ("s3n://lake//a///b", "s3://lake/a/b"),
        ("s3://lake", "s3://lake"),
        ("file:/tmp/x", "/tmp/x"),
        ("file:///tmp/x/", "/tmp/x"),
        ("file://localhost/tmp/x", "/tmp/x"),
        ("/tmp//x", "/tmp/x"),
        ("abfs://c@a.dfs/x", "abfss://c@a.dfs/x"),
        ("wasbs://C@A.blob.core.windows.net/X//y", "abfss://c@a.dfs.core.windows.net/X/y"),
        ("abfss://c@a.dfs.core.windows.net/a@b.blob.c/x", "abfss://c@a.dfs.core.windows.net/a@b.blob.c/x"),
        ("abfss://lake/x", "abfss://lake/x"),
        ("gcs://lake/a/", "gs://lake/a"),
        ("s3://lake/a/v=1%2F2/f?x#y", "s3://lake/a/v=1%2F2/f?x#y"),
        ("file:/tmp/v=a%20b/ä c:1", "/tmp/v=a%20b/ä c:1"),
        ("gs://lake/a", "gs://lake/a"),
    ],
)
def test_a_place_has_one_spelling(location: str, one: str) -> None:
    assert spelled(location) == one
    assert spelled(one) == one


def test_what_lies_below_is_told_from_what_only_begins_alike() -> None:
    assert below("s3://lake/a", "s3://lake/a/data/f") == "data/f"
    assert below("s3://lake/a", "s3://lake/ab/f") is None
    assert below("s3://lake/a", "s3://lake/a") is None
    assert below("s3://lake/a", "s3://other/a/f") is None


def test_only_old_files_that_nobody_uses_go() -> None:
    listed = [Stored("data/used", 1, OLD), Stored("data/old", 1, OLD), Stored("data/young", 1, NOW)]
    assert [one.path for one in orphans(listed, {"data/used"}, NOW)] == ["data/old"]


def test_the_hint_for_readers_without_a_catalog_stays() -> None:
    assert list(orphans([Stored(VERSION_HINT, 9, OLD)], set(), NOW)) == []


def test_what_belongs_to_a_table_in_the_same_folder_stays() -> None:
    listed = [
        Stored(path, 1, OLD)
        for path in (
            "data/x", "inner/metadata/00001-a.metadata.json", "inner/data/f", "a/b/metadata/v1.metadata.json.gz",
            "a/b/data/f", "a/c/f", "told/data/f", "toldnot/f", "metadata/left.metadata.json",
        )
    ]  # fmt: skip
    found = [one.path for one in orphans(listed, {"data/used"}, NOW, ["told"])]
    assert found == ["data/x", "a/c/f", "toldnot/f", "metadata/left.metadata.json"]


def test_names_come_from_a_listing_as_they_are_stored(tmp_path: object) -> None:
    """What a partition value looks like in a path: escaped by Iceberg, and not touched after that."""
    store = LocalStore(str(tmp_path))
    for name in ("v=a%20b", "v=a%2Fb", "v=ä", "v=1:2", "v=x y", "v=%25"):
        with open(f"{tmp_path}/{name}", "wb") as file:
            file.write(b"1")
        assert [one.path for one in objects(store, "")] == [name]
        store.delete(name)
        assert objects(store, "") == []
