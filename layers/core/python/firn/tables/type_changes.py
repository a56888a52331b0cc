"""Columns that got another type: what the snapshot of such a commit says of them. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

TYPES = "firn.types"  # in a snapshot: the columns that got another type with it, as JSON {column: [from, to]}


@dataclass(frozen=True)
class TypeChange:
    """A column's type before and after, in Iceberg's words."""

    column: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.column}: {self.before} to {self.after}"


def summary(changes: Iterable[TypeChange]) -> dict[str, str]:
    """The property of the snapshot; {} for no changes."""
    told = {one.column: [one.before, one.after] for one in changes}
    return {TYPES: json.dumps(told, ensure_ascii=False)} if told else {}


def told_by(properties: Mapping[str, str]) -> tuple[TypeChange, ...]:
    """The changes that a snapshot's summary tells; none from what nobody of ours wrote."""
    try:
        told = json.loads(properties.get(TYPES, "{}"))
        return tuple(TypeChange(str(column), str(before), str(after)) for column, (before, after) in told.items())
    except (ValueError, TypeError, AttributeError):
        return ()
