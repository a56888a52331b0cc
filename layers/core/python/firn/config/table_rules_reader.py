"""`tables:` of a stream, a rule each. The same functions read what a pipeline says of its target."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from firn.changes.decode import types
from firn.changes.decode.nanoseconds import is_fine
from firn.changes.metadata_columns import ASKED_METADATA
from firn.config import partitions
from firn.config.column_declarations import read_columns
from firn.config.column_renames import read_renames
from firn.config.file_writing import NEWEST_FORMAT, OLDEST_FORMAT
from firn.config.file_writing_reader import read_bloom, read_file_writing
from firn.config.maintenance import Care
from firn.config.maintenance_reader import read_care
from firn.config.model import ColumnDeclaration, SnapshotReads, TableRule, Update, Write
from firn.config.modes import MODES, fed
from firn.config.names import ICEBERGS, RESERVED_NAMES, is_left_out, is_reserved, too_long
from firn.config.partitions import Partition
from firn.config.problems import Section, shown, words
from firn.config.schema_fields import check_fields
from firn.config.schema_reader import read_schema
from firn.config.shared_tables import Placed
from firn.errors import EventError

if TYPE_CHECKING:
    from firn.config.sharding import Sharding

LATER: Final = {"history": "is not there yet: expect it in a release after 0.1, CHANGELOG.md will name it"}
_ICEBERGS: Final = "is a name that Iceberg keeps for itself"

RULE_KEYS: Final = (
    "to", "key", "mode", "snapshot_reads", "write", "update", "partition_by", "bloom", "compression",
    "compression_level", "target_file_size", "properties", "format", "metadata", "columns", "ignore", "care", "renames",
    "schema", "invalid", "unknown", "shard",
)  # fmt: skip
_MOVED_RULE: Final = {"history": "is a mode that is not there yet; write mode: mirror or mode: append"}


def read_tables(
    stream: str, section: Section, placed: list[Placed], care: Care, files: Section
) -> tuple[TableRule, ...]:
    """The rules of a stream, in the file's order; `placed` gets them too. `files`: the schema files that the text holds
    (schema_files). Every problem is noted."""
    tables = section.section("tables")
    if tables.is_missing and section.section("pipelines").is_missing:
        section.note("tables", f"is missing; write tables: {{'*': {{to: {stream}.{{table}}}}}}")
    rules = []
    for source in tables.names:
        rule = _rule(source, tables.section(source), stream, care, files)
        if not source.strip() or source.startswith(".") or source.endswith("."):
            tables.note(source, "is not a source table; write schema.table, or a pattern such as 'public.*'")
        rules.append(rule)
        placed.append(Placed(stream, rule, tables.line_of(source), tables.below(source)))
    return tuple(rules)


def _rule(source: str, section: Section, stream: str, care: Care, files: Section) -> TableRule:
    section.allow_only(RULE_KEYS, _MOVED_RULE)
    ignore = section.flag("ignore", False)
    mode = section.choice("mode", fed(), "mode", "mirror", LATER)
    key, writing = read_key(section), read_file_writing(section)
    columns = read_columns(section.section("columns"), key, writing.format)
    schema = read_schema(section, files)
    told = columns | check_fields(section, schema, columns, key)
    partition_by = read_partitions(section, told)
    shard = _sharding(section, source, key, mode, told)
    to, *also = ("",) if ignore else _targets(source, section, stream, mode, shard)
    bloom, bloom_size = read_bloom(section)
    _check_format(section, told, writing.format)
    return TableRule(
        source=source,
        to=to,
        key=key,
        mode=mode,
        snapshot_reads=section.choice("snapshot_reads", SnapshotReads, "treatment of snapshot reads", "upsert"),
        write=section.choice("write", Write, "way to write", "merge-on-read"),
        update=section.choice("update", Update, "way to update", "replace"),
        partition_by=partition_by,
        bloom=bloom,
        bloom_size=bloom_size,
        writing=writing,
        metadata=_metadata(section, mode),
        columns=columns,
        ignore=ignore,
        care=read_care(section.section("care"), writing.caring(care)),
        renames=read_renames(section.section("renames"), key, told, partition_by),
        schema=schema,
        also=tuple(also),
        shard=None if ignore else shard,
    )


def _sharding(
    section: Section, source: str, key: tuple[str, ...] | None, mode: str, columns: dict[str, ColumnDeclaration]
) -> "Sharding | None":
    if not section.has("shard"):
        return None
    from firn.config.sharding_reader import read_sharding  # with the hashes: few files have shards

    return read_sharding(section, source, key, mode, columns)


def _check_format(section: Section, columns: dict[str, ColumnDeclaration], version: int | None) -> None:
    """Notes columns of types that tables of this format (None: not said) do not have."""
    place = "schema" if section.has("schema") else "columns"
    for name, column in columns.items():
        if is_fine(column.type) and (version or OLDEST_FORMAT) < NEWEST_FORMAT:
            section.note(
                place,
                f"{shown(name)} is {column.type}, and nanoseconds need Iceberg's format 3; write format: 3 beside "
                f"{place}:, or {str(column.type).replace('_ns', '')} for microseconds",
            )
        if column.type == types.VARIANT and version != NEWEST_FORMAT:
            why = f"is a variant, which only tables of Iceberg's format {NEWEST_FORMAT} have"
            section.section("columns").note(name, f"{why}; write format: {NEWEST_FORMAT} under the table")


def _metadata(section: Section, mode: str) -> tuple[str, ...]:
    asked = section.each_once("metadata", "metadata: [source, stream]")
    for word in asked:
        if word not in ASKED_METADATA:
            section.note("metadata", f"{shown(word)} is not known here; write {words(tuple(ASKED_METADATA))}")
    if asked and MODES[mode].keyed:
        section.note("metadata", f"is of append tables, and this one is a {mode}; leave it out, or write mode: append")
    return asked


def _targets(source: str, section: Section, stream: str, mode: str, shard: "Sharding | None" = None) -> tuple[str, ...]:
    """`to`, one at least; "" for what is none. Of a table of several shards that of the rest."""
    if section.has("shard") and not section.is_list("to"):
        return (str(shard.tables[shard.rest]) if shard else "",)
    table = "{table}" if "*" in source else source.partition(".")[2] or source
    example = f"{stream}.{table}"
    if not section.is_list("to"):
        to = section.text("to", example)
        if to is None and not section.has("to"):
            section.note("to", f"is missing; write to: {example}")
        return (_to(to, source, section, example, mode) if to else "",)
    names = [item.text for item in section.texts("to", f"[{example}, {stream}.{table}_2]")]
    for twice in sorted({name for name in names if names.count(name) > 1}):
        section.note("to", f"names {shown(twice)} twice; write each table once")
    if len(names) > 1 and "*" in source:
        section.note(
            "to", f"is a list, and {shown(source)} is a pattern; write a rule for each source table that has several"
        )
        names = names[:1]
    return tuple(_to(one, source, section, example, mode) for one in dict.fromkeys(names)) or ("",)


def _to(to: str, source: str, section: Section, example: str, mode: str) -> str:
    left = re.sub(r"\{(schema|table)\}", "x", to)
    if "{" in left or "}" in left:
        section.note("to", f"{shown(to)} holds an unknown placeholder; write {{schema}} or {{table}}")
        return ""
    if left.count(".") != 1:
        dotted = "names no namespace" if "." not in left else "has more than one dot"
        section.note("to", f"{shown(to)} {dotted}; write namespace.table, {example} for example")
        return ""
    rule = TableRule(source, to)
    namespace, _, name = left.partition(".")
    if source.strip("*.") == "" and MODES[mode].keyed and "{table}" not in to:
        section.note("to", f"{shown(to)} would mirror every source table into one; write to: {example}")
    elif not rule.is_pattern:
        try:
            found = rule.target(source)
            namespace, name = found.namespace, found.table
        except EventError:
            section.note("to", f"{shown(to)} gives no table name for {shown(source)}; write to: {example}")
    for why in () if section.problems.published else unfit_names(to, namespace, name, mode):
        section.note("to", why)
    return to


def unfit_names(to: str, namespace: str, name: str, mode: str) -> Iterator[str]:
    """Why a table of this name can't be a target, and what to write. `to`: what was written."""
    if why := too_long(namespace, name, with_facts=MODES[mode].keyed):
        yield f"{shown(to)} is too long: {why}; write a shorter name"
    if is_reserved(name):
        yield f"{shown(to)} can't be: {RESERVED_NAMES}; write another name, with one _ for example"


