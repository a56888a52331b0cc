"""firn.yaml as the embedded stack publishes it: what it passes over is said, a staging store that hangs is named."""

import socket
from pathlib import Path

import pytest

from firn.log.published_configs import current
from firn.log.store import open_store
from firn_local.config_process import NotPublished, NotReached, publish_apart, reach_apart
from firn_local.publish import main
from firn_local.stack import Options, Stack
from tests.soak import long_only

STREAMS = "streams: {web: {envelope: rows, tables: {users: {to: web.users, key: [id]}}}}\n"
SHARDED = STREAMS.replace(
    "web.users, key: [id]",
    "'{shard}.users', key: [id], columns: {w: string}, "
    "shard: {by: tenant(w), tenants: [a], warehouses: {a: frankfurt}}",
)
OWN = {"FIRN_CATALOG_URI": "sqlite:////here/catalog.db", "FIRN_WAREHOUSE": "file:///here/warehouse"}


@pytest.mark.parametrize(
    ("above", "said"),
    [
        ("", []),
        ("catalog: {type: sql}\nwarehouse: file:///here/warehouse/\n", []),
        (
            "catalog: {type: rest, uri: 'https://catalog.example.org/api'}\n",
            ["`catalog:` of firn.yaml (rest, https://"],
        ),
        ("catalog: {type: glue}\nwarehouse: s3://lake/w\n", ["`catalog:` of firn.yaml (glue", "`warehouse:` of"]),
        (SHARDED, ["the warehouses frankfurt of shards are folders beside this stack's own"]),
    ],
)
def test_what_is_for_deployments_alone_is_said(
    above: str, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in OWN.items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "firn.yaml"
    config.write_text(above if above.startswith("streams") else above + STREAMS)
    staging = f"file://{tmp_path}/staging"
    assert main(staging, str(config)) == 0
    assert "web" in current(open_store(staging)).streams
    told = capsys.readouterr().out.splitlines()
    assert len(told) == len(said)
    assert all(line.startswith(start) for line, start in zip(told, said, strict=True))


def test_the_process_tells_what_it_said_and_what_is_wrong(tmp_path: Path) -> None:
    config, environment = tmp_path / "firn.yaml", OWN | {"FIRN_STAGING": f"file://{tmp_path}/staging"}
    config.write_text(f"warehouse: s3://lake/w\n{STREAMS}")
    [note] = publish_apart(config, environment)
    assert note.startswith("`warehouse:` of firn.yaml is for deployments")
    config.write_text("streams: nonsense\n")
    with pytest.raises(NotPublished, match="streams"):
        publish_apart(config, environment)


@long_only
def test_a_staging_store_that_hangs_is_named(tmp_path: Path) -> None:
    (tmp_path / "firn.yaml").write_text(STREAMS)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        environment = {
            "FIRN_STAGING": "s3://lake/s", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{deaf.getsockname()[1]}",
            "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_REGION": "us-east-1",
        }  # fmt: skip
        with pytest.raises(NotPublished, match=r"s3://lake/s has not taken .* within 3 s: `firn doctor") as caught:
            publish_apart(tmp_path / "firn.yaml", environment, seconds=3)
    assert "s3cret" not in str(caught.value)


def catalog(uri: str, folder: Path) -> dict[str, str]:
    return {"FIRN_CATALOG_URI": uri, "FIRN_WAREHOUSE": f"file://{folder}/warehouse"}


def test_a_catalog_is_asked_once_before_a_stack_starts_with_it(tmp_path: Path) -> None:
    reach_apart(catalog(f"sqlite:///{tmp_path}/c.db", tmp_path))
    with pytest.raises(NotReached, match=r"at http://127\.0\.0\.1:1/api can't be used.*does not answer.*:1"):
        reach_apart(catalog("http://127.0.0.1:1/api", tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as deaf, pytest.raises(NotReached, match="no answer within 3 s"):
        reach_apart(catalog(f"http://127.0.0.1:{deaf.getsockname()[1]}", tmp_path), seconds=3)


def test_a_stack_with_a_catalog_that_is_not_there_neither_starts_nor_notes_it(tmp_path: Path) -> None:
    (tmp_path / "firn.yaml").write_text(STREAMS)
    for address in ("http://127.0.0.1:1/api", "thrift://127.0.0.1:1"):
        with pytest.raises(NotReached, match="nothing was noted of it"):
            Stack(options := Options(tmp_path / "firn", port=0, config=tmp_path / "firn.yaml", catalog=address)).start()
        assert not (options.dir / "catalogs.json").exists()
