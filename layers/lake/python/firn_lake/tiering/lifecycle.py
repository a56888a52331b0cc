"""A bucket's lifecycle rules: S3 takes all of them at once or none, and each put counts as a change."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firn.maintenance.bucket_lifecycle import dangers, is_own, merged, same


@dataclass(frozen=True)
class Applied:
    """What became of a bucket's rules. `changed`: the IDs of ours that were put or taken away; `warnings`: rules of
    others that would take away what must stay."""

    bucket: str
    changed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def apply_rules(s3: Any, bucket: str, rules: Sequence[Mapping[str, Any]]) -> bool:
    """Make `rules` (S3's LifecycleRule, each with an ID) the bucket's, if they are not. -> whether they were not.

    `s3`: a boto3 client. No rules at all removes what is there. Raises botocore's ClientError.
    """
    current, smallest = _current(s3, bucket)
    if same(current, rules):
        return False
    _put(s3, bucket, rules, smallest)
    return True


def apply_own(
    s3: Any,
    bucket: str,
    wanted: Sequence[Mapping[str, Any]],
    prefixes: Collection[str],
    live: Collection[str],
    *,
    dry_run: bool = False,
) -> Applied:
    """Make `wanted` Firn's rules of the bucket, and leave those of others as they are; no put where all is as it should
    be. `prefixes`: where Firn lies in the bucket; `live`: the prefixes that no rule may take objects from.

    S3 has no condition for this put: who changes rules at the same moment is put back. Raises ClientError,
    TooManyRules, ConfigError.
    """
    current, smallest = _current(s3, bucket)
    others = [rule for rule in current if not is_own(rule, prefixes)]
    warnings = tuple(f"bucket {bucket}: {text}" for text in dangers(others, live))
    rules = merged(current, wanted, prefixes)
    if same(current, rules):
        return Applied(bucket, (), warnings)
    before = {str(rule.get("ID")): rule for rule in current if is_own(rule, prefixes)}
    after = {str(rule["ID"]): rule for rule in rules if is_own(rule, prefixes)}
    changed = sorted(
        name
        for name in before.keys() | after.keys()
        if name not in before or name not in after or not same([before[name]], [after[name]])
    )
    if not dry_run:
        _put(s3, bucket, rules, smallest)
    return Applied(bucket, tuple(changed), warnings)


def current_rules(s3: Any, bucket: str) -> list[dict[str, Any]]:
    """The bucket's rules as S3 has them; empty if there are none. Raises ClientError, also where there is no bucket."""
    return _current(s3, bucket)[0]


def _current(s3: Any, bucket: str) -> tuple[list[dict[str, Any]], str | None]:
    """-> the rules, and the bucket's TransitionDefaultMinimumObjectSize: a put without it would set it back."""
    try:
        found = s3.get_bucket_lifecycle_configuration(Bucket=bucket)
    except s3.exceptions.ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchLifecycleConfiguration":
            return [], None
        raise
    return found["Rules"], found.get("TransitionDefaultMinimumObjectSize")


def _put(s3: Any, bucket: str, rules: Sequence[Mapping[str, Any]], smallest: str | None) -> None:
    if not rules:
        s3.delete_bucket_lifecycle(Bucket=bucket)
        return
    more = {"TransitionDefaultMinimumObjectSize": smallest} if smallest else {}
    s3.put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": [dict(rule) for rule in rules]}, **more
    )
