"""A bucket's lifecycle rules: S3 takes all of them at once or none, and each put counts as a change."""

from collections.abc import Mapping, Sequence
from typing import Any


def apply_rules(s3: Any, bucket: str, rules: Sequence[Mapping[str, Any]]) -> bool:
    """Make `rules` (S3's LifecycleRule, each with an ID) the bucket's, if they are not. -> whether they were not.

    `s3`: a boto3 client. No rules at all removes what is there. Raises botocore's ClientError.
    """
    wanted = _by_id(rules)
    if _by_id(current_rules(s3, bucket)) == wanted:
        return False
    if wanted:
        s3.put_bucket_lifecycle_configuration(
            Bucket=bucket, LifecycleConfiguration={"Rules": [dict(rule) for rule in rules]}
        )
    else:
        s3.delete_bucket_lifecycle(Bucket=bucket)
    return True


def current_rules(s3: Any, bucket: str) -> list[dict[str, Any]]:
    """The bucket's rules as S3 has them; empty if there are none. Raises ClientError, also where there is no bucket."""
    try:
        found: list[dict[str, Any]] = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    except s3.exceptions.ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchLifecycleConfiguration":
            return []
        raise
    return found


def _by_id(rules: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """S3 keeps no order, and answers an empty prefix in several ways."""
    plain = {}
    for rule in rules:
        kept = {key: value for key, value in rule.items() if key not in ("Filter", "Prefix")}
        scope = dict(rule.get("Filter") or {})
        scope.setdefault("Prefix", rule.get("Prefix", ""))
        plain[str(rule["ID"])] = {**kept, "Filter": scope}
    return plain
