"""`make package`: budgets that hold, libraries pinned by the lock, an upload that is made once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from firn_local.aws import AwsEndpoint
from infra.package.__main__ import main
from infra.package.functions import MEGABYTE, Budget, NotBuilt, measure
from infra.package.job import MANIFEST, ROOT, PackageError, locked
from infra.package.upload import upload

any_client: Any = boto3.session.Session().client

TEMPLATE = """
Globals: {Function: {Handler: app.handler, Layers: [!Ref Layer]}}
Resources:
  Layer: {Type: AWS::Serverless::LayerVersion, Properties: {ContentUri: Layer}}
  IngestHttp: {Type: AWS::Serverless::Function, Properties: {CodeUri: IngestHttp}}
"""


def built(folder: Path, app: str = "import library", library: str = "") -> Path:
    """What `sam build` would leave for one function and its layer."""
    (folder / "IngestHttp").mkdir(parents=True)
    (folder / "Layer" / "python").mkdir(parents=True)
    (folder / "template.yaml").write_text(TEMPLATE)
    (folder / "IngestHttp" / "app.py").write_text(app)
    (folder / "Layer" / "python" / "library.py").write_text(library)
    return folder


def test_a_function_is_measured_with_its_layers(tmp_path: Path) -> None:
    folder = built(tmp_path, library="x = 1\n" * 100)
    (one,) = measure(folder, runs=3)
    assert (one.name, one.bytes, one.over) == ("IngestHttp", 14 + 600, ())
    assert 0 < one.seconds < 0.2


def test_a_fat_layer_breaks_the_budget(tmp_path: Path) -> None:
    folder = built(tmp_path)
    with (folder / "Layer" / "python" / "fat.so").open("wb") as fat:
        fat.truncate(81 * MEGABYTE)
    (one,) = measure(folder, runs=1)
    assert one.over == ("81.0 MB unzipped, of 80",)
    assert main(["--functions-only", "--built", str(folder)]) == 1


def test_no_function_may_be_larger_than_lambda_takes(tmp_path: Path) -> None:
    folder = built(tmp_path)
    with (folder / "IngestHttp" / "fat.so").open("wb") as fat:
        fat.truncate(241 * MEGABYTE)
    (one,) = measure(folder, budgets={"IngestHttp": Budget(bytes=10**12)}, runs=1)
    assert one.over == ("241.0 MB unzipped, of 240",)


def test_a_slow_import_breaks_the_budget(tmp_path: Path) -> None:
    (one,) = measure(built(tmp_path, library="import time; time.sleep(0.25)"), runs=3)
    assert len(one.over) == 1
    assert one.over[0].endswith("ms to import, of 200")


def test_what_the_package_lacks_is_missing(tmp_path: Path) -> None:
    # msgspec is installed here, and in no folder of the package.
    with pytest.raises(NotBuilt, match=r"(?s)IngestHttp can't be imported.*msgspec"):
        measure(built(tmp_path, app="import msgspec"), runs=1)


def test_nothing_built_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--built", str(tmp_path)]) == 1
    assert "run `make sam` first" in capsys.readouterr().err


def test_libraries_are_pinned_by_the_lock_with_their_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    lines = locked(["pyarrow", "PyYAML"], lock).splitlines()
    assert [line.split("==")[0] for line in lines if "==" in line] == ["pyarrow", "pyyaml"]
    assert all(line.startswith("    --hash=sha256:") for line in lines if "==" not in line)
    assert len(lines) > 4
    with pytest.raises(PackageError, match="does not pin nothing-such"):
        locked(["nothing-such"], lock)


@pytest.fixture
def s3() -> Iterator[Any]:
    aws = AwsEndpoint()
    aws.start()
    client = any_client(
        "s3", endpoint_url=aws.url, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    client.create_bucket(Bucket="staging")
    yield client
    aws.stop()


@pytest.mark.stack
def test_an_upload_writes_what_changed_and_the_manifest_last(tmp_path: Path, s3: Any) -> None:
    def files(**contents: bytes) -> None:
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content)
        described = {name: {"bytes": len(content), "sha256": content.hex()} for name, content in contents.items()}
        (tmp_path / MANIFEST).write_text(json.dumps({"files": described}))

    files(one=b"1", two=b"2")
    assert upload(tmp_path, "staging", "code", s3) == ["code/one", "code/two"]
    assert upload(tmp_path, "staging", "code", s3) == []
    files(one=b"1", two=b"new")
    assert upload(tmp_path, "staging", "code", s3) == ["code/two"]
    assert s3.get_object(Bucket="staging", Key="code/two")["Body"].read() == b"new"
    manifest = json.loads(s3.get_object(Bucket="staging", Key=f"code/{MANIFEST}")["Body"].read())
    assert manifest["files"]["two"]["sha256"] == b"new".hex()


def test_an_upload_that_aws_refuses_says_what_to_check(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert main(["upload", "--stack", "firn-dev"]) == 1
    assert "the stack firn-dev: You must specify a region" in capsys.readouterr().err
