"""`alerts:` of firn.yaml in JSON Schema."""

from typing import get_args

from firn.config.alerts import AlertOn
from firn_cli.json_shapes import NAME, Schema, named, section, text, texts, whole, words


def alerts() -> Schema:
    """The section."""
    target = section(
        "A webhook or an SNS topic.",
        {
            "webhook": text("Where a secret holds its URL: secretsmanager:NAME, ssm:/NAME or file:/PATH."),
            "secret": text("Where the webhook's signing key is, likewise."),
            "sns": text("The ARN of an SNS topic.", None),
        },
    )
    rule = section(
        "What begins an alert.",
        {
            "on": words("What is watched.", get_args(AlertOn), None),
            "over": text("freshness: how long a change may wait; slot_lag: how much WAL.", "15m, 1GB"),
            "at_least": whole("dead_letters: how many wait for a replay.", 1, 10**9, "1"),
            "tables": texts("freshness: namespace.table, an alert each; whole streams if left out.", null=True),
            "streams": texts("The streams that are watched; all if left out.", null=True),
            "to": texts("The targets that are told; all if left out.", null=True),
        },
        required=["on"],
    )
    return section(
        "Who is told about what.",
        {
            "targets": named("Where messages go.", target, NAME),
            "rules": named("What they are about.", rule, NAME),
        },
    )
