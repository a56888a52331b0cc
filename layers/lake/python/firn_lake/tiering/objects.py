"""S3's objects beside what PyIceberg does with them: classes, tags and copies, by boto3."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

from firn.config.region import region_of, s3_endpoint
from firn.errors import FirnError, TerminalError, TransientError

_T = TypeVar("_T")
_R = TypeVar("_R")

AT_ONCE: Final = 16
COPY_BYTES: Final = 5 * 2**30
"""CopyObject takes no more (S3 API Reference): larger objects are copied in parts."""
PART_BYTES: Final = 2**30
MOST_TAGS: Final = 10
_CARRIED: Final = (
    "Metadata", "ContentType", "ContentEncoding", "ContentDisposition", "ContentLanguage", "CacheControl",
)  # fmt: skip
_MISSING: Final = frozenset({"NoSuchKey", "404", "NotFound", "NoSuchVersion"})
_PASSING: Final = frozenset({"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "Throttling", "503"})


class Place(NamedTuple):
    """A bucket and a key, or the beginning of one."""

    bucket: str
    key: str


class Listed(NamedTuple):
    """An object as a listing tells it."""

    size: int
    modified: datetime
    kind: str


def client(env: Mapping[str, str] | None = None) -> Any:
    """A boto3 S3 client for the AWS_* settings of the environment, with room for AT_ONCE requests. Raises ConfigError
    if no region is set: boto3 alone would ask us-east-1."""
    import boto3
    from botocore.config import Config

    known = os.environ if env is None else env
    make: Any = boto3.session.Session().client
    local = bool(s3_endpoint(known))
    # A local endpoint answers to an address, not to bucket.localhost.
    config = Config(max_pool_connections=AT_ONCE, retries={"max_attempts": 5})
    config = config.merge(Config(s3={"addressing_style": "path"})) if local else config
    return make("s3", region_name=region_of(known), config=config)


def place(url: str) -> Place | None:
    """Bucket and key of an s3:// (s3a://, s3n://) address; a key may hold any character. None for other storage."""
    scheme, found, rest = url.partition("://")
    if not found or scheme.lower() not in ("s3", "s3a", "s3n"):
        return None
    bucket, _, key = rest.partition("/")
    return Place(bucket, key)


def scheme(url: str) -> str:
    """The scheme of an address, `file` for a bare path."""
    return urlsplit(url).scheme or "file"


