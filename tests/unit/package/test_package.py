"""`make package`: budgets that hold, libraries pinned by the lock, a list of them, an upload that is made once."""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from firn_local.aws import AwsEndpoint
from infra.package import PackageError, job
from infra.package.__main__ import main
from infra.package.job import JARS, MANIFEST, START, locked, sources
from infra.package.locks import LAYERS, ROOT, Pin, pins
from infra.package.measurement import MEGABYTE, Measured, NotBuilt
from infra.package.measurement import measure as measure_all
from infra.package.sbom import document
from infra.package.upload import upload
from tests.soak import long_only

any_client: Any = boto3.session.Session().client

TEMPLATE = """
Globals: {Function: {Runtime: HERE, Handler: app.handler, Layers: [!Ref Layer]}}
Resources:
  Layer: {Type: AWS::Serverless::LayerVersion, Properties: {ContentUri: Layer}}
  IngestHttp: {Type: AWS::Serverless::Function, Properties: {CodeUri: IngestHttp}}
""".replace("HERE", "python{}.{}".format(*sys.version_info[:2]))


def built(folder: Path, app: str = "import library", library: str = "") -> Path:
    """What `sam build` would leave for one function and its layer."""
    (folder / "IngestHttp").mkdir(parents=True)
    (folder / "Layer" / "python").mkdir(parents=True)
    (folder / "template.yaml").write_text(TEMPLATE)
    (folder / "IngestHttp" / "app.py").write_text(app)
    (folder / "Layer" / "python" / "library.py").write_text(library)
    return folder


def measure(folder: Path, **how: Any) -> list[Measured]:
    """The functions alone."""
    return [one for one in measure_all(folder, **how) if one.kind == "function"]


def test_a_function_is_measured_with_its_layers(tmp_path: Path) -> None:
    folder = built(tmp_path, library="x = 1\n" * 100)
    (one,) = measure(folder, runs=3)
    assert (one.name, one.bytes, one.problems) == ("IngestHttp", 14 + 600, ())
    assert one.seconds is not None
    assert 0 < one.seconds < 0.2


def test_a_fat_layer_breaks_the_budget(tmp_path: Path) -> None:
    folder = built(tmp_path)
    with (folder / "Layer" / "python" / "fat.so").open("wb") as fat:
        fat.truncate(81 * MEGABYTE)
    (one,) = measure(folder, runs=1)
    assert one.problems == ("81.0 MB unzipped, of 80",)
    assert main(["--functions-only", "--built", str(folder)]) == 1


def test_no_function_may_be_larger_than_lambda_takes(tmp_path: Path) -> None:
    folder = built(tmp_path)
    with (folder / "IngestHttp" / "fat.so").open("wb") as fat:
        fat.truncate(241 * MEGABYTE)
    (one,) = measure(folder, budgets={}, runs=1)
    assert one.problems == ("241.0 MB unzipped, of 240",)


