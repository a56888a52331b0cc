"""The reference of metrics, from the registry that prints them."""

from typing import Final

from firn.metrics import Metric

_HEAD: Final = """# Metrics

Generated from the registry `firn.metrics`. Functions and jobs print them as log lines in CloudWatch's embedded metric
format (namespace `Firn`); an embedded stack shows the same at `/metrics` for Prometheus.
[operations.md](../operations.md) says what to look at and what to do when an alarm goes off.

A *counter* adds up; of a *gauge* the newest value counts.

| metric | unit | kind | what it says | shown in |
|---|---|---|---|---|
"""


def page() -> str:
    """The page's Markdown: a line for each metric."""
    return _HEAD + "".join(
        f"| `{one.value}` | {one.unit} | {one.kind} | {one.says} | {one.shown or ''} |\n" for one in Metric
    )
