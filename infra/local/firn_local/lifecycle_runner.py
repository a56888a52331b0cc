"""Does what a bucket's lifecycle rules say, to the objects of the stack's S3, as of a given time.

AWS does it once a day; neither moto nor LocalStack does it at all. Objects really change their storage class, and those
that expire are gone (in a versioned bucket they get a delete marker). What is done here, and how, is S3's User Guide,
"Managing the lifecycle of objects": filters by prefix, tags and sizes; days counted from the object's creation and
rounded up to the next midnight UTC; nothing below 128 KB is moved unless the filter says a size; an object moves on and
never back; where it expires and moves at once it expires, and of two moves the colder one wins.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import Any, Final

from firn_local.lifecycle_rules import many, rules_of

# "Supported transitions": each class may go to any later one (but for ONEZONE_IA, which nobody here uses).
_WATERFALL: Final = (
    "STANDARD", "STANDARD_IA", "INTELLIGENT_TIERING", "ONEZONE_IA", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE",
)  # fmt: skip
_SMALLEST: Final = 131_072


@dataclass(frozen=True)
class Done:
    """One object that a rule took hold of. `became`: its new class, or `expired`."""

    bucket: str
    key: str
    rule: str
    became: str


def run(account: str, now: datetime) -> list[Done]:
    """Apply the rules of all buckets as if it were `now` (aware). Objects keep the time that they were written at."""
    from moto.s3.models import s3_backends

    backend = s3_backends[account]["aws"]
    return [done for name in sorted(backend.buckets) for done in _run_bucket(backend, name, now)]


def _run_bucket(backend: Any, name: str, now: datetime) -> Iterable[Done]:
    bucket = backend.get_bucket(name)
    rules = [rule for rule in rules_of(bucket) if rule.get("Status") == "Enabled"]
    for key in sorted(bucket.keys):
        versions = list(bucket.keys.getlist(key))
        yield from _current(backend, name, versions[-1], rules, now)
        yield from _old_versions(backend, name, versions, rules, now)


def _current(backend: Any, bucket: str, found: Any, rules: list[dict[str, Any]], now: datetime) -> Iterable[Done]:
    if not _is_object(found):
        return
    tags = backend.tagger.get_tag_dict_for_resource(found.arn)
    mine = [rule for rule in rules if matches(rule, found.name, found.size, tags)]
    for rule in mine:
        expiration = rule.get("Expiration") or {}
        if _is_due(expiration, found.last_modified, now):
            backend.delete_object(bucket, found.name)
            yield Done(bucket, found.name, str(rule.get("ID")), "expired")
            return
    moves = [
        (_rank(move["StorageClass"]), str(move["StorageClass"]), str(rule.get("ID")))
        for rule in mine
        for move in many(rule.get("Transition"))
        if _is_due(move, found.last_modified, now) and (found.size >= _SMALLEST or _says_a_size(rule))
    ]
    if moves and max(moves)[0] > _rank(found.storage_class):
        _, kind, name = max(moves)
        found.set_storage_class(kind)
        yield Done(bucket, found.name, name, kind)


def _old_versions(
    backend: Any, bucket: str, versions: list[Any], rules: list[dict[str, Any]], now: datetime
) -> Iterable[Done]:
    """Versions that a later one has taken the place of: from then on their days count."""
    for old, successor in pairwise(versions):
        if not _is_object(old):
            continue
        tags = backend.tagger.get_tag_dict_for_resource(old.arn)
        for rule in rules:
            days = (rule.get("NoncurrentVersionExpiration") or {}).get("NoncurrentDays")
            due = days is not None and _is_due({"Days": days}, successor.last_modified, now)
            if due and matches(rule, old.name, old.size, tags):
                backend.delete_object(bucket, old.name, version_id=old.version_id)
                yield Done(bucket, old.name, str(rule.get("ID")), "expired")
                break


def matches(rule: Mapping[str, Any], key: str, size: int, tags: Mapping[str, str]) -> bool:
    """Whether the rule is about an object. All that the filter says has to hold."""
    scope = rule.get("Filter") or {}
    both = scope.get("And") or scope
    prefix = both.get("Prefix") or rule.get("Prefix") or ""
    wanted = {str(tag["Key"]): str(tag.get("Value") or "") for tag in many(both.get("Tag"))}
    above, below = both.get("ObjectSizeGreaterThan"), both.get("ObjectSizeLessThan")
    return (
        key.startswith(prefix)
        and all(tags.get(name) == value for name, value in wanted.items())
        and (above is None or size > int(above))
        and (below is None or size < int(below))
    )


def _is_due(action: Mapping[str, Any], since: datetime, now: datetime) -> bool:
    if action.get("Date"):
        return datetime.fromisoformat(str(action["Date"])) <= now
    if action.get("Days") is None:
        return False
    moment = since.replace(tzinfo=UTC) + timedelta(days=int(action["Days"]))
    midnight = datetime.combine(moment.date(), time(), UTC)
    return (midnight if midnight == moment else midnight + timedelta(days=1)) <= now


def _says_a_size(rule: Mapping[str, Any]) -> bool:
    scope = rule.get("Filter") or {}
    return any(name.startswith("ObjectSize") for name in (scope.get("And") or scope))


def _rank(kind: str | None) -> int:
    return _WATERFALL.index(kind) if kind in _WATERFALL else len(_WATERFALL)


def _is_object(found: Any) -> bool:
    """And not a delete marker."""
    return hasattr(found, "storage_class")