@long_only
def test_a_slow_import_breaks_the_budget(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    (one,) = measure(built(tmp_path, library=busy), runs=3)
    assert len(one.problems) == 1
    assert one.problems[0].endswith("ms to import, of 200")


def test_what_else_the_machine_does_breaks_no_budget(tmp_path: Path) -> None:
    (one,) = measure(built(tmp_path, library="import time; time.sleep(0.3)"), runs=1)
    assert one.problems == ()


def test_what_the_package_lacks_is_missing(tmp_path: Path) -> None:
    # msgspec is installed here, and in no folder of the package.
    with pytest.raises(NotBuilt, match=r"(?s)IngestHttp can't be imported.*msgspec"):
        measure(built(tmp_path, app="import msgspec"), runs=1)


def test_nothing_built_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--built", str(tmp_path)]) == 1
    assert "run `make sam` first" in capsys.readouterr().err


def test_every_entry_point_is_packed() -> None:
    packed = {name for name in sources() if "/" not in name}
    assert packed == {file.name for file in (ROOT / "spark_emr").glob("*.py")} - {START}
    assert packed >= {"commit.py", "rebuild.py", "care.py"}


def test_libraries_are_pinned_by_the_lock_with_their_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pyarrow, pyyaml = locked(["pyarrow", "PyYAML"], lock).splitlines()
    assert (pyarrow.split("==")[0], pyyaml.split("==")[0]) == ("pyarrow", "pyyaml")
    assert all(word.startswith("--hash=sha256:") for line in (pyarrow, pyyaml) for word in line.split()[1:])
    assert len(pyarrow.split()) > 4
    with pytest.raises(PackageError, match="does not pin nothing-such"):
        locked(["nothing-such"], lock)


def test_the_list_of_parts_names_every_library_of_every_layer_and_the_job_by_its_hash() -> None:
    found = document([Pin("pyarrow", "26.0.1", frozenset(["ab" * 32]))])
    parts = {part["name"]: {one["purl"]: one for one in part["components"]} for part in found["components"]}
    for layer in LAYERS:
        lock = pins((ROOT / "layers" / layer / "python" / "requirements.lock").read_text())
        assert set(parts[f"firn-{layer}-layer"]) == {f"pkg:pypi/{pin.name}@{pin.version}" for pin in lock.values()}
    assert len(parts["firn-job"]) == 1 + len(JARS)
    assert parts["firn-job"]["pkg:pypi/pyarrow@26.0.1"]["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    jar = parts["firn-job"]["pkg:maven/org.apache.iceberg/iceberg-aws-bundle@1.11.0"]
    assert jar["hashes"][0]["content"] in (ROOT / "infra/setup/jars.lock").read_text()
    # CycloneDX: a reference names one thing in the whole document, and dependencies name only such.
    references = [one["bom-ref"] for part in found["components"] for one in (part, *part["components"])]
    assert len(references) == len(set(references))
    assert {name for one in found["dependencies"] for name in one["dependsOn"]} == set(references)


def test_a_clouds_jar_is_packed_where_it_was_asked_for_by_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the template names it is in test_clouds.py."""
    monkeypatch.setattr(job, "_fetch", lambda _libraries, _python: [])
    monkeypatch.setattr(job, "JARS", {})
    lock = tmp_path / "infra" / "setup"
    jar = tmp_path / ".cache" / "jars" / "clouds" / "iceberg-azure-bundle-1.10.0.jar"
    for folder in (lock, jar.parent):
        folder.mkdir(parents=True)
    jar.write_bytes(b"jar")
    of = "org.apache.iceberg iceberg-azure-bundle 1.10.0"
    (lock / "azure_jars.lock").write_text(f"{of} {hashlib.sha256(b'jar').hexdigest()} 3\n")
    sources_root = job.ROOT

    def built(*clouds: str) -> dict[str, Any]:
        return job.build(tmp_path / "out", clouds=clouds)

    monkeypatch.setattr(job, "_made_of", lambda _python, clouds: str(clouds))
    without = built()
    monkeypatch.setattr(job, "sources", lambda: {})
    monkeypatch.setattr(job, "ROOT", tmp_path)
    (tmp_path / "spark_emr").mkdir()
    (tmp_path / "spark_emr" / "start.py").write_bytes((sources_root / "spark_emr" / "start.py").read_bytes())
    found = built("azure")
    assert set(found["files"]) - set(without["files"]) == {"iceberg-azure-bundle.jar"}
    assert job.current(tmp_path / "out", clouds=("azure",)) == found
    assert job.current(tmp_path / "out") is None
    (lock / "azure_jars.lock").write_text(f"{of} {'ab' * 32} 3\n")
    with pytest.raises(PackageError, match=r"is not the file that azure_jars\.lock names.*make package CLOUDS"):
        built("azure")
    jar.unlink()
    with pytest.raises(PackageError, match=r"is not there: run `make package CLOUDS=…`"):
        built("azure")


def test_a_cloud_that_there_is_no_jar_for_is_refused_and_the_parts_list_names_those_that_are_packed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--clouds", "azure,ibm", "job"])
    assert "ibm is no cloud that jobs have a jar for; write azure or google" in capsys.readouterr().err
    (parts,) = [one for one in document([], clouds=["google"])["components"] if one["name"] == "firn-job"]
    assert [one["name"] for one in parts["components"]][-1] == "iceberg-gcp-bundle"


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


def files(folder: Path, job: str, **contents: bytes) -> None:
    """A packaged job of that hash."""
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    described = {name: {"sha256": hashlib.sha256(content).hexdigest()} for name, content in contents.items()}
    (folder / MANIFEST).write_text(json.dumps({"sha256": job, "files": described}))


@pytest.mark.stack
def test_an_upload_writes_each_job_beside_the_others_once(tmp_path: Path, s3: Any) -> None:
    files(tmp_path, "aa", one=b"1", two=b"2")
    assert upload(tmp_path, "staging", s3) == ("code/aa", ["code/aa/one", "code/aa/two"])
    assert upload(tmp_path, "staging", s3) == ("code/aa", [])
    files(tmp_path, "bb", one=b"1", two=b"new")
    assert upload(tmp_path, "staging", s3) == ("code/bb", ["code/bb/one", "code/bb/two"])
    assert s3.get_object(Bucket="staging", Key="code/aa/two")["Body"].read() == b"2"
    assert s3.get_object(Bucket="staging", Key="code/bb/two")["Body"].read() == b"new"


@pytest.mark.stack
def test_an_object_that_somebody_replaced_is_told(tmp_path: Path, s3: Any) -> None:
    files(tmp_path, "cc", one=b"1")
    upload(tmp_path, "staging", s3)
    s3.put_object(Bucket="staging", Key="code/cc/one", Body=b"evil")
    with pytest.raises(PackageError, match="code/cc/one is not the file that was packaged"):
        upload(tmp_path, "staging", s3)


def test_an_upload_that_aws_refuses_says_what_to_check(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert main(["upload", "--stack", "firn-dev"]) == 1
    assert "the stack firn-dev: You must specify a region" in capsys.readouterr().err
