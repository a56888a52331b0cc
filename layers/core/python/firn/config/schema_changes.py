"""What a schema may become: whatever its table can follow. Its types grow as columns do, and never shrink."""

from collections.abc import Iterator
from dataclasses import replace

from firn.changes.decode.texts import changes_form
from firn.changes.decode.types import Type, promotable, storable, widen
from firn.config.model import Config, StreamConfig
from firn.errors import ConfigError


def check_schemas(old: Config, new: Config, filename: str) -> None:
    """Raises ConfigError that names each field whose new type does not hold what the old one held, and tables that
    would be sharded otherwise."""
    both = [(old.streams[name], stream) for name, stream in new.streams.items() if name in old.streams]
    if lines := [f"{filename}: {line}" for was, now in both for line in (*_narrowed(was, now), *_sharded(was, now))]:
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


def _sharded(old: StreamConfig, new: StreamConfig) -> Iterator[str]:
    """How a table is sharded can't change yet."""
    before = {rule.to: rule.shard for rule in old.tables if rule.source and not rule.ignore}
    for rule in new.tables:
        if rule.ignore or rule.to not in before:
            continue  # other tables
        was, now = before[rule.to], rule.shard
        if was is None or now is None:
            same = was is now
        else:
            promoted = was.kind is not None and now.kind is not None and promotable(was.kind, now.kind)
            same = promoted and replace(was, kind=None) == replace(now, kind=None)
        if not same:
            where = f"streams.{new.name}.tables.{rule.source}.shard"
            yield f"{where}: how {rule.to} is sharded can't change yet; write it as it was, or another `to`"


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
