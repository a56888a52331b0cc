"""The whole check of all SQL of a firn.yaml, where people write it. DuckDB is loaded if there is some."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from graphlib import TopologicalSorter

from firn.config.model import Config, StreamConfig
from firn.config.pipelines import Pipeline
from firn.config.sql_text import SqlRefused
from firn.errors import ConfigError


def check_sql(config: Config, filename: str = "firn.yaml") -> None:
    """Raises ConfigError, a line for each pipeline and view whose SQL is refused: its line in the file, then that in
    the SQL."""
    _raise_any(filename, (*_of_pipelines(config), *_of_views(config)))


def check_pipelines(config: Config, filename: str = "firn.yaml") -> None:
    """The same of pipelines alone."""
    _raise_any(filename, _of_pipelines(config))


def check_views(config: Config, filename: str = "firn.yaml") -> None:
    """The same of views alone."""
    _raise_any(filename, _of_views(config))


def _raise_any(filename: str, problems: Iterable[tuple[int, str]]) -> None:
    if lines := [f"{filename}:{line}: {what}" for line, what in problems]:
        raise ConfigError("\n".join(lines))


def _of_pipelines(config: Config) -> Iterator[tuple[int, str]]:
    for stream in config.streams.values():
        for pipeline in stream.pipelines:
            for what in _problems(stream, pipeline):
                yield pipeline.line, f"streams.{stream.name}.pipelines.{pipeline.name}.{what}"


def _of_views(config: Config) -> Iterator[tuple[int, str]]:
    views = {str(one.table): one for stream in config.streams.values() for one in stream.views}
    if not views:
        return
    from firn_sql.views.declared_tables import declared_tables
    from firn_sql.views.view_check import UNKNOWN, check_view

    # A table that is there already may have columns that no rule declares, though its schema is closed.
    tables = {name: replace(one, open=True) for name, one in declared_tables(config).items()}
    found: list[tuple[int, str]] = []
    reads = {name: [str(source) for source in one.sources if str(source) in views] for name, one in views.items()}
    for name in TopologicalSorter(reads).static_order():
        view = views[name]
        try:
            tables[name.lower()] = check_view(name, view.sql, view.sources, tables, full=view.full)
        except SqlRefused as refused:
            tables[name.lower()] = UNKNOWN
            found.append((view.line, f"views.{name}.sql: {refused}"))
    yield from sorted(found)


def _problems(stream: StreamConfig, pipeline: Pipeline) -> Iterator[str]:
    from firn_sql.check import check
    from firn_sql.mirrors import check_mirror, key_columns

    try:
        checked = check(pipeline.sql)
        if not pipeline.is_mirror or pipeline.rule is None:
            return
        base = stream.rule_for(pipeline.source)
        if base is None or base.key is None:
            check_mirror(checked)
            return
        names = tuple(key_columns(checked, base.key).values())
    except SqlRefused as refused:
        yield f"sql: {refused}"
        return
    if pipeline.rule.key not in (None, base.key, names):
        yield f"key: the SQL calls the key of {pipeline.source} [{', '.join(names)}]; write that, or leave the line out"
