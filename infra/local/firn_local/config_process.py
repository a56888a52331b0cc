"""The process that publishes firn.yaml to the stack's staging store: firn_local.publish."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from firn_local.environment import plain_environment, source_path

_SECONDS: Final = 60.0


class NotPublished(Exception):
    """firn.yaml is wrong, or the staging store does not take it. The text says what to do."""


def publish_apart(config: Path, environment: Mapping[str, str], seconds: float = _SECONDS) -> list[str]:
    """Check firn.yaml and store it -> what of it the stack passes over, for people. `environment`: of the functions.
    Raises NotPublished."""
    staging = environment["FIRN_STAGING"]
    path = source_path("layers/core/python", "layers/lake/python", "infra/local")
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "firn_local.publish", staging, str(config)],
            env={**plain_environment(), **environment, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise NotPublished(
            f"{staging} has not taken {config} within {seconds:g} s: `firn doctor --storage {staging}` says why"
        ) from error
    if done.returncode != 0:
        raise NotPublished(done.stderr.strip())
    return done.stdout.splitlines()
