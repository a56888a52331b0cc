"""Whether the tables that pipelines join are such as Firn keeps by key: mirrors of any stream, or views."""

from collections.abc import Iterator, Mapping

from firn.config.model import StreamConfig, TableRule
from firn.config.names import TableName
from firn.config.pipelines import Pipeline
from firn.config.problems import Section

_INSTEAD = "write a mirror or a view of this file"


def check_joins(section: Section, streams: Mapping[str, StreamConfig]) -> None:
    """Notes joins with tables that nothing of this file keeps so. `section`: `streams` of the file; `streams`: with
    their views."""
    views = {view.table for stream in streams.values() for view in stream.views}
    for stream in streams.values():
        for pipeline in stream.pipelines:
            for table in pipeline.joins:
                if table not in views and (why := _why(table, streams)) is not None:
                    below = section.section(stream.name).section("pipelines").section(pipeline.name)
                    below.note("sql", f"joins {table}, {why}; {_INSTEAD}")


def _why(table: TableName, streams: Mapping[str, StreamConfig]) -> str | None:
    feeding = [
        rule for stream in streams.values() for rule in _rules(stream.tables, stream.pipelines) if rule.feeds(table)
    ]
    if any(rule.keyed for rule in feeding):
        return None
    return "which is mode: append" if feeding else "which no rule, pipeline or view makes"


def _rules(tables: tuple[TableRule, ...], pipelines: tuple[Pipeline, ...]) -> Iterator[TableRule]:
    yield from (rule for rule in tables if not rule.ignore)
    yield from (one.rule for one in pipelines if one.rule is not None)
