"""What a job may run with is what its tests ran with."""

import re
from pathlib import Path

import pytest

from firn.runs.versions import TESTED, Part, differing

ROOT = Path(__file__).resolve().parents[3]


def parts(**versions: str) -> list[Part]:
    told = {"python": "3.11.9", "spark": "4.0.2-amzn-0", "iceberg": "1.11.0", "aws_sdk": "2.99.1"} | versions
    return [Part(name, version, f"/image/{name}.jar") for name, version in told.items()]


def test_the_tested_versions_are_those_of_the_locks() -> None:
    spark = re.search(r"^pyspark==(\d+\.\d+)\.", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    jars = re.findall(r"iceberg-\S+ (\d+\.\d+)\.\S+ ", (ROOT / "infra/setup/jars.lock").read_text())
    assert spark is not None
    assert ({"spark": spark[1]}, set(jars)) == ({"spark": TESTED["spark"]}, {TESTED["iceberg"]})


def test_another_patch_and_the_vendors_build_of_it_run() -> None:
    assert differing(parts(), "3.11") is None
    assert differing(parts(spark="4.0.9", aws_sdk="1.0.0"), "3.11") is None
    assert differing(parts(python="3.13.1"), None) is None, "outside of an archive the libraries are this Python's"


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("spark", "4.1.0", "spark 4.1.0 (/image/spark.jar), and not 4.0"),
        ("iceberg", "1.10.1-amzn-0", "iceberg 1.10.1-amzn-0 (/image/iceberg.jar), and not 1.11"),
        ("iceberg", "", "iceberg  (/image/iceberg.jar), and not 1.11"),
        ("python", "3.12.1", "python 3.12.1 (/image/python.jar), and not 3.11"),
    ],
)
def test_another_minor_version_is_named_with_its_place_and_stops_the_job(name: str, version: str, said: str) -> None:
    why = differing(parts(**{name: version}), "3.11")
    assert why is not None
    assert said in why
    assert "EmrRelease" in why
