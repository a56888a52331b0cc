"""Which versions a job may run with. Pure: firn_spark.versions looks them up.

The image brings Spark, Python and an Iceberg of its own, and its class path decides whose classes are taken. Of those
that the job calls by name (Iceberg's and Spark's inner classes, by py4j), another minor version may do another thing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

TESTED: Final[Mapping[str, str]] = {"spark": "4.0", "iceberg": "1.11"}
"""Major and minor version of what the jobs' tests run with: requirements.lock and infra/setup/jars.lock."""


@dataclass(frozen=True)
class Part:
    """One thing that a job runs with. `version` as it says itself, "" where it is not there; `place`: the jar, file or
    folder that it came from."""

    name: str
    version: str
    place: str

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.place})"


def differing(found: Sequence[Part], packaged_for: str | None) -> str | None:
    """Why a job must not run with these; None if it may.

    packaged_for  the Python that the job's libraries were packaged for, such as 3.11: another one can't load them, or
                  loads what nobody tested; None: they are this Python's own
    """
    wanted = dict(TESTED) | ({"python": packaged_for} if packaged_for else {})
    wrong = [part for part in found if part.name in wanted and _minor(part.version) != wanted[part.name]]
    if not wrong:
        return None
    said = "; ".join(f"{part}, and not {wanted[part.name]}" for part in wrong)
    return (
        f"this job was not tested with what it runs with: {said}. Nothing was committed. Use the EMR release and the "
        "packaged job of one version of Firn (EmrRelease, JobPython, JobSha256 of template.yaml), with its jars first"
    )


def _minor(version: str) -> str:
    """`4.0.2-amzn-0` -> `4.0`."""
    return ".".join(version.split("-")[0].split(".")[:2])
