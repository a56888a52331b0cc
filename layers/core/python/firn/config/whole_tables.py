"""Tables of several shards by the names under which each is read as one (docs/adr/0110-shards-as-one-table.md)."""

from dataclasses import dataclass

from firn.config.model import Config
from firn.config.names import TableName


@dataclass(frozen=True)
class Whole:
    """All shards as one table. It is no table of the catalog: its columns and its moments are those of the rest.

    name    what it is read as
    rest    the shard that leads
    shards  the tables of all, the rest's among them
    """

    name: TableName
    rest: TableName
    shards: tuple[TableName, ...]


def whole_tables(config: Config) -> dict[tuple[str, ...], Whole]:
    """All of a configuration, by their identifiers."""
    found: dict[tuple[str, ...], Whole] = {}
    for stream in config.streams.values():
        for shards in (rule.shard for rule in stream.tables if rule.shard is not None and not rule.ignore):
            name = shards.whole_of(stream.name)
            found[name.identifier] = Whole(name, shards.tables[shards.rest], tuple(shards.tables.values()))
    return found
