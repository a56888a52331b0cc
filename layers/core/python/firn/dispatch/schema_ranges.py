"""Where a range of epochs ends because the schemas of its stream change: a job judges all rows of its range by one.

Else what becomes of a row would depend on which epochs are committed together.
"""

from collections.abc import Mapping, Sequence

from firn.config.model import StreamConfig
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
    """The versions of a stream's schemas by rule."""
    return {rule.source: rule.schema.version for rule in settings.tables if rule.schema is not None}
