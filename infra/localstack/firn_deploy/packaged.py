"""The packaged job: made and uploaded by the commands of `make package` and `make upload`, as for AWS."""

import json
import subprocess
import sys
from pathlib import Path

from firn_deploy import DeployError, checkout
from firn_deploy.localstack import credentials, plain_environment
from firn_local.environment import REPOSITORY
from firn_local.image import python as image_python


def make(folder: Path) -> dict[str, str]:
    """Package the job in {folder}/job -> the template's parameters for it, with an image's Python in {folder}/image.

    Raises DeployError.
    """
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    manifest = json.loads(_package(folder, {}, "--json", "--python", here, "job"))
    return {"JobSha256": manifest["sha256"], "JobPython": str(image_python(folder / "image", here))}


def upload(folder: Path, port: int, staging: str) -> bool:
    """Put it into the staging bucket. -> whether it was not there. Raises DeployError."""
    bucket = staging.removeprefix("s3://")
    said = json.loads(_package(folder, credentials(port), "--json", "upload", "--bucket", bucket))
    return bool(said["written"])


def _package(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    command = checkout.package("--code", str(folder / "job"), *arguments)
    done = subprocess.run(
        command.words,
        env={**plain_environment(), **environment, **command.environment},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise DeployError(f"the job is not packaged: {done.stderr.strip()[-2000:]}")
    return done.stdout
