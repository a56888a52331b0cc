"""What a schema may become: whatever its table can follow. Its types grow as columns do, and never shrink."""

from collections.abc import Iterator

from firn.changes.decode.types import Type, promotable, storable, widen
from firn.config.model import Config, StreamConfig


def narrowed(old: Config, new: Config) -> list[str]:
    """A line for each field whose new type does not hold what the old one held."""
    return [
        line for name in new.streams if name in old.streams for line in _narrowed(old.streams[name], new.streams[name])
    ]


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


def _holds(new: Type, old: Type) -> bool:
    return promotable(storable(old), storable(new)) or storable(widen(old, new)) == storable(new)
