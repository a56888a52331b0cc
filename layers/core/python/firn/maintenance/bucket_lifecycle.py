"""The lifecycle rules that Firn wants of its buckets, beside those that others put there. Pure.

Rules are S3's own JSON (LifecycleRule of PutBucketLifecycleConfiguration). S3 takes all rules of a bucket at once, so
whoever changes one hands over all of them: those of others stay as they are. Firn's own have an ID that begins with
`firn-`, and a prefix that lies below Firn's: a second Firn in the same bucket has its own.

A bucket of the template has the rules that let staged things expire from the start; where a rule of somebody else
does that already, none of ours is put beside it (docs/adr/0020).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from firn.config.storage_classes import S3, SMALLEST_BYTES
from firn.errors import ConfigError
from firn.maintenance.tiering import TAG

Rule = Mapping[str, Any]

OWN: Final = "firn-"
MOST_RULES: Final = 1_000
"""S3 takes no more of a bucket: User Guide, "Lifecycle configuration elements"."""

LIVE_STAGING: Final = ("staged/", "epochs/", "cuts/", "config/", "quarantine/", "code/", "tier/")
"""What no rule may take away: only Firn knows when it may go."""
ARCHIVES: Final = frozenset(S3.archives)
"""Objects there have to be restored before they can be read: every query of their table would fail."""
# S3's API Reference, "Transition": to STANDARD_IA after 30 days in STANDARD at the earliest, to the others at once.
_LEAST_DAYS: Final = {"STANDARD_IA": 30}


@dataclass(frozen=True)
class StagingDays:
    """How many days what lies in the staging area is kept, by its folder. The same figures as the template's.

    SQS brings a message again for up to 14 days, and S3 removes at the midnight after: `receipts` outlive that, and not
    the staged log (docs/adr/0007). `replays` outlive `dead`, or a letter could be replayed twice. `reads` are summed up
    when tiering looks, once a day. `results` of queries are copies, and their links are good for an hour. `usage`: a
    year's accounts of tenants.
    """

    receipts: int = 14
    dead: int = 90
    replays: int = 400
    attempts: int = 30
    jobs: int = 30
    reads: int = 35
    results: int = 1
    usage: int = 400

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        if self.replays <= self.dead:
            raise ConfigError(
                f"replays are kept for {self.replays} days, dead letters for {self.dead}: keep them longer"
            )
        if self.receipts < 14:
            raise ConfigError(f"receipts are kept for {self.receipts} days, but SQS brings messages again for 14")


class TooManyRules(ConfigError):
    """The bucket would have more rules than S3 takes."""


def cold_rules(classes: Iterable[str], prefix: str = "") -> list[Rule]:
    """One rule a storage class that some table's policy names, however many tables. `prefix`: the warehouse's in its
    bucket, with its slash. Raises ConfigError for a class that reads would fail in."""
    return [_cold_rule(kind, prefix) for kind in sorted(set(classes))]


def _cold_rule(kind: str, prefix: str) -> Rule:
    S3.chosen(kind)
    scope = {"Prefix": prefix} if prefix else {}
    tags = [{"Key": TAG, "Value": kind}]
    return {
        "ID": f"{OWN}cold-{kind} {prefix}".strip(),
        "Status": "Enabled",
        "Filter": {"And": {**scope, "Tags": tags, "ObjectSizeGreaterThan": SMALLEST_BYTES}},
        "Transitions": [{"Days": _LEAST_DAYS.get(kind, 0), "StorageClass": kind}],
    }


def staging_rules(days: StagingDays | None = None, prefix: str = "") -> list[Rule]:
    """What expires in the staging area. `prefix`: its own in its bucket, with its slash."""
    return [
        {
            "ID": f"{OWN}{folder} {prefix}".strip(),
            "Status": "Enabled",
            "Filter": {"Prefix": f"{prefix}{folder}/"},
            "Expiration": {"Days": number},
        }
        for folder, number in asdict(days or StagingDays()).items()
    ]


def merged(current: Sequence[Rule], wanted: Sequence[Rule], prefixes: Collection[str]) -> list[Rule]:
    """All rules that the bucket should have: those of others untouched and in their order, then ours.

    `prefixes`: where Firn lies in the bucket; rules of ours elsewhere are another Firn's. An expiration that somebody
    else's rule has already said of the same prefix is left out. Raises TooManyRules.
    """
    others = [rule for rule in current if not is_own(rule, prefixes)]
    said = {prefix_of(rule) for rule in others if _is_on(rule) and _expires(rule) and not _is_narrowed(rule)}
    ours = [rule for rule in wanted if not (_expires(rule) and prefix_of(rule) in said)]
    if len(others) + len(ours) > MOST_RULES:
        raise TooManyRules(
            f"the bucket has {len(others)} lifecycle rules of others, and Firn needs {len(ours)} more: S3 takes "
            f"{MOST_RULES}; remove some that are not used"
        )
    taken = {str(rule.get("ID")) for rule in others}
    for rule in ours:
        if rule["ID"] in taken:
            raise ConfigError(f"the bucket has a lifecycle rule {rule['ID']} that is not Firn's: give it another ID")
    return [*others, *ours]


def is_own(rule: Rule, prefixes: Collection[str]) -> bool:
    """Whether this Firn put the rule."""
    return str(rule.get("ID", "")).startswith(OWN) and any(prefix_of(rule).startswith(one) for one in prefixes)


def dangers(rules: Iterable[Rule], live: Collection[str]) -> list[str]:
    """What rules would take away below the prefixes `live`, or put where it can't be read: a sentence a rule."""
    found = []
    for rule in rules:
        prefix, name = prefix_of(rule), rule.get("ID", "without an ID")
        hit = sorted(one for one in live if prefix.startswith(one) or one.startswith(prefix))
        archives = sorted(ARCHIVES & {str(one.get("StorageClass")) for one in rule.get("Transitions") or ()})
        if not hit or not _is_on(rule) or not (_expires(rule) or archives):
            continue
        what = "removes objects" if _expires(rule) else f"moves objects to {archives[0]}, where no read finds them,"
        below = ", ".join(one or "everything" for one in hit)
        found.append(f"the lifecycle rule {name} {what} below {below}: tables or the log would be lost; remove it")
    return found


