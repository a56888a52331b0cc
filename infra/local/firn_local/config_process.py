"""Processes that do what would load too much into the stack: firn_local.publish, firn_lake.catalogs.catalog_reach."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from firn.config.catalogs import shown
from firn_local.environment import plain_environment, source_path

_SECONDS: Final = 60.0
_REACH_SECONDS: Final = 30.0


class NotPublished(Exception):
    """firn.yaml is wrong, or the staging store does not take it. The text says what to do."""


class NotReached(Exception):
    """The catalog does not answer. The text says what to do."""


def publish_apart(config: Path, environment: Mapping[str, str], seconds: float = _SECONDS) -> list[str]:
    """Check firn.yaml and store it -> what of it the stack passes over, for people. `environment`: of the functions.
    Raises NotPublished."""
    staging = environment["FIRN_STAGING"]
    try:
        done = _run("firn_local.publish", [staging, str(config)], environment, seconds)
    except subprocess.TimeoutExpired as error:
        raise NotPublished(
            f"{staging} has not taken {config} within {seconds:g} s: `firn doctor --storage {staging}` says why"
        ) from error
    if done.returncode != 0:
        raise NotPublished(done.stderr.strip())
    return done.stdout.splitlines()


def reach_apart(environment: Mapping[str, str], seconds: float = _REACH_SECONDS) -> None:
    """See that the catalog answers. `environment`: of the functions. Raises NotReached."""
    catalog = shown(environment["FIRN_CATALOG_URI"])
    try:
        done = _run("firn_lake.catalogs.catalog_reach", [], environment, seconds)
        said = done.stderr.strip() if done.returncode else None
    except subprocess.TimeoutExpired:
        said = f"no answer within {seconds:g} s"
    if said is not None:
        raise NotReached(
            f"the catalog at {catalog} can't be used, and nothing was noted of it: {said}. See that --catalog is "
            "right, that the server runs, and that this machine reaches it; then start again"
        )


def _run(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", module, *arguments],
        env={
            **plain_environment(),
            **environment,
            "PYTHONPATH": source_path("layers/core/python", "layers/lake/python", "infra/local"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
