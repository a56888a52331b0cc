"""`shard:` of a rule, and what a rule with shards may say besides (docs/adr/0104-shards.md)."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from firn.changes.decode import types
from firn.config.epoch_limits import Caps
from firn.config.model import ColumnDeclaration, StreamConfig, TableRule
from firn.config.names import TableName
from firn.config.problems import Section, shown
from firn.config.reach import meet
from firn.config.sharding import MOST, Sharding, parse_by
from firn.config.yaml_tree import Entries, Scalar
from firn.errors import EventError

EPOCH_BYTES: Final = 8_000_000
EPOCH_EVENTS: Final = 12_500
"""That an epoch of a stream with such a table holds, but where a backlog makes it larger (epoch_limits)."""
_KEYS: Final = ("by", "count", "at", "tenants", "most", "to", "else", "whole", "warehouses")
_LATER: Final = {
    "lanes": "is a setting of the stream; write job: {lanes: 2} there",
}
# What a rule says beside its shards, and these can do.
_WITH_SHARDS: Final = frozenset(
    {"to", "shard", "key", "mode", "snapshot_reads", "columns", "bloom", "compression", "compression_level"}
    | {"target_file_size", "care", "ignore"}
)
_AS_IT_IS: Final = {"write": "merge-on-read", "update": "replace"}
_VALUES: Final = "values with their shards; write to: {de: eu, us: us}"
_NAMED: Final = re.compile(r"\{[a-z]+\}")
_EXAMPLE: Final = "shard: {by: tenant(tenant_id), tenants: [acme]}"


def read_sharding(
    section: Section, source: str, key: tuple[str, ...] | None, mode: str, columns: Mapping[str, ColumnDeclaration]
) -> Sharding | None:
    """`shard` of a rule; None without one, or if it is wrong, which is noted. `section`: the rule's."""
    if not section.has("shard"):
        return None
    _check_beside(section, source, key, mode)
    if not section.is_mapping("shard"):
        section.note("shard", f"says no way to shard; write {_EXAMPLE}")
        return None
    below = section.section("shard")
    below.allow_only(_KEYS, _LATER)
    to, by = section.text("to", "'{shard}.orders'"), below.parsed("by", parse_by, None, "tenant(tenant_id)")
    if by is None:
        if not below.has("by"):
            below.note("by", "is missing; write hash(column), range(column), tenant(column) or geographic(column)")
        return None
    way, column = by
    declared = columns.get(column)
    if declared is None:
        below.note(
            "by", f"{shown(column)} is no declared column; write its type, such as columns: {{{column}: string}}"
        )
        return None
    named = _tenants(below, way)
    if named is None:
        return None
    tenants, most = named
    try:
        found = Sharding(
            by=way,
            column=column,
            to=to or "",
            count=below.integer("count", 1, MOST - 1, 8) if below.has("count") else 0,
            at=tuple(item.text for item in below.texts("at", "at: ['2026-01-01']")),
            values={name: name for name in tenants} if way == "tenant" else _texts(below, "to", _VALUES),
            rest=below.text("else", "rest") or "rest",
            most=most,
            kind=types.storable(declared.type),
            whole=below.text("whole", "shop.orders") or "",
            warehouses=_texts(below, "warehouses", "shards with their warehouses; write warehouses: {eu: frankfurt}"),
        )
        if len(found.shards) > MOST:
            raise ValueError(f"{len(found.shards)} shards, and a table has at most {MOST}; write fewer")
        _ = found.map, found.tables
    except ValueError as error:
        section.note("shard", str(error))
        return None
    return found


