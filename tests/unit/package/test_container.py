"""What the image installs is locked, without a place on the machine that locked it."""

import re

from firn_local.environment import REPOSITORY

FOLDER = REPOSITORY / "infra" / "container"


def pinned(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", text, re.MULTILINE))


def test_the_image_has_the_versions_that_are_tested_here() -> None:
    text = (FOLDER / "requirements.lock").read_text()
    of_image, tested = pinned(text), pinned((REPOSITORY / "requirements.lock").read_text())
    assert {"pyspark", "pyiceberg", "boto3", "setuptools"} <= of_image.keys()
    assert of_image.items() <= tested.items()
    assert "file://" not in text


def test_what_the_image_copies_is_there() -> None:
    copies = re.findall(r"^COPY (?!--from)(.*) \S+$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    places = [place for line in copies for place in line.split()]
    assert len(places) > 8
    assert [place for place in places if not (REPOSITORY / place).exists()] == []
