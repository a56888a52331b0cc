"""Where a range of epochs ends because the schemas of its stream change, or the defaults that its columns are declared
with: a job judges all rows of its range by one.

Else what becomes of a row would depend on which epochs are committed together.
"""

from collections.abc import Mapping, Sequence

from firn.config.model import StreamConfig, TableRule
from firn.errors import ConfigError
from firn.log import published_configs
from firn.log.epochs import Epoch
from firn.log.store import Store


def of_one_schema(store: Store, stream: str, pending: Sequence[Epoch]) -> Sequence[Epoch]:
    """The first of these epochs, up to where another configuration gives the stream other schemas. Raises
    StorageUnavailable."""
    if len({epoch.config for epoch in pending}) < 2:
        return pending
    known: dict[str, Mapping[str, str] | None] = {}
    for place, epoch in enumerate(pending):
        if epoch.config not in known:
            known[epoch.config] = _schemas(store, stream, epoch.config)
        if known[epoch.config] != known[pending[0].config]:
            return pending[:place]
    return pending


def _schemas(store: Store, stream: str, sha: str) -> Mapping[str, str] | None:
    """The versions of the schemas by rule; None of a configuration that is not there: its epochs can't be judged."""
    try:
        settings = published_configs.load(store, sha).streams.get(stream)
    except ConfigError:
        return None
    return {} if settings is None else versions(settings)


def versions(settings: StreamConfig) -> Mapping[str, str]:
    """What tells a stream's schemas, and the defaults of declared columns, from others, by rule."""
    return {rule.source: told for rule in settings.tables if (told := _version(rule))}


def _version(rule: TableRule) -> str:
    defaults = sorted((name, one.default) for name, one in rule.columns.items() if one.default is not None)
    schema = "" if rule.schema is None else rule.schema.version
    return f"{schema} {defaults}" if defaults else schema
