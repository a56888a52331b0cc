"""Further tables of a rule, `to: [web.clicks, web.clicks_too]`: each gets all of the source table by a pipeline.

So it is a table like any other of a pipeline: a mirror rests on the first table, and an append reaches back as far as
the log when it is new (docs/adr/0056-several-targets.md).
"""

from collections.abc import Iterator
from dataclasses import replace

from firn.config.model import StreamConfig, TableRule
from firn.config.pipelines import Pipeline
from firn.config.problems import Section
from firn.config.shared_tables import Placed
from firn.errors import EventError


def read_further_targets(section: Section, settings: StreamConfig, placed: list[Placed]) -> tuple[Pipeline, ...]:
    """The pipelines that the rules of a stream make, by the file's order; `placed` gets the rules of their tables.
    `section`: `tables` of the stream."""
    found = []
    for rule in settings.tables:
        below = section.section(rule.source)
        for pipeline in _pipelines(rule, below.line_of("to")):
            found.append(pipeline)
            if pipeline.rule is not None:
                path = section.below(rule.source)
                placed.append(Placed(settings.name, pipeline.rule, pipeline.line, path, pipeline=True, setting="to"))
    return tuple(found)


def _pipelines(rule: TableRule, line: int) -> Iterator[Pipeline]:
    for to in rule.also:
        try:
            target = replace(rule, to=to, also=()).target(rule.source)
        except EventError:  # noted already, where `to` was read
            continue
        sql = f"INSERT INTO {_quoted(str(target))} SELECT * FROM {_quoted(rule.source)}"  # noqa: S608 (quoted)
        # How rows are read is the first table's matter, and the pipeline's source has it.
        own = replace(rule, to=str(target), also=(), columns={}, renames={}, schema=None)
        # A dot is in no name that people give a pipeline.
        yield Pipeline(str(target), sql, rule.source, own, None, line=line)


def _quoted(name: str) -> str:
    schema, dot, table = name.partition(".")
    return ".".join('"' + part.replace('"', '""') + '"' for part in ((schema, table) if dot else (name,)))
