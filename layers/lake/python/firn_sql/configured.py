"""The whole check of all pipelines of a firn.yaml, where people write it. DuckDB is loaded if there are some."""

from collections.abc import Iterator

from firn.config.model import Config, StreamConfig
from firn.config.pipelines import Pipeline
from firn.config.sql_text import SqlRefused
from firn.errors import ConfigError


def check_pipelines(config: Config, filename: str = "firn.yaml") -> None:
    """Raises ConfigError, a line for each pipeline whose SQL is refused: its line in the file, then that in the SQL."""
    lines = [
        f"{filename}:{pipeline.line}: streams.{stream.name}.pipelines.{pipeline.name}.{what}"
        for stream in config.streams.values()
        for pipeline in stream.pipelines
        for what in _problems(stream, pipeline)
    ]
    if lines:
        raise ConfigError("\n".join(lines))


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
