"""An S3 beside the embedded stack: how the stack and the demo take it for theirs."""

from pathlib import Path

import pytest

from firn.errors import ConfigError
from firn_demo import versitygw
from firn_demo.demonstration import demonstrate
from firn_demo.storages import STORAGES, storage_of
from firn_local.other_s3 import NoOtherS3, OtherS3, key_of_caller
from firn_local.stack import Options, Stack
from tests.s3_servers import RIGHT, client, s3_environment

pytestmark = pytest.mark.stack


def test_functions_and_jobs_have_its_key_and_else_one_each_of_their_own() -> None:
    other = OtherS3("http://127.0.0.1:1", "key", "secret", "us-east-1")
    stack = {"AWS_ENDPOINT_URL": "http://127.0.0.1:2", "AWS_ACCESS_KEY_ID": "test"}
    assert key_of_caller("dispatch", stack) == {"AWS_ACCESS_KEY_ID": "dispatch"}
    told = stack | other.variables
    assert told | key_of_caller("dispatch", told) == told
    assert told["AWS_ACCESS_KEY_ID"] == "key"


@pytest.mark.parametrize("kind", RIGHT)
def test_its_buckets_are_made_once(kind: str, tmp_path: Path) -> None:
    with s3_environment(kind, tmp_path, "other-there") as env:
        other = OtherS3.at(env.get("AWS_ENDPOINT_URL_S3") or env["AWS_ENDPOINT_URL"], env)
        for _ in range(2):
            other.make_buckets(["other-there", "other-new"])
        there = {one["Name"] for one in client(env).list_buckets()["Buckets"]}
        assert {"other-there", "other-new"} <= there
        assert other.variables["AWS_ENDPOINT_URL_S3"] == other.endpoint


def test_without_keys_or_without_an_answer_it_says_what_to_do(tmp_path: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    with pytest.raises(NoOtherS3, match="needs AWS_REGION in the environment"):
        OtherS3.at("http://127.0.0.1:1", keys)
    other = OtherS3.at("http://127.0.0.1:1", {**keys, "AWS_REGION": "r"})
    config = tmp_path / "firn.yaml"
    config.write_text("streams: {web: {envelope: rows, tables: {users: {to: web.users}}}}\n")
    with pytest.raises(NoOtherS3, match="no buckets can be made at http:"):
        Stack(Options(tmp_path / "stack", other_s3=other, port=0, config=config)).start()


def test_the_demo_names_its_storages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="write s3, file, versitygw"), storage_of("gcs", tmp_path):
        pass
    for name in STORAGES[:2]:
        with storage_of(name, tmp_path) as found:
            assert found.options == (("--s3",) if name == "s3" else ())
    monkeypatch.setattr(versitygw, "PROGRAM", tmp_path / "none")
    assert demonstrate(False, storage="versitygw") == 1
    assert "make setup-versitygw" in capsys.readouterr().err
    assert demonstrate(True, storage="versitygw") == 2
