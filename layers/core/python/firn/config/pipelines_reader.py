"""`pipelines:` of a stream; every problem is noted. What else the SQL may say, firn_sql.check checks."""

import re
from typing import Final

from firn.config.file_sinks_reader import read_files
from firn.config.maintenance import Care
from firn.config.model import StreamConfig, TableRule
from firn.config.modes import KEYLESS, MODES, fed
from firn.config.names import TableName
from firn.config.pipelines import Pipeline
from firn.config.problems import Section, shown
from firn.config.rule_lookup import SourceNames
from firn.config.shared_tables import Placed
from firn.config.sql_text import Names, names
from firn.config.table_rules_reader import LATER, read_key, read_sql_table, unfit_names
from firn.errors import EventError

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_TABLE_KEYS: Final = (
    "mode", "key", "partition_by", "write", "bloom", "compression", "compression_level", "target_file_size",
    "properties", "format", "care",
)  # fmt: skip
KEYS: Final = ("sql", *_TABLE_KEYS, "files")
_MOVED: Final = {
    "to": "is in the SQL; write sql: INSERT INTO namespace.table SELECT …, or files: {to: …}",
    "from": "is in the SQL; write sql: … SELECT … FROM source",
    "query": "is not a setting; write sql",
}


def read_pipelines(section: Section, settings: StreamConfig, placed: list[Placed], care: Care) -> tuple[Pipeline, ...]:
    """The pipelines of a stream, in the file's order; `placed` gets the rules of their tables.

    settings  the stream with its rules
    """
    found = []
    for name in section.names:
        if not _NAME.fullmatch(name):
            section.note(name, "is not a name of a pipeline; write a-z, 0-9, _ and - only, at most 63 of them")
        pipeline = _pipeline(name, section.section(name), settings, care)
        if pipeline is None:
            continue
        found.append(pipeline)
        if pipeline.rule is not None:
            line = section.section(name).line_of("sql")
            placed.append(Placed(settings.name, pipeline.rule, line, section.below(name), pipeline=True, setting="sql"))
    return tuple(found)


def _pipeline(name: str, section: Section, settings: StreamConfig, care: Care) -> Pipeline | None:
    section.allow_only(KEYS, _MOVED)
    sql = section.text("sql", "INSERT INTO namespace.table SELECT … FROM source")
    if sql is None:
        if not section.has("sql"):
            section.note("sql", "is missing; write sql: INSERT INTO namespace.table SELECT … FROM source")
        return None
    try:
        told = names(sql)
        source = _source(told.source, settings)
        joins = tuple(TableName(*one) for one in told.joins)
    except (ValueError, EventError) as error:  # SqlRefused among them
        section.note("sql", str(error))
        return None
    has_files = section.has("files")
    if told.target is not None and has_files:
        section.note("files", f"is a second target beside {'.'.join(told.target)}; take INSERT INTO out, or files")
    elif told.target is None and not has_files:
        section.note("sql", "names no target; write INSERT INTO namespace.table SELECT …, or files: {to: …} beside it")
    rule = _rule(source, told, section, settings, care)
    if rule is None and told.target is None and has_files:
        for key in _TABLE_KEYS:
            if section.has(key):
                section.note(key, "is for a table, and the target of this pipeline is files; leave it out")
    files = read_files(section.section("files")) if has_files else None
    if joins and (files is not None or (rule is not None and rule.keyed)):
        what = "a mirror" if files is None else "files"
        section.note(
            "sql",
            f"joins {joins[0]}, and only mode: append takes rows as the table is when they are committed, not {what}; "
            "write INSERT INTO with mode: append, or a view (views:), which stays right when the table changes",
        )
    return Pipeline(name, sql, source, rule, files, joins, section.line_of("sql"))


def _source(written: str, settings: StreamConfig) -> str:
    """What the rules call the table that FROM names. Raises EventError("ambiguous_table")."""
    rule = settings.rule_for(written)
    if rule is not None:
        return rule.source_of(written)
    return SourceNames(rule.source for rule in settings.tables if not rule.is_pattern).find(written) or written


def _rule(source: str, told: Names, section: Section, settings: StreamConfig, care: Care) -> TableRule | None:
    if told.target is None:
        return None
    mode = section.choice("mode", fed(), "mode", KEYLESS, LATER)
    to = _to(told.target, mode, section)
    key = read_key(section)
    if MODES[mode].keyed:
        key = _mirrored_key(source, key, section, settings)
    return read_sql_table(section, care, source, to, mode, key)


def _to(target: tuple[str, str], mode: str, section: Section) -> str:
    to = ".".join(target)
    if "{" in to or "}" in to:
        section.note("sql", f"{shown(to)} holds a placeholder; write one table, a pipeline has no other")
        return ""
    try:
        TableName(*target)
    except ValueError as error:
        section.note("sql", f"{error}")
        return ""
    for why in () if section.problems.published else unfit_names(to, *target, mode):
        section.note("sql", why)
    return to


def _mirrored_key(
    source: str, key: tuple[str, ...] | None, section: Section, settings: StreamConfig
) -> tuple[str, ...] | None:
    """The key of a mirror, by the target's names: its base's own if nothing else is said."""
    base = settings.rule_for(source)
    if base is None or not base.keyed:
        is_there = "no rule makes a table of it" if base is None else f"its own table {base.to} is mode: append"
        section.note(
            "mode",
            f"a mirror rests on the mirror of its source table {shown(source)}, and {is_there}; "
            f"write tables: {{{source}: {{to: …}}}} with mode: mirror, or mode: append here",
        )
        return key
    if key is not None and base.key is not None and len(key) != len(base.key):
        section.note(
            "key",
            f"has {len(key)} columns, and the key of {shown(source)} is [{', '.join(base.key)}]; write those "
            "columns, by the names that the SQL gives them",
        )
    return key if key is not None else base.key
