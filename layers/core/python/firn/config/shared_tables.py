"""Which rules may share an Iceberg table. A mirror has one stream: the positions of two sources do not compare."""

from collections.abc import Iterable
from dataclasses import dataclass

from firn.config.model import TableRule
from firn.config.problems import Problems
from firn.errors import EventError


@dataclass(frozen=True)
class Placed:
    """A rule and where the file has it: `line`, dotted `path`. `pipeline`: it is of the target of a pipeline, and
    `setting` of it names that target."""

    stream: str
    rule: TableRule
    line: int
    path: str
    pipeline: bool = False
    setting: str = "to"

    @property
    def field(self) -> str:
        """The path of the setting that names the target."""
        return f"{self.path}.{self.setting}"


def check_targets(rules: Iterable[Placed], problems: Problems) -> None:
    """`rules`: in the file's order.

    Compares targets that are known here: those of exact rules, and those of patterns as far as their text tells. Two
    patterns that only meet on some source table are found by the commit job, which knows the table's stream.
    """
    first: dict[str, Placed] = {}
    for placed in rules:
        if placed.rule.ignore or not placed.rule.to:
            continue
        target = target_text(placed.rule)
        other = first.setdefault(target, placed)
        if other is not placed and (found := _conflict(placed, other, target)):
            problems.add(placed.line, *found)


def _conflict(placed: Placed, other: Placed, target: str) -> tuple[str, str] | None:
    """Why two rules can't share `target`: a path, and what to write."""
    rule, before = placed.rule, other.rule
    if rule.mode != before.mode:
        instead = "another target" if placed.pipeline else "another `to`"
        return (
            f"{placed.path}.mode",
            f"{target} is {rule.mode} here and {before.mode} on line {other.line}; write one mode, or {instead}",
        )
    if rule.keyed and (placed.pipeline or other.pipeline):
        return (
            placed.field,
            f"{target} is the mirror of line {other.line} already, and a pipeline's mirror has its table for itself; "
            "write another table",
        )
    if rule.keyed and placed.stream != other.stream:
        return (
            placed.field,
            f"{target} is already the mirror of stream {other.stream} (line {other.line}), and a mirror table has "
            "exactly one stream; write another `to`, or mode: append in both",
        )
    if rule.keyed and rule.key and before.key and rule.key != before.key:
        return (
            f"{placed.path}.key",
            f"{target} has the key [{', '.join(before.key)}] on line {other.line}; write the same key in both rules",
        )
    return None


def target_text(rule: TableRule) -> str:
    """A rule's target; of a pattern its `to`, with the schema that all its source tables have."""
    if not rule.is_pattern:
        try:
            return str(rule.target(rule.source))
        except EventError:
            return rule.to
    schema, dot, _ = rule.source.partition(".")
    return rule.to.replace("{schema}", schema) if dot and "*" not in schema else rule.to
