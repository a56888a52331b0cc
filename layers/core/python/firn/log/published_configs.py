"""The configuration in storage: `config/{sha}.yaml`, and a pointer to it. Adding a table needs no deploy."""

import time
from collections.abc import Callable
from typing import Final

import msgspec

from firn.config.model import Config
from firn.errors import ConfigError
from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store, get, put, put_if_absent

CACHE_SECONDS: Final = 2.0


class _Pointer(msgspec.Struct, frozen=True):
    format: int
    sha: str


_decode: Final = msgspec.json.Decoder(_Pointer).decode


def publish(
    store: Store, text: str, filename: str = "firn.yaml", check: Callable[[Config, str], None] | None = None
) -> Config:
    """Check `text`, store it under its hash and make it the current configuration. A schema follows the one before it
    as far as its table can. Results that readers of some tables asked for are removed: they may be nobody's now.

    `check` is asked about what was read of the file of that name too: firn_sql.configured.check_sql, where people
    write it. Raises ConfigError (nothing is stored then), StorageUnavailable, UnknownOutcome.
    """
    from firn.config.reader import parse
    from firn.config.schema_changes import check_schemas
    from firn.log.scoped_results import remove_scoped

    config = parse(text, filename)
    if check is not None:
        check(config, filename)
    if (old := find(store)) is not None:
        check_schemas(old, config, filename)
    put_if_absent(store, layout.config_path(config.sha), text.encode())
    put(store, layout.CONFIG_POINTER, msgspec.json.encode(_Pointer(FORMAT, config.sha)))
    remove_scoped(store)
    return config


def load(store: Store, sha: str) -> Config:
    """The configuration `sha`, as an epoch names it. Raises ConfigError if it is not there, StorageUnavailable."""
    from firn.config.reader import parse  # with PyYAML, which no cold start needs before it has a configuration

    path = layout.config_path(sha)
    data = get(store, path)
    if data is None:
        raise ConfigError(f"{path} is not in the staging store; publish the configuration again")
    return parse(data.decode(), path, published=True)


def current_sha(store: Store) -> str:
    """The hash of the current configuration. Raises ConfigError if none was published, StorageUnavailable."""
    data = get(store, layout.CONFIG_POINTER)
    if data is None:
        raise ConfigError("no configuration is published; write firn.yaml (`firn init`) and start or deploy with it")
    return _decode(data).sha


def current(store: Store) -> Config:
    """The current configuration. Raises ConfigError if none was published, StorageUnavailable."""
    return load(store, current_sha(store))


def is_current(store: Store, sha: str) -> bool:
    """Whether no other configuration than `sha` is published. Raises StorageUnavailable."""
    data = get(store, layout.CONFIG_POINTER)
    return data is None or _decode(data).sha == sha


def wait_until_taken_up(sleep: Callable[[float], None] = time.sleep) -> None:
    """Returns when every process has looked at the pointer since it was written: from then on no event is accepted
    under the configuration before, so that no row of a table that is new to it is left out as one of no rule."""
    sleep(CACHE_SECONDS)


def find(store: Store) -> Config | None:
    """The current configuration; None if none is published, or none that can be read. Raises StorageUnavailable."""
    try:
        return current(store)
    except ConfigError:
        return None


class CurrentConfig:
    """The current configuration of a store, looked at again after `seconds`, parsed again only when it has changed."""

    def __init__(
        self, store: Store, seconds: float = CACHE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._seconds, self._clock = store, seconds, clock
        self._config: Config | None = None
        self._looked = 0.0

    def __call__(self) -> Config:
        """The configuration. Raises ConfigError, StorageUnavailable."""
        now = self._clock()
        if self._config is None or now - self._looked >= self._seconds:
            sha = current_sha(self._store)
            if self._config is None or self._config.sha != sha:
                self._config = load(self._store, sha)
            self._looked = now
        return self._config