@contextmanager
def told(what: str) -> Iterator[None]:
    """boto3's errors as Firn's: TransientError, or TerminalError where asking again gives the same."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise failure(what, error) from error
    except BotoCoreError as error:
        raise TransientError(f"S3 can't {what}: {error}; try again") from error


def failure(what: str, error: Any) -> FirnError:
    """What a ClientError means."""
    code = str(error.response["Error"]["Code"])
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _PASSING or status >= 500:
        return TransientError(f"S3 can't {what}: {error}; try again")
    advice = "; check the role's rights (docs/tiering.md)" if code in ("AccessDenied", "403") else ""
    return TerminalError(f"S3 can't {what}: {error}{advice}")


def is_missing(error: Any) -> bool:
    """Whether a ClientError says that the object is not there."""
    return str(error.response["Error"]["Code"]) in _MISSING


def listing(s3: Any, prefix: Place) -> dict[str, Listed]:
    """All objects below the prefix, by key; one request a thousand. Raises ClientError."""
    found: dict[str, Listed] = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=prefix.bucket, Prefix=prefix.key):
        for one in page.get("Contents", ()):
            found[one["Key"]] = Listed(int(one["Size"]), one["LastModified"], one.get("StorageClass") or "STANDARD")
    return found


def look(s3: Any, where: Place) -> Listed | None:
    """One object; None if it is not there. Raises ClientError."""
    from botocore.exceptions import ClientError

    try:
        head = s3.head_object(Bucket=where.bucket, Key=where.key)
    except ClientError as error:
        if is_missing(error):
            return None
        raise
    return Listed(int(head["ContentLength"]), head["LastModified"], head.get("StorageClass") or "STANDARD")


def each(do: Callable[[_T], _R], things: Sequence[_T]) -> list[_R]:
    """`do` for each, AT_ONCE at a time, in their order. Raises what the first that fails raises."""
    if len(things) < 2:
        return [do(one) for one in things]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(do, things))


def set_tag(s3: Any, where: Place, name: str, value: str | None) -> bool:
    """Give the object the tag, or take it away (None); its other tags stay. -> whether it has it so now: False if the
    object is gone, or has ten tags of others. Raises ClientError."""
    from botocore.exceptions import ClientError

    address = {"Bucket": where.bucket, "Key": where.key}
    try:
        tags = s3.get_object_tagging(**address)["TagSet"]
        others = [tag for tag in tags if tag["Key"] != name]
        wanted = others if value is None else [*others, {"Key": name, "Value": value}]
        if len(wanted) > MOST_TAGS:
            return False
        if sorted(wanted, key=_key) != sorted(tags, key=_key):
            if wanted:
                s3.put_object_tagging(**address, Tagging={"TagSet": wanted})
            else:
                s3.delete_object_tagging(**address)
    except ClientError as error:
        if is_missing(error):
            return False
        raise
    return True


def _key(tag: Mapping[str, str]) -> str:
    return tag["Key"]


def to_standard(s3: Any, where: Place, name: str, *, most: int = COPY_BYTES, part: int = PART_BYTES) -> int | None:
    """Copy the object onto itself in STANDARD, without the tag `name`. -> its bytes; None if it is gone, or was there
    already and had no such tag. Readers see the same bytes throughout. Raises ClientError."""
    from botocore.exceptions import ClientError

    address = {"Bucket": where.bucket, "Key": where.key}
    try:
        head = s3.head_object(**address)
        tags = {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(**address)["TagSet"]}
        if (head.get("StorageClass") or "STANDARD") == "STANDARD" and name not in tags:
            return None
        kept = urlencode({key: value for key, value in tags.items() if key != name})
        if int(head["ContentLength"]) > most:
            _copy_in_parts(s3, address, head, kept, part)
        else:
            # S3 refuses a copy in place that changes neither class nor metadata: what is said again counts as changed.
            s3.copy_object(
                **address, CopySource=address, CopySourceIfMatch=head["ETag"], StorageClass="STANDARD",
                TaggingDirective="REPLACE", Tagging=kept, MetadataDirective="REPLACE", **_metadata(head),
            )  # fmt: skip
    except ClientError as error:
        if is_missing(error):
            return None
        raise
    return int(head["ContentLength"])


def _metadata(head: Mapping[str, Any]) -> dict[str, Any]:
    """What an object carries besides its bytes, as a put takes it."""
    return {name: head[name] for name in _CARRIED if head.get(name)}


def _copy_in_parts(s3: Any, address: dict[str, str], head: Mapping[str, Any], tags: str, part: int) -> None:
    upload = s3.create_multipart_upload(**address, StorageClass="STANDARD", Tagging=tags, **_metadata(head))["UploadId"]
    try:
        parts = [
            (number, f"bytes={begin}-{min(begin + part, int(head['ContentLength'])) - 1}")
            for number, begin in enumerate(range(0, int(head["ContentLength"]), part), 1)
        ]

        def copied(one: tuple[int, str]) -> dict[str, Any]:
            number, span = one
            answer = s3.upload_part_copy(
                **address, CopySource=address, CopySourceIfMatch=head["ETag"], CopySourceRange=span,
                PartNumber=number, UploadId=upload,
            )  # fmt: skip
            return {"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]}

        done = each(copied, parts)
    except BaseException:
        # Nothing of it can be seen yet; what is left of a failed abort the rule for unfinished uploads takes.
        s3.abort_multipart_upload(**address, UploadId=upload)
        raise
    s3.complete_multipart_upload(**address, UploadId=upload, MultipartUpload={"Parts": done})