def _tenants(section: Section, way: str) -> tuple[list[str], int] | None:
    """`tenants` and `most`; None if they are wrong, which is noted."""
    tenants = [item.text for item in section.texts("tenants", "tenants: [acme, umbrella]")]
    most = section.integer("most", 1, MOST - 1, 50) if section.has("most") else 0
    if way == "tenant" and not tenants and not section.has("most"):
        section.note(
            "tenants", "is missing; write those that have a table of their own, such as tenants: [acme], or most: 50 "
            "for as many as appear"
        )  # fmt: skip
        return None
    if most and way != "tenant":
        section.note("most", f"is a setting of tenant, not of {way}; leave it out")
        return None
    if most and most < len(tenants):
        section.note("most", f"is less than the {len(tenants)} tenants that are listed; write {len(tenants)} or more")
    if way != "tenant" and tenants:
        section.note("tenants", f"is a setting of tenant, not of {way}; leave it out")
        return None
    for twice in sorted({name for name in tenants if tenants.count(name) > 1}):
        section.note("tenants", f"names {shown(twice)} twice; write each once")
    return tenants, most


def _texts(section: Section, key: str, instead: str) -> dict[str, str]:
    """A mapping of texts to texts. `instead`: of what with what, and what to write."""
    node = section.node(key)
    if node is None:
        return {}
    if not isinstance(node, Entries) or any(not isinstance(value, Scalar) for _, value in node.entries):
        section.note(key, f"is no list of {instead}")
        return {}
    names = [name.text for name, _ in node.entries]
    for twice in sorted({name for name in names if names.count(name) > 1}):
        section.note(key, f"names {shown(twice)} twice; write each once")
    return {name.text: value.text for name, value in node.entries if isinstance(value, Scalar)}


def _check_beside(section: Section, source: str, key: tuple[str, ...] | None, mode: str) -> None:
    """Notes what a table of several shards can't have."""
    if "*" in source:
        section.note("shard", f"is of one table, and {shown(source)} is a pattern; write a rule for each source table")
    if mode != "mirror":
        section.note("mode", "is of tables without shards: write mode: mirror, or leave shard out")
    if not key:
        section.note("key", "is missing, and a table of several shards needs it; write key: [id]")
    if section.is_list("to"):
        section.note("to", "is a list, and a table of several shards has no further targets; write one")
    for name in section.names:
        if name in _AS_IT_IS and section.text(name, _AS_IT_IS[name]) in (None, _AS_IT_IS[name]):
            continue
        if name not in _WITH_SHARDS:
            section.note(name, "is not there yet for a table of several shards; leave it out, or leave shard out")
    for name in section.section("columns").names if section.has("columns") else ():
        if section.section("columns").is_mapping(name) and section.section("columns").section(name).has("default"):
            section.section("columns").note(name, "has a default, which is not there yet beside shard; leave it out")


def bounded(settings: StreamConfig) -> StreamConfig:
    """The same with epochs that are small enough for tables with shards: their rows are decided one by one."""
    caps = settings.commit.caps
    caps = Caps(min(caps.bytes, EPOCH_BYTES), min(caps.events, EPOCH_EVENTS))
    return replace(settings, commit=replace(settings.commit, caps=caps))