def read_key(section: Section) -> tuple[str, ...] | None:
    """`key`; None if it is not said."""
    if not section.has("key"):
        return None
    names = section.each_once("key", "key: [id], or leave it out")
    lost = [name for name in names if is_left_out(name)]
    if lost and not section.problems.published:
        why = _ICEBERGS if lost[0] in ICEBERGS else "is a name that Firn keeps for itself"
        section.note("key", f"{shown(lost[0])} {why}, and is left out; have the source call it otherwise")
    return names or None


def read_partitions(section: Section, columns: dict[str, ColumnDeclaration]) -> tuple[Partition, ...]:
    """`partition_by`. `columns`: those that are declared beside it, whose types partitions must fit."""
    found: list[Partition] = []
    for item in section.texts("partition_by", "partition_by: [day(created_at), bucket(16, customer_id)]"):
        path = section.below("partition_by")
        try:
            partition = partitions.parse(item.text)
        except ValueError as error:
            section.problems.add(item.line, path, str(error))
            continue
        if partition in found:
            section.problems.add(item.line, path, f"{shown(item.text)} is there twice; write it once")
        elif partition.column in columns and (
            wrong := partitions.misfit(partition, types.storable(columns[partition.column].type).name)
        ):
            section.problems.add(item.line, path, wrong)
        else:
            found.append(partition)
    return tuple(found)


def read_sql_table(
    section: Section, care: Care, source: str, to: str, mode: str, key: tuple[str, ...] | None = None
) -> TableRule:
    """The rule of a table that SQL fills, whose columns nobody declares: of a pipeline, or of a view."""
    bloom, bloom_size = read_bloom(section)
    writing = read_file_writing(section)
    return TableRule(
        source=source,
        to=to,
        key=key,
        mode=mode,
        write=section.choice("write", Write, "way to write", "merge-on-read"),
        partition_by=read_partitions(section, {}),
        bloom=bloom,
        bloom_size=bloom_size,
        writing=writing,
        care=read_care(section.section("care"), writing.caring(care)),
    )
