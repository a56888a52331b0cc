"""The versions of the maps of sharded tables (docs/adr/0104-shards.md): objects that are created if absent and never
changed. The first follows from firn.yaml and has none. Each epoch names the one that was the newest when it was sealed,
and its rows are under that."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from firn.config.names import TableName
from firn.errors import TerminalError
from firn.log import layout
from firn.log.epochs import Epoch
from firn.log.store import Store, get, paths, put_if_absent

if TYPE_CHECKING:
    from firn.config.map_document import MapVersion
    from firn.config.model import Config, StreamConfig
    from firn.config.sharding import Sharding

_PREFIX: Final = "shards"  # /{stream}/{slug of the rest, with a dot for its slash}/{version}.json


def sharded(settings: "StreamConfig") -> "StreamConfig | None":
    """A stream that has tables of several shards; None of another."""
    return settings if any(rule.shard is not None for rule in settings.tables) else None


def newest(store: Store, settings: "StreamConfig") -> dict[str, int]:
    """The number of the newest version of each sharded table of a stream that has more than the first, by its rest's
    name. Raises StorageUnavailable."""
    rests = {_folder(rule.to): rule.to for rule in settings.tables if rule.shard is not None}
    if not rests:
        return {}
    prefix, found = f"{_PREFIX}/{settings.name}", dict[str, int]()
    for path in paths(store, prefix):
        folder, _, _ = path.removeprefix(f"{prefix}/").partition("/")
        number = layout.number_of(path)
        if folder in rests and number is not None and path == _path(settings.name, rests[folder], number):
            found[rests[folder]] = max(number, found.get(rests[folder], 1))
    return found


def read(store: Store, stream: str, table: str, of: "Sharding", number: int) -> "MapVersion":
    """A version. `table`: the rest's; `of`: what its rule says. Raises StorageUnavailable, and TerminalError for one
    that is not there, or is none of this rule's."""
    from firn.config.map_document import MapVersion, decode  # with the hashes: few streams have shards

    if number <= 1:
        return MapVersion(of.map)
    path = _path(stream, table, number)
    data = get(store, path)
    if data is None:
        raise TerminalError(
            f"{table} has a version {number} of the map of its shards, and {path} is not in the staging area: put it "
            "back, from the bucket's versions or a backup"
        )
    try:
        return decode(data, of, number)
    except ValueError as error:
        raise TerminalError(f"{path} {error}; put it back as it was, from the bucket's versions or a backup") from error


def ever(store: Store, settings: "StreamConfig") -> frozenset[str]:
    """The tables that are or were shards of a stream, the rests too, as far as they have more than a first map. Raises
    as `read`."""
    versions, found = newest(store, settings), set[str]()
    for rule in settings.tables:
        if rule.shard is not None and rule.to in versions:
            found |= read(store, settings.name, rule.to, rule.shard, versions[rule.to]).ever
    return frozenset(found)


def of_others(store: Store, config: "Config", but: str) -> dict[str, frozenset[str]]:
    """The same of all streams, by each rest's name, without the table of the rest `but`."""
    return {
        rule.to: ever(store, replace(stream, tables=(rule,)))
        for stream in config.streams.values() for rule in stream.tables if rule.shard is not None and rule.to != but
    }  # fmt: skip


def may_serve(settings: "StreamConfig | None", begun: Epoch, other: Epoch) -> bool:
    """Whether a job that was started for the epoch `begun` may touch what `other`, of a stream with these settings, is
    brought to: which tables it may was fixed by then (runs/session_policy.py), but for tenants that appear."""
    shards = ((rule.to, rule.shard) for rule in (settings.tables if settings else ()) if rule.shard is not None)
    return all(one.most or begun.shards.get(to, 1) == other.shards.get(to, 1) for to, one in shards)


def put(store: Store, stream: str, table: str, made: "MapVersion") -> bool:
    """A new version. -> whether it is there now as it was meant: else somebody has made another one of its number.
    Raises StorageUnavailable, UnknownOutcome."""
    from firn.config.map_document import encode

    return put_if_absent(store, _path(stream, table, made.number), encode(made))


def under(sealed: Mapping[int, Epoch]) -> dict[int, Epoch]:
    """Epochs in a row, each with the versions that it is under: whoever seals late may name an older one than the epoch
    before, and no map comes back."""
    versions, found = dict[str, int](), dict[int, Epoch]()
    for n in sorted(sealed):
        epoch = sealed[n]
        versions = versions | {table: max(one, versions.get(table, 1)) for table, one in epoch.shards.items()}
        found[n] = epoch if epoch.shards == versions else msgspec.structs.replace(epoch, shards=versions)
    return found


def _path(stream: str, table: str, number: int) -> str:
    return f"{_PREFIX}/{stream}/{_folder(table)}/{number:020d}.json"


def _folder(table: str) -> str:
    return TableName.parse(table).slug.replace("/", ".")