def check_sharded(section: Section, streams: Mapping[str, StreamConfig]) -> None:
    """Notes what reads or writes a sharded table, or one of its shards, and can't yet. `section`: `streams` of the
    file; `streams`: with their views."""
    sharded = [(stream, rule, rule.shard) for stream in streams.values() for rule in stream.tables if rule.shard]
    exact, patterns = _filling(streams.values())
    wholes = _check_wholes(section, sharded, exact, patterns)
    for stream, rule, shards in sharded:
        names = sorted(set(shards.tables.values()))
        own = section.section(stream.name)
        at = own.section("tables").section(rule.source)
        for its in (*patterns, *(its for name in names for its in exact.get(str(name).lower(), ()))):
            if its is not rule and (met := next((name for name in names if _fills(its, name)), None)):
                why = f"makes {met} a shard, and {shown(its.source)} feeds it too; write another `to`"
                at.note("shard", why)
                break
        others = (name for its, name in wholes.items() if its != (stream.name, rule.source))
        taken = [*exact, *(its.to for its in patterns), *others]
        if shards.most and (named := _in_the_way(shards, taken, names)):
            at.note(
                "shard",
                f"says `most`, and a tenant's table might be {named}, which is another rule's; write another `to`",
            )
        for pipeline in stream.pipelines:
            if _rule_for(stream, pipeline.source) is rule:
                own.section("pipelines").section(pipeline.name).note(
                    "sql", f"reads {shown(rule.source)}, whose table has shards, and can't yet; leave one of them out"
                )
        for name, one in streams.items():
            for pipeline in one.pipelines:
                if met := next((table for table in pipeline.joins if table in names), None):
                    section.section(name).section("pipelines").section(pipeline.name).note(
                        "sql", f"joins {met}, which is a shard, and can't yet; leave one of them out"
                    )
            for view in one.views:
                if met := next((table for table in view.sources if table in names), None):
                    section.problems.add(
                        view.line, f"views.{view.table}", f"reads {met}, which is a shard, and can't yet; leave one out"
                    )


def _check_wholes(
    section: Section,
    sharded: Sequence[tuple[StreamConfig, TableRule, Sharding]],
    exact: Mapping[str, list[TableRule]],
    patterns: Sequence[TableRule],
) -> dict[tuple[str, str], str]:
    """Notes names for all shards that are, or may be, those of tables, or of two wholes. -> the names, by stream and
    source table."""
    known: dict[str, str] = {}
    found: dict[tuple[str, str], str] = {}
    for stream, rule, shards in sharded:
        at = section.section(stream.name).section("tables").section(rule.source).section("shard")
        try:
            name = shards.whole_of(stream.name)
        except ValueError as error:
            at.note("whole", str(error))
            continue
        instead = f"write another, such as whole: {name.namespace}.all_{name.table}"
        for its in (*exact.get(str(name).lower(), ()), *(one for one in patterns if _fills(one, name))):
            at.note("whole", f"is {name}, a table that {shown(its.source or its.to)} fills; {instead}")
            break
        mine = f"{stream.name}'s {shown(rule.source)}"
        if (other := known.setdefault(str(name).lower(), mine)) != mine:
            at.note("whole", f"is {name}, what {other} is read as too; {instead}")
        found[stream.name, rule.source] = str(name)
    return found


def _rule_for(stream: StreamConfig, source: str) -> TableRule | None:
    try:
        return stream.rule_for(source)
    except EventError:  # ambiguous, which is noted where it is read
        return None


def _fills(rule: TableRule, table: TableName) -> bool:
    return rule.feeds(table) if rule.shard is None else table in rule.shard.tables.values()


def _in_the_way(shards: Sharding, tables: Iterable[str], own: Collection[TableName]) -> str | None:
    """A table of another rule, or the name of such, that a tenant who appears could have."""
    mine, known = _NAMED.sub("*", shards.to).partition("."), {str(name) for name in own}
    for table in tables:
        theirs = _NAMED.sub("*", table).partition(".")
        if table not in known and meet(mine[0], theirs[0]) and meet(mine[2], theirs[2]):
            return table
    return None


def _filling(streams: Iterable[StreamConfig]) -> tuple[Mapping[str, list[TableRule]], list[TableRule]]:
    """The rules by the tables that they name (in lower case), and those whose source tables alone tell the names."""
    exact: dict[str, list[TableRule]] = {}
    patterns = []
    for stream in streams:
        own = (rule for rule in stream.tables if not rule.ignore)
        through = (one.rule for one in stream.pipelines if one.rule is not None)
        for rule in (*own, *through, *(one.rule for one in stream.views)):
            if rule.is_pattern or "{" in rule.to:
                patterns.append(rule)
            for table in rule.shard.tables.values() if rule.shard else (rule.to,):
                exact.setdefault(str(table).lower(), []).append(rule)
    return exact, patterns
