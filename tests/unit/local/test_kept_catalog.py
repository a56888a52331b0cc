"""What is staged is committed to one catalog, at each start of a stack."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from firn_local import kept_catalog
from firn_local.config_process import NotReached
from firn_local.kept_catalog import OtherCatalog, keep

REST = "https://catalog.example.org/api#warehouse=lake&scope=y"
HIVE = "thrift://metastore:9083"


def test_another_catalog_is_refused_and_the_one_of_before_is_named(tmp_path: Path) -> None:
    keep(tmp_path, "gs://a/staging", REST)
    keep(tmp_path, "gs://a/staging", "https://catalog.example.org/api#warehouse=lake&scope=x")
    with pytest.raises(OtherCatalog, match=r"committed to the catalog at https://catalog.example.org/api"):
        keep(tmp_path, "gs://a/staging", HIVE)
    keep(tmp_path, "gs://b/staging", HIVE)
    kept = json.loads((tmp_path / "catalogs.json").read_text())
    assert kept == {"gs://a/staging": "https://catalog.example.org/api#warehouse=lake", "gs://b/staging": HIVE}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["catalogs.json"]


def test_another_catalog_of_the_same_server_is_another_one(tmp_path: Path) -> None:
    keep(tmp_path, "gs://a/staging", "https://c.example.org/api#scope=x&warehouse=s3://lake/dev")
    keep(tmp_path, "gs://a/staging", "https://c.example.org/api#warehouse=s3%3A%2F%2Flake%2Fdev&scope=y")
    with pytest.raises(OtherCatalog, match=r"#warehouse=s3://lake/dev, and not to \S+#warehouse=s3://lake/prod"):
        keep(tmp_path, "gs://a/staging", "https://c.example.org/api#warehouse=s3://lake/prod")


def test_a_folder_of_before_is_known_by_its_own_catalog(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    with pytest.raises(OtherCatalog, match=r"catalog\.db, and not to thrift://metastore:9083"):
        keep(tmp_path, f"file://{tmp_path}/staging", HIVE)
    keep(tmp_path, "gs://a/staging", HIVE)
    keep(tmp_path, f"file://{tmp_path}/staging", f"sqlite:///{tmp_path}/catalog.db")


@pytest.mark.parametrize("text", ["", "[]", "{", "\xff"])
def test_a_note_that_is_damaged_is_not_taken_for_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "catalogs.json").write_text(text, "latin-1")
    with pytest.raises(OtherCatalog, match=r"catalogs\.json can't be read"):
        keep(tmp_path, "gs://a/staging", HIVE)


def test_a_catalog_that_does_not_answer_is_not_noted_and_one_that_was_noted_may_be_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Mapping[str, str]] = []

    def away(environment: Mapping[str, str]) -> None:
        asked.append(environment)
        raise NotReached("away")

    monkeypatch.setattr(kept_catalog, "reach_apart", away)
    for folder in (tmp_path, None):
        with pytest.raises(NotReached):
            keep(folder, "gs://a/staging", "https://catalog.example.orgg/api", {"A": "1"})
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(kept_catalog, "reach_apart", asked.append)
    keep(tmp_path, "gs://a/staging", HIVE, {"A": "2"})
    monkeypatch.setattr(kept_catalog, "reach_apart", away)
    keep(tmp_path, "gs://a/staging", HIVE, {"A": "3"})
    assert asked == [{"A": "1"}, {"A": "1"}, {"A": "2"}]
