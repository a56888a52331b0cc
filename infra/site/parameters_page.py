"""Two references from the template: its parameters, and the limits of what Firn takes."""

from typing import Any, Final

import yaml

from firn.changes.envelopes.limits import EventLimits
from firn.config.model import BacklogLimit, CommitPolicy, StreamConfig
from firn.config.quantities import MOST_OF_A_BODY
from firn.ingest.bodies import Limits
from firn.settings import Settings
from infra.site.source_pages import ROOT

_PARAMETERS: Final = """# Parameters of a deployment

Generated from `template.yaml`. Set them by `sam deploy --parameter-overrides Name=value`, or in `samconfig.toml`.
[deploy-aws.md](../deploy-aws.md).

| parameter | default | what |
|---|---|---|
"""
_LIMITS: Final = """# Limits

Generated from the code's own defaults. Where a limit can be set, the setting stands beside it:
[limits of a request](../configuration.md#limits-of-a-request) says what is answered over each.

| what | limit | set by |
|---|---|---|
"""


class _Template(yaml.SafeLoader):
    """YAML with CloudFormation's short forms, of which nothing is needed here."""


_Template.add_multi_constructor("!", lambda *_: None)


def _parameters() -> dict[str, dict[str, Any]]:
    text = (ROOT / "template.yaml").read_text()
    found: dict[str, dict[str, Any]] = yaml.load(text, _Template)["Parameters"]  # noqa: S506 (a SafeLoader)
    return found


def parameters_page() -> str:
    """The page of the template's parameters."""
    return _PARAMETERS + "".join(
        f"| `{name}` | {_default(one.get('Default'))} | {_cell(one.get('Description', ''))} |\n"
        for name, one in _parameters().items()
    )


def _default(value: Any) -> str:
    if value is None:
        return "required"
    return f"`{value}`" if value != "" else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def limits_page() -> str:
    """The page of limits."""
    body, events, stream = Limits(), EventLimits(), StreamConfig("", ())
    backlog, commit = BacklogLimit(), CommitPolicy()
    rows = [
        ("bytes of a request as sent", body.sent, "`MaxBodyBytes`; `max_body` of a stream"),
        ("the same, at most: what fits a Lambda function's 6 MB", MOST_OF_A_BODY, ""),
        ("bytes of a request once inflated", body.inflated, "`MaxInflatedBytes`"),
        ("times its bytes that a request may inflate to", body.ratio, "`MaxInflatedRatio`"),
        ("gzip members or zstd frames of a request", body.members, "`MaxMembers`"),
        ("events of a request, all of one shape", events.events, "`MaxEvents`"),
        ("events of a request that are read one by one", events.alone, "`MaxEventsAlone`"),
        ("source tables of a request", events.tables, "`MaxTables`"),
        ("columns of a large row image", events.columns, "`MaxColumns`"),
        ("bytes of one event", events.size, "`MaxEventBytes`"),
        ("tables that a stream's patterns may make", stream.max_tables, "`max_tables` of a stream"),
        ("staged bytes that may wait for their commit", backlog.bytes, "`backlog.bytes` of a stream"),
        ("staged bytes of one epoch", commit.caps.bytes, "`commit.max_size` of a stream"),
        ("changes of one epoch", commit.caps.events, "`commit.max_events` of a stream"),
        ("rows of a query's result over HTTP", Settings("").query_rows, "`QueryRows`"),
        ("seconds of a query over HTTP", Settings("").query_seconds, "`QuerySeconds`"),
        ("CPU seconds of a query over HTTP", Settings("").query_cpu_seconds, "`FIRN_QUERY_CPU_SECONDS`"),
    ]
    return _LIMITS + "".join(f"| {what} | {limit:,} | {by} |\n" for what, limit, by in rows)
