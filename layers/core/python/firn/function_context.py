"""What a function keeps open between its invocations: settings, store, configuration. The edge, in one place."""

from functools import cache
from typing import NamedTuple

from firn.log.backlog_gate import Gate
from firn.log.published_configs import CurrentConfig
from firn.log.store import Store, open_store
from firn.settings import Settings


class Staging(NamedTuple):
    """The staging area as a function sees it."""

    settings: Settings
    store: Store
    config: CurrentConfig
    gate: Gate


@cache
def staging() -> Staging:
    """Opened at the first call, from the environment; kept for the life of the process.

    Raises ConfigError if the environment is incomplete, StorageUnavailable if the store's URL can't be opened.
    """
    settings = Settings.from_environment()
    store = open_store(settings.staging)
    return Staging(settings, store, CurrentConfig(store), Gate(store))
