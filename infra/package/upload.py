"""Put a packaged job where the template's defaults look for it: below code/ in the staging bucket."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from infra.package.job import MANIFEST, PackageError

_SHA = "sha256"


def staging_bucket(stack: str, cloudformation: Any) -> str:
    """The staging bucket of a deployed stack, by its output `Staging`. Raises PackageError."""
    outputs = cloudformation.describe_stacks(StackName=stack)["Stacks"][0].get("Outputs", [])
    for output in outputs:
        if output["OutputKey"] == "Staging":
            return str(output["OutputValue"]).removeprefix("s3://")
    raise PackageError(f"the stack {stack} has no output Staging: is it Firn's, and is it deployed?")


def upload(
    folder: Path, bucket: str, prefix: str, s3: Any, began: Callable[[str], None] = lambda _name: None
) -> list[str]:
    """Upload what the manifest of `folder` names and is not there yet -> the keys that were written.

    The manifest goes last: where it lies, all it names lies too. Raises PackageError.
    """
    if not (folder / MANIFEST).is_file():
        raise PackageError(f"{folder / MANIFEST} is not there: run `make package` first")
    files = json.loads((folder / MANIFEST).read_text())["files"]
    written = []
    for name, described in files.items():
        key = f"{prefix}/{name}"
        if _sha_of(s3, bucket, key) != described[_SHA]:
            began(key)
            s3.upload_file(str(folder / name), bucket, key, ExtraArgs={"Metadata": {_SHA: described[_SHA]}})
            written.append(key)
    if written:
        s3.upload_file(str(folder / MANIFEST), bucket, f"{prefix}/{MANIFEST}")
    return written


def _sha_of(s3: Any, bucket: str, key: str) -> str | None:
    from botocore.exceptions import ClientError

    try:
        metadata: Mapping[str, str] = s3.head_object(Bucket=bucket, Key=key)["Metadata"]
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
            return None
        raise PackageError(
            f"s3://{bucket}/{key} can't be looked at: {error}; check the bucket and your rights"
        ) from error
    return next((value for name, value in metadata.items() if name.lower() == _SHA), None)  # header names: any case
