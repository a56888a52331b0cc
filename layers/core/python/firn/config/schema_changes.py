"""What a schema may become: whatever its table can follow. Its types grow as columns do, and never shrink."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from firn.changes.decode.texts import changes_form
from firn.changes.decode.types import Type, promotable, storable, widen
from firn.config.model import Config, StreamConfig, TableRule
from firn.errors import ConfigError

if TYPE_CHECKING:
    from firn.config.sharding import Sharding


def check_schemas(old: Config, new: Config, filename: str) -> None:
    """Raises ConfigError that names each field whose new type does not hold what the old one held, and tables that
    would be sharded otherwise."""
    both = [(old.streams[name], stream) for name, stream in new.streams.items() if name in old.streams]
    narrowed = (line for was, now in both for line in _narrowed(was, now))
    if lines := [f"{filename}: {line}" for line in (*narrowed, *_sharded(old, new))]:
        raise ConfigError("\n".join(lines))


def _narrowed(old: StreamConfig, new: StreamConfig) -> Iterator[str]:
    before = {rule.source: rule for rule in old.tables if rule.schema is not None}
    for rule in new.tables:
        was = before.get(rule.source)
        if was is None or was.schema is None or rule.schema is None or was.to != rule.to:
            continue  # another table, whose columns nobody has filled
        types = {field.name: field.type for field in was.schema.fields}
        for field in rule.schema.fields:
            if field.name in types and not _holds(field.type, types[field.name]):
                where = f"streams.{new.name}.tables.{rule.source}.schema: {field.name}"
                yield (
                    f"{where} was {types[field.name]} and would be {field.type}, which does not hold what the table "
                    f"may have; write {types[field.name]} or a wider type, or send the values under another name"
                )


def _sharded(old: Config, new: Config) -> Iterator[str]:
    """How a table is sharded changes by `firn shards` alone, whichever of its tables or streams another rule names: its
    rows have to go over, which no published file does."""
    before = {table: rule for stream in old.streams.values() for rule in stream.tables for table in _tables(rule)}
    for stream in new.streams.values():
        for rule in stream.tables:
            met = next((before[table] for table in _tables(rule) if table in before), None)
            if met is None:
                continue  # other tables
            was, now = met.shard, rule.shard
            if was is None or now is None:
                same = was is now
            else:
                promoted = was.kind is not None and now.kind is not None and promotable(was.kind, now.kind)
                same = promoted and _as_begun(was) == _as_begun(now)
            if not same:
                where = f"streams.{stream.name}.tables.{rule.source}.shard"
                if was is None or now is None:
                    yield f"{where}: whether {met.to} is sharded is not changed; write it as it was, or another `to`"
                    continue
                yield (
                    f"{where}: how {met.to} is sharded does not change by firn.yaml, which says how it began; write it "
                    f"as it was and run firn shards split, merge or move {met.to}, or write another `to`"
                )


def _as_begun(shards: "Sharding") -> "Sharding":
    """Without what may change: where tenants will lie that come later may be said when they come."""
    first = {name: where for name, where in shards.warehouses.items() if name in shards.shards}
    return replace(shards, kind=None, most=0, whole="", warehouses=first)


def _tables(rule: TableRule) -> tuple[str, ...]:
    """That a rule of a source fills, as far as it names them itself."""
    if rule.ignore or not rule.source:
        return ()
    return (rule.to,) if rule.shard is None else tuple(map(str, rule.shard.tables.values()))


def _holds(new: Type, old: Type) -> bool:
    there, then = storable(old), storable(new)
    return (promotable(there, then) or storable(widen(old, new)) == then) and not _stuck(there, then)


def _stuck(there: Type, then: Type) -> bool:
    """Whether values would have to be rewritten that nothing rewrites: those of structs in lists."""
    if there.element is not None and then.element is not None:
        in_structs = there.holds("struct") and (not promotable(there, then) or changes_form(there, then))
        return in_structs and then.holds("struct")
    wanted = dict(then.fields)
    return any(_stuck(part, wanted[name]) for name, part in there.fields if name in wanted)
