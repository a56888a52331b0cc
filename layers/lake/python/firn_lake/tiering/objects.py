"""S3's objects beside what PyIceberg does with them: classes, tags and copies, by boto3."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlencode

from firn.config.region import region_of, s3_endpoint
from firn.config.storage_classes import S3, ClassTable
from firn.errors import FirnError, TerminalError, TransientError
from firn.maintenance.tiering import TAG
from firn_lake.tiering.class_port import AT_ONCE, Listed, Place, Returned, each

COPY_BYTES: Final = 5 * 2**30
"""CopyObject takes no more (S3 API Reference): larger objects are copied in parts."""
PART_BYTES: Final = 2**30
MOST_TAGS: Final = 10
_CARRIED: Final = (
    "Metadata", "ContentType", "ContentEncoding", "ContentDisposition", "ContentLanguage", "CacheControl",
)  # fmt: skip
_RESTORE_DAYS: Final = 7
"""How long what was restored from an archive stays readable, for the copy back."""
_MISSING: Final = frozenset({"NoSuchKey", "404", "NotFound", "NoSuchVersion"})
_PASSING: Final = frozenset({"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "Throttling", "503"})


class S3Classes:
    """S3's storage classes: a tag says where an object goes, and a lifecycle rule of the bucket moves it."""

    def __init__(self, s3: Any = None) -> None:
        """`s3`: a boto3 client; None: one is made. Raises ConfigError."""
        self._s3 = client() if s3 is None else s3

    @property
    def table(self) -> ClassTable:
        """What classes there are."""
        return S3

    def place(self, url: str) -> Place | None:
        """Bucket and key."""
        return place(url)

    def listing(self, prefix: Place) -> dict[str, Listed]:
        """All objects below the prefix; one request for 1,000."""
        return listing(self._s3, prefix)

    def look(self, where: Place) -> Listed | None:
        """One object; None if it is not there."""
        return look(self._s3, where)

    def move(self, where: Place, kind: str | None) -> bool:
        """Tag the object. False: it is gone, or has ten tags of others."""
        return set_tag(self._s3, where, TAG, kind)

    def warm(self, where: Place) -> Returned | None:
        """Copy the object onto itself in STANDARD. What is archived is restored first: once that is done, hours later,
        another call copies it."""
        from botocore.exceptions import ClientError

        try:
            size = to_standard(self._s3, where, TAG)
        except ClientError as error:
            found = look(self._s3, where) if _code(error) == "InvalidObjectState" else None
            if found is None:
                raise
            _restore(self._s3, where)
            return Returned(found.size, asked=True)
        return None if size is None else Returned(size)


def client_for(*addresses: str) -> Any:
    """A client if one of the addresses is on S3; None else, where no region has to be set."""
    return client() if any(place(one) for one in addresses) else None


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
    code = _code(error)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _PASSING or status >= 500:
        return TransientError(f"S3 can't {what}: {error}; try again")
    advice = "; check the role's rights (docs/tiering.md)" if code in ("AccessDenied", "403") else ""
    return TerminalError(f"S3 can't {what}: {error}{advice}")


def _code(error: Any) -> str:
    return str(error.response["Error"]["Code"])


def _restore(s3: Any, where: Place) -> None:
    """Ask for a copy of an archived object. Raises ClientError."""
    from botocore.exceptions import ClientError

    wanted = {"Days": _RESTORE_DAYS, "GlacierJobParameters": {"Tier": "Standard"}}
    try:
        s3.restore_object(Bucket=where.bucket, Key=where.key, RestoreRequest=wanted)
    except ClientError as error:
        if _code(error) != "RestoreAlreadyInProgress":
            raise


def is_missing(error: Any) -> bool:
    """Whether a ClientError says that the object is not there."""
    return _code(error) in _MISSING


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
