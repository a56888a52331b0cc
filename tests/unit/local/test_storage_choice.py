"""Options of the embedded stack about where its data is: which contradict each other, and which name nothing."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firn_local.foreground import up
from firn_local.other_s3 import NoOtherS3, OtherS3
from firn_local.stack import Options, Stack
from firn_local.storage_choice import refusal

KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_REGION": "us-east-1"}
OTHER = OtherS3("https://s3.example.org", "k", "s", "us-east-1")
AZURE = "abfss://lake@acme.dfs.core.windows.net/x"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"s3": True, "other_s3": OTHER}, "leave one of them out"),
        ({"s3": True, "staging": AZURE, "warehouse": AZURE}, "--s3 forgets the tables when the stack stops"),
        ({"s3": True, "staging": AZURE}, "leave out --s3, and add --warehouse"),
        ({"other_s3": OTHER, "staging": "gs://lake/a", "warehouse": AZURE}, "nothing would be kept by --s3-endpoint"),
        ({"staging": "s3://lake/a"}, "--staging: s3:// is not supported here"),
        ({"warehouse": "gs://"}, "--warehouse: 'gs://' names no bucket"),
        ({"catalog": "nonsense"}, "--catalog: catalog URI 'nonsense' has no scheme"),
        ({"catalog": "glue://"}, "--catalog: glue:// is this stack's own Glue, in memory"),
        ({"catalog": "glue://123456789012", "warehouse": "gs://lake/w"}, "it forgets the tables when the stack stops"),
        ({"catalog": "sqlite:///lake/catalog.db"}, "--catalog: the path of a SQLite file must be absolute"),
        ({"catalog": "sqlite://"}, "write sqlite:////path/to/catalog.db, with four slashes"),
        ({"catalog": "nessie+https://nessie.example.org/iceberg"}, "--catalog: this catalog is a Nessie"),
        ({"s3": True, "catalog": "thrift://hive.example.org"}, "the catalog at --catalog would still name them"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_starts(
    told: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up(Options(tmp_path / "stack", config=None, port=0, **told)) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "stack").exists()


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"s3": True, "warehouse": AZURE},
        {"other_s3": OTHER, "staging": "gs://lake/a"},
        {"catalog": "sqlite:////srv/lake/catalog.db"},
        {"catalog": "postgresql://firn@db.example.org/lake"},
        {"staging": "file:///a", "warehouse": "gs://lake/b", "catalog": "https://catalog.example.org/"},
    ],
)
def test_what_goes_together_is_taken(told: dict[str, Any]) -> None:
    assert refusal(Options(**told)) is None


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("127.0.0.1:7070", "not the address of an S3"),
        ("localhost:7070", "not the address of an S3"),
        ("http://", "not the address of an S3"),
        ("https://exa mple", "not the address of an S3"),
        ("https://user:pass@s3.example.org", "more than a host and a port"),
        ("https://s3.example.org/bucket", "more than a host and a port"),
        ("http://s3.example.org", "write https://"),
    ],
)
def test_an_endpoint_that_is_none_is_refused_without_a_password(endpoint: str, said: str) -> None:
    with pytest.raises(NoOtherS3, match=said) as caught:
        OtherS3.at(endpoint, KEYS)
    assert "pass" not in str(caught.value)


def test_an_endpoint_of_this_machine_or_by_tls_is_taken() -> None:
    for endpoint in ("http://127.0.0.1:7070", "http://localhost:7070/", "https://s3.example.org"):
        assert OtherS3.at(endpoint, KEYS).endpoint == endpoint


def test_a_stack_in_memory_leaves_the_catalog_of_another_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Stack, "_request", lambda _self, method, path: asked.append(f"{method} {path}"))
    monkeypatch.setattr(OtherS3, "make_buckets", lambda _self, names: asked.extend(names))
    aws: Any = SimpleNamespace(credentials={"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    template: Any = SimpleNamespace(buckets={"StagingBucket": "log", "WarehouseBucket": "lake"})

    def catalog(**options: Any) -> Path:
        found = Stack(Options(tmp_path, **options))._storage(aws, template)
        assert found["FIRN_STAGING"] == "s3://log"
        return Path(found["FIRN_CATALOG_URI"].removeprefix("sqlite:///"))

    kept = catalog(other_s3=OTHER)
    kept.write_text("tables")
    own = catalog(s3=True)
    own.write_text("tables of memory")
    assert catalog(s3=True) == own
    assert not own.exists()
    assert catalog(other_s3=OTHER).read_text() == "tables"
    assert asked == ["log", "lake", "PUT /log", "PUT /lake", "PUT /log", "PUT /lake", "log", "lake"]
