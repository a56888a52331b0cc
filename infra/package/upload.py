"""Put a packaged job where the template looks for it: below code/{sha256}/ in the staging bucket, each object once."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra.package import PackageError
from infra.package.job import MANIFEST


def staging_bucket(stack: str, cloudformation: Any) -> str:
    """The staging bucket of a deployed stack, by its output `Staging`. Raises PackageError."""
    outputs = cloudformation.describe_stacks(StackName=stack)["Stacks"][0].get("Outputs", [])
    for output in outputs:
        if output["OutputKey"] == "Staging":
            return str(output["OutputValue"]).removeprefix("s3://")
    raise PackageError(f"the stack {stack} has no output Staging: is it Firn's, and is it deployed?")


def packaged(folder: Path) -> dict[str, Any]:
    """The manifest of a packaged job. Raises PackageError."""
    if not (folder / MANIFEST).is_file():
        raise PackageError(f"{folder / MANIFEST} is not there: run `make package` first")
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    return manifest


def upload(
    folder: Path, bucket: str, s3: Any, began: Callable[[str], None] = lambda _name: None
) -> tuple[str, list[str]]:
    """Upload what the manifest of `folder` names and is not there yet -> the prefix, and the keys that were written.

    S3 takes an object only with the hash that was packaged, and only where none is; what is there already must
    have that hash too. Raises PackageError.
    """
    manifest = packaged(folder)
    prefix = f"code/{manifest['sha256']}"
    written = []
    for name, described in manifest["files"].items():
        key = f"{prefix}/{name}"
        there = _sha_of(s3, bucket, key)
        if there is None:
            began(key)
            _put(s3, bucket, key, folder / name, described["sha256"])
            written.append(key)
        elif there != described["sha256"]:
            raise PackageError(f"s3://{bucket}/{key} is not the file that was packaged: find out who wrote it")
    return prefix, written


def _put(s3: Any, bucket: str, key: str, file: Path, sha256: str) -> None:
    from botocore.exceptions import ClientError

    checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
    try:
        # In one part: the checksum of an object of several is not a hash of its bytes.
        with file.open("rb") as opened:
            s3.put_object(
                Bucket=bucket, Key=key, Body=opened, IfNoneMatch="*",
                ChecksumAlgorithm="SHA256", ChecksumSHA256=checksum,
            )  # fmt: skip
    except ClientError as error:
        raise PackageError(f"s3://{bucket}/{key} was not written: {error}; check the bucket and your rights") from error


def _sha_of(s3: Any, bucket: str, key: str) -> str | None:
    """The SHA-256 that S3 worked out when the object was written; "" if it did not, None if there is none."""
    from botocore.exceptions import ClientError

    try:
        head = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
            return None
        raise PackageError(
            f"s3://{bucket}/{key} can't be looked at: {error}; check the bucket and your rights"
        ) from error
    return base64.b64decode(head.get("ChecksumSHA256", "")).hex()