def prefix_of(rule: Rule) -> str:
    """The prefix of keys that the rule is about; "" for all."""
    scope = rule.get("Filter") or {}
    found = (scope.get("And") or {}).get("Prefix", scope.get("Prefix", rule.get("Prefix")))
    return str(found or "")


def same(first: Sequence[Rule], second: Sequence[Rule]) -> bool:
    """Whether two sets of rules mean the same: S3 keeps no order, and answers an empty prefix in several ways."""
    return _by_id(first) == _by_id(second)


def _by_id(rules: Sequence[Rule]) -> dict[str, dict[str, Any]]:
    plain = {}
    for number, rule in enumerate(rules):
        kept = {key: value for key, value in rule.items() if key not in ("Filter", "Prefix")}
        scope = dict(rule.get("Filter") or {})
        if "And" in scope:
            both = dict(scope["And"])
            both["Tags"] = sorted(both.get("Tags") or (), key=lambda tag: str(tag["Key"]))
            both.setdefault("Prefix", "")
            scope["And"] = both
        else:
            scope.setdefault("Prefix", rule.get("Prefix", ""))
        plain[str(rule.get("ID", f"#{number}"))] = {**kept, "Filter": scope}
    return plain


def _is_on(rule: Rule) -> bool:
    return rule.get("Status") == "Enabled"


def _expires(rule: Rule) -> bool:
    """Whether live objects go: ExpiredObjectDeleteMarker takes only what is left of deleted ones."""
    expiration = rule.get("Expiration") or {}
    return "Days" in expiration or "Date" in expiration


def _is_narrowed(rule: Rule) -> bool:
    """Whether the rule is about some of the objects below its prefix only."""
    scope = rule.get("Filter") or {}
    return bool(set(scope) - {"Prefix"}) or "And" in scope
