"""What EMR Serverless's own service model accepts, and the spark-submit line that comes of it."""

import io
import json
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firn_local.emr_model import ApiError, match, parameters
from firn_local.image import NoSuchImage, Prepared, manifest, prepare, python
from firn_local.spark_submit import SparkSubmit

RIGHT: dict[str, Any] = {
    "clientToken": "v",
    "executionRoleArn": "arn:aws:iam::123456789012:role/job",
    "jobDriver": {"sparkSubmit": {"entryPoint": "s3://code/commit.py"}},
}


def start(body: dict[str, Any]) -> dict[str, Any]:
    found = match("POST", "/applications/00abc/jobruns")
    assert found is not None
    return parameters(*found, "", json.dumps(body).encode())


def test_paths_lead_to_the_operations_of_the_model() -> None:
    arn = "arn:aws:emr-serverless:us-east-1:123456789012:/applications/00abc/jobruns/00def"
    for method, path, name in [
        ("POST", "/applications", "CreateApplication"),
        ("DELETE", "/applications/00abc/jobruns/00def", "CancelJobRun"),
        ("GET", "/applications/00abc/jobruns/00def/attempts", "ListJobRunAttempts"),
        ("GET", f"/tags/{arn}", "ListTagsForResource"),
    ]:
        found = match(method, path)
        assert found is not None
        assert found[0].name == name
    assert match("PUT", "/applications") is None


def test_a_right_request_is_taken_and_unknown_members_are_dropped() -> None:
    assert start({**RIGHT, "unknown": 1}) == {**RIGHT, "applicationId": "00abc"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"executionRoleArn": "nobody"}, "'executionRoleArn'.*regular expression"),
        ({"executionRoleArn": None}, "'executionRoleArn'.*not be null"),
        ({"name": "n" * 257}, "less than or equal to 256"),
        ({"mode": "SOMETIMES"}, "BATCH, STREAMING"),
        ({"jobDriver": {"sparkSubmit": {}}}, "jobDriver.sparkSubmit.entryPoint"),
        ({"executionTimeoutMinutes": "1"}, "type long"),
        ({"retryPolicy": {"maxAttempts": 0}}, "greater than or equal to 1"),
    ],
)
def test_a_wrong_request_says_which_member_and_why(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ApiError, match=says) as caught:
        start({**RIGHT, **change})
    assert (caught.value.code, caught.value.status) == ("ValidationException", 400)


def test_query_strings_become_numbers_times_and_lists() -> None:
    found = match("GET", "/applications/00abc/jobruns")
    assert found is not None
    query = "maxResults=7&states=RUNNING&states=FAILED&createdAtAfter=1970-01-01T00:00:05Z"
    asked = parameters(*found, query, b"")
    assert (asked["maxResults"], asked["states"], asked["createdAtAfter"]) == (7, ["RUNNING", "FAILED"], 5.0)


def nothing(url: str) -> bytes:
    raise OSError(url)


def spark_of(cache: Path, *names: str) -> SparkSubmit:
    """One whose lock names these jars, which are there, and whose archive of classes would be beside them."""
    (cache / "jars").mkdir(parents=True)
    for name in names:
        (cache / "jars" / f"{name}-1.jar").write_bytes(name.encode())
    lock = cache / "jars.lock"
    lock.write_text("# group name version sha256 bytes\n" + "".join(f"g {name} 1 00 5\n" for name in (*names, "gone")))
    return SparkSubmit(command=("spark-submit",), cores=2, jars=cache / "jars", lock=lock, archive=cache / "spark.jsa")


@pytest.mark.parametrize("brought", [None, b"iceberg", b"iceberh", b""])
def test_every_job_has_the_class_path_that_the_archive_of_classes_is_for(tmp_path: Path, brought: bytes | None) -> None:
    """`brought`: what the run's own jar holds; None: it brings no code. With other jars it gets none of ours."""
    cache = tmp_path / ".cache"
    spark = spark_of(cache, "sqlite-jdbc", "iceberg")
    (cache / "jars" / "iceberg-0.jar").touch()  # of another version of Firn
    (tmp_path / "own.jar").write_bytes(brought or b"")
    bring = f"--jars {tmp_path}/none.jar,{tmp_path}/own.jar"
    given = replace(prepare(bring if brought else "", tmp_path, nothing), own_code=brought is not None)
    ours = [f"{cache}/jars/iceberg-1.jar"] if brought in (None, b"iceberg") else []
    lines = []
    for _ in range(2):
        lines.append(spark.arguments({}, {}, "/commit.py", tmp_path / "tmp", given))
        (cache / "spark.jsa").touch()
    for line in lines:
        assert line[line.index("--driver-class-path") + 1] == ":".join([*ours, f"{cache}/jars/sqlite-jdbc-1.jar"])
        assert ("--jars" in line) is bool(brought)
    said = [next(one for one in line if "extraJavaOptions" in one) for line in lines]
    assert [f'"-XX:SharedArchiveFile={cache}/spark.jsa"' in one for one in said] == [False, True]


