"""A version of a table's metadata is parsed once, and no version is taken for another one."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from firn_spark.tables import metadata_cache
from firn_spark.tables.metadata_cache import MetadataCache

SPARK: Any = None


@dataclass(frozen=True)
class Metadata:
    """What is asked of an org.apache.iceberg.TableMetadata."""

    place: str | None = "a.json"
    table: str = "t"
    updated: int = 1
    number: int = 1
    snapshots: int = 3

    def metadataFileLocation(self) -> str | None:
        return self.place

    def uuid(self) -> str:
        return self.table

    def lastUpdatedMillis(self) -> int:
        return self.updated

    def lastSequenceNumber(self) -> int:
        return self.number

    def json(self) -> str:
        some = [{"snapshot-id": n, "parent-snapshot-id": n - 1, "summary": {"firn.epoch.s": str(n)}}
                for n in range(1, self.snapshots + 1)]  # fmt: skip
        return json.dumps(
            {"location": "l", "schemas": [{"schema-id": 0, "fields": []}], "current-schema-id": 0, "snapshots": some,
             "current-snapshot-id": self.snapshots, "refs": {"old": {"snapshot-id": 1}}, "table-uuid": self.table}
        )  # fmt: skip


class Java:
    """An org.apache.iceberg.Table."""

    def __init__(self, now: Metadata) -> None:
        self.now = now

    def operations(self) -> "Java":
        return self

    def current(self) -> Metadata:
        return self.now


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Metadata]:
    """What was brought out of the JVM."""
    found: list[Metadata] = []

    def json_of(_: Any, metadata: Metadata) -> str:
        found.append(metadata)
        return metadata.json()

    monkeypatch.setattr(metadata_cache, "json_of", json_of)
    return found


def test_a_version_is_parsed_once_for_main_and_once_for_a_branch(parsed: list[Metadata]) -> None:
    cache, java = MetadataCache(), Java(Metadata())
    first = cache.state_of(SPARK, java)
    assert cache.state_of(SPARK, Java(Metadata())) is first
    assert first.progress("s") == 3
    assert cache.state_of(SPARK, java, "old").progress("s") == 1
    assert cache.state_of(SPARK, java, "old").snapshot_id == 1
    assert len(parsed) == 2


def test_wide_tables_count_for_what_they_hold(parsed: list[Metadata], monkeypatch: pytest.MonkeyPatch) -> None:
    fields = [{"id": n, "name": f"column_{n}", "required": False, "type": "string"} for n in range(5_000)]
    wide = json.dumps({"location": "l", "schemas": [{"schema-id": 0, "fields": fields}], "current-schema-id": 0})
    monkeypatch.setattr(metadata_cache, "json_of", lambda _, metadata: wide)
    cache = MetadataCache()
    for number in range(60):
        cache.state_of(SPARK, Java(Metadata(place=f"{number}.json")))
    assert sum(len(state.fields) for state in cache._kept.values()) <= 100_000  # some 0.5 KB each: 50 MB


@pytest.mark.parametrize("other", [{"place": "b.json"}, {"table": "u"}, {"updated": 2}, {"number": 2}])
def test_what_differs_in_anything_is_another_version(parsed: list[Metadata], other: dict[str, Any]) -> None:
    cache = MetadataCache()
    cache.state_of(SPARK, Java(Metadata()))
    now = replace(Metadata(snapshots=5), **other)
    assert cache.state_of(SPARK, Java(now)).progress("s") == 5
    assert parsed == [Metadata(), now]


@pytest.mark.parametrize("end", [".metadata.json", ".gz.metadata.json"])
def test_a_name_that_nothing_gets_twice_is_enough(parsed: list[Metadata], end: str) -> None:
    """Each question is a call into the JVM, and a commit asks seven times."""

    class Named(Metadata):
        def uuid(self) -> str:
            raise AssertionError("not asked")

    cache, name = MetadataCache(), f"l/metadata/00003-0f4c6b8e-1c2d-4e5f-8a9b-0123456789ab{end}"
    assert cache.state_of(SPARK, Java(Named(name))) is cache.state_of(SPARK, Java(Named(name)))
    assert cache.state_of(SPARK, Java(Named(name.replace("00003-0", "00004-1"), snapshots=5))).progress("s") == 5
    assert len(parsed) == 2


def test_what_is_stored_nowhere_is_not_kept(parsed: list[Metadata]) -> None:
    cache, java = MetadataCache(), Java(Metadata(place=None))
    assert cache.state_of(SPARK, java) == cache.state_of(SPARK, java)
    assert len(parsed) == 2
    assert cache.snapshots == 0


def test_few_snapshots_are_kept_and_those_that_were_used_last(parsed: list[Metadata]) -> None:
    cache = MetadataCache(most=10)
    for place in ("a", "b", "a", "c", "a", "b"):
        cache.state_of(SPARK, Java(Metadata(place)))
        assert cache.snapshots <= 10
    assert [one.place for one in parsed] == ["a", "b", "c", "b"]
    assert cache.state_of(SPARK, Java(Metadata("long", snapshots=50))).progress("s") == 50
    assert cache.snapshots == 0
