"""Which rules may share an Iceberg table. A mirror has one stream: the positions of two sources do not compare."""

from collections.abc import Iterable

from firn.config.model import TableRule
from firn.config.problems import Problems
from firn.errors import EventError


def check_targets(rules: Iterable[tuple[str, TableRule, int, str]], problems: Problems) -> None:
    """`rules`: (stream, rule, line, dotted path) in the file's order.

    Compares targets that are known here: those of exact rules, and those of patterns as far as their text tells. Two
    patterns that only meet on some source table are found by the commit job, which knows the table's stream.
    """
    first: dict[str, tuple[str, TableRule, int]] = {}
    for stream, rule, line, path in rules:
        if rule.ignore or not rule.to:
            continue
        target = _target(rule)
        if target not in first:
            first[target] = (stream, rule, line)
            continue
        other_stream, other, other_line = first[target]
        if rule.mode != other.mode:
            problems.add(
                line,
                f"{path}.mode",
                f"{target} is {rule.mode} here and {other.mode} on line {other_line}; write one mode, or another `to`",
            )
        elif rule.keyed and stream != other_stream:
            problems.add(
                line,
                f"{path}.to",
                f"{target} is already the mirror of stream {other_stream} (line {other_line}), and a mirror table has "
                "exactly one stream; write another `to`, or mode: append in both",
            )
        elif rule.keyed and rule.key and other.key and rule.key != other.key:
            problems.add(
                line,
                f"{path}.key",
                f"{target} has the key [{', '.join(other.key)}] on line {other_line}; write the same key in both rules",
            )


def _target(rule: TableRule) -> str:
    if not rule.is_pattern:
        try:
            return str(rule.target(rule.source))
        except EventError:
            return rule.to
    schema, dot, _ = rule.source.partition(".")
    return rule.to.replace("{schema}", schema) if dot and "*" not in schema else rule.to