def test_later_spark_settings_win_machine_then_run_then_parameters(tmp_path: Path) -> None:
    jars = tmp_path / ".cache" / "jars"
    spark = spark_of(tmp_path / ".cache", "b", "a")
    overrides = {"applicationConfiguration": [{"classification": "spark-defaults", "properties": {"spark.a": "1"}}]}
    driver = {"entryPointArguments": ["--first", "1"]}
    own = prepare("--conf spark.a='2 3' --py-files x.zip", tmp_path, nothing)
    line = spark.arguments(driver, overrides, "/commit.py", tmp_path / "tmp", own)
    assert line[:5] == ["spark-submit", "--master", "local[2]", "--driver-memory", "1g"]
    assert line[line.index("--driver-class-path") + 1] == f"{jars}/a-1.jar:{jars}/b-1.jar"
    assert "spark.driver.bindAddress=127.0.0.1" in line
    assert line.index("spark.a=1") < line.index("spark.a=2 3")
    assert line[-5:] == ["--py-files", "x.zip", "/commit.py", "--first", "1"]


def test_a_job_gets_the_stacks_environment_and_not_the_shells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "FIRN_STAGING", "SPARK_HOME"):
        monkeypatch.setenv(name, "of the shell")
    environment = SparkSubmit(environment={"AWS_REGION": "us-east-1"}).process_environment(tmp_path, Prepared([]))
    assert environment["AWS_REGION"] == "us-east-1"
    assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "of the shell" not in environment.values()


def test_a_run_that_brings_its_archive_gets_nothing_of_the_checkout(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("commit.py"), io.BytesIO())
    there = {"s3://b/code/a.jar": b"jar", "s3://b/code/job.tar.gz": packed.getvalue()}
    prepared = prepare(
        "--jars s3://b/code/a.jar,/opt/b.jar --conf spark.archives=s3://b/code/job.tar.gz#job --conf spark.a=b=c "
        "--verbose --driver-memory=2g --conf spark.emr-serverless.driverEnv.PYSPARK_PYTHON=python3.11",
        tmp_path,
        there.__getitem__,
    )
    jars = f"{tmp_path}/a.jar,/opt/b.jar"
    expected = ["--jars", jars, "--conf", "spark.a=b=c", "--verbose", "--driver-memory", "2g"]
    assert prepared.parameters == expected
    assert (tmp_path / "a.jar").read_bytes() == b"jar"
    assert (tmp_path / "job" / "commit.py").is_file()
    spark = SparkSubmit(command=("spark-submit",))
    environment = spark.process_environment(tmp_path, prepared)
    assert (environment["PYTHONPATH"], environment["PYSPARK_PYTHON"]) == ("", "python3.11")
    line = spark.arguments({}, {}, "/start.py", tmp_path, prepared)
    # Of this machine's jars it gets the one that AWS needs none of.
    assert line.count("--jars") == 1
    assert "iceberg" not in line[line.index("--driver-class-path") + 1]


def test_what_lies_below_its_hash_is_brought_once_and_each_run_has_its_own_of_it(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("commit.py"), io.BytesIO())
    fetched: list[str] = []

    def fetch(url: str) -> bytes:
        fetched.append(url)
        return packed.getvalue()

    def run(number: int, sha256: str) -> Path:
        folder = tmp_path / str(number)
        folder.mkdir()
        code = f"s3://b/code/{sha256}"
        found = prepare(f"--jars {code}/a.jar --archives {code}/job.tar.gz#job", folder, fetch, tmp_path / "kept")
        assert found.parameters == ["--jars", f"{folder}/a.jar"]
        assert (folder / "a.jar").read_bytes() == packed.getvalue()
        assert [path.name for path in (folder / "job").iterdir()] == ["commit.py"]
        return folder

    first = run(1, "a" * 64)
    (first / "job" / "commit.pyc").touch()  # as Python does
    shutil.rmtree(first)
    run(2, "a" * 64)
    assert len(fetched) == 2
    second = run(3, "b" * 64)
    assert len(fetched) == 4
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["b" * 64], "what no run will ask for has gone"
    assert (second / "job" / "commit.py").is_file()


def test_an_archive_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="s3://b/x is not an archive"):
        prepare("--archives s3://b/x#job", tmp_path, lambda _url: b"not packed")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(__file__)
    for length in (20, 200, len(packed.getvalue()) // 2):
        with pytest.raises(ValueError, match="s3://b/x is not an archive"):
            prepare("--archives s3://b/x#job", tmp_path, lambda _url, end=length: packed.getvalue()[:end])  # type: ignore[misc]


@pytest.mark.parametrize("name", ["../job", "a/b", "..", "/job"])
def test_an_archive_is_unpacked_into_the_jobs_folder_only(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a folder"):
        prepare(f"--archives s3://b/x#{name}", tmp_path, lambda _url: b"")


def test_a_package_that_is_missing_or_for_another_python_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoSuchImage, match="run `make package` first"):
        manifest(tmp_path)
    with pytest.raises(NoSuchImage, match=r"packaged for Python 3\.1, .* --python 3\."):
        python(tmp_path / "image", "3.1")
