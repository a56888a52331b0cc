"""Reads `firn.yaml`, one function a section of the file: from its text to `Config`, every problem named by line."""

import hashlib
import re
from typing import Final

from firn.changes.decode import types
from firn.changes.decode.source_encodings import BinaryMode, DecimalMode, IntervalMode, OutOfRange, TimeMode
from firn.changes.envelopes import registry
from firn.config import partitions, quantities
from firn.config.auth_reader import check_signing_secrets, read_accept, read_auth, read_readers
from firn.config.catalogs import KINDS, check_uri
from firn.config.column_renames import check_order, read_renames
from firn.config.deployments import read_targets
from firn.config.epoch_limits import Caps
from firn.config.maintenance import Care
from firn.config.maintenance_reader import read_care
from firn.config.model import (
    UNAVAILABLE,
    BacklogLimit,
    Bloom,
    CatalogConfig,
    CatalogType,
    ColumnDeclaration,
    CommitPolicy,
    Config,
    SnapshotReads,
    StreamConfig,
    TableRule,
    Update,
    Write,
)
from firn.config.modes import MODES
from firn.config.names import (
    ICEBERGS,
    OWN,
    RESERVED_NAMES,
    RETYPED,
    is_left_out,
    is_own_column,
    is_reserved,
    too_long,
)
from firn.config.partitions import Partition
from firn.config.problems import Problems, Section, shown
from firn.config.rows_reader import read_rows
from firn.config.shared_tables import check_targets
from firn.config.storage import read_catalog_uri, read_warehouse
from firn.config.yaml_tree import YamlProblem, read
from firn.errors import EventError

_STREAM_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_MOST_EVENTS: Final = 10**12
_MAX_GENERATION: Final = 2**32 - 1  # four bytes of a position
_MOST_ORDERING: Final = 2  # fields that a position holds
_MAX_TABLES: Final = 1_000_000
_LATER: Final = {"history": "is not there yet: expect it in a release after 0.1, CHANGELOG.md will name it"}
_ICEBERGS: Final = "is a name that Iceberg keeps for itself"
_SECRET: Final = re.compile(r"password|secret|token|credential|access[-_.]?key", re.IGNORECASE)

_STREAM_KEYS: Final = (
    "envelope", "unavailable_value", "commit", "backlog", "debezium", "out_of_range", "generation", "order_by",
    "table_by", "op_field", "delete_when", "job", "auth", "accept", "max_tables", "tables",
)  # fmt: skip
_COMMIT_KEYS: Final = ("every", "size", "fresh", "linger", "max_size", "max_events")
_BACKLOG_KEYS: Final = ("bytes", "events", "age")
_RULE_KEYS: Final = (
    "to",
    "key",
    "mode",
    "snapshot_reads",
    "write",
    "update",
    "partition_by",
    "bloom",
    "columns",
    "ignore",
    "care",
    "renames",
)
_DEBEZIUM: Final = (
    "decimal.handling.mode", "time.precision.mode", "binary.handling.mode", "interval.handling.mode",
)  # fmt: skip
_MOVED_STREAM: Final = {key: f"belongs under `debezium:`; write debezium: {{{key}: …}}" for key in _DEBEZIUM}
_MOVED_DEBEZIUM: Final = {
    "unavailable.value.placeholder": "belongs to the stream itself; write unavailable_value: … beside `debezium:`"
}
_MOVED_RULE: Final = {"history": "is a mode that is not there yet; write mode: mirror or mode: append"}

_Placed = list[tuple[str, TableRule, int, str]]


def parse(text: str, filename: str = "firn.yaml", *, published: bool = False) -> Config:
    """Reads `firn.yaml`. `filename` is only for the messages. `published`: it was taken before, perhaps by an
    older version; what has been refused only since then goes on.

    Raises ConfigError that names all problems at once, a line each:
    `firn.yaml:14: streams.shop.tables.public.orders.mode: 'mirrored' is not a mode; write mirror or append`.
    """
    problems = Problems(filename, published=published)
    try:
        tree = read(text)
    except YamlProblem as problem:
        problems.add(problem.line, "", problem.text)
        problems.raise_any()
        raise AssertionError("unreachable") from problem
    if tree is None:
        problems.add(1, "", "the file is empty; write streams: and their tables, or run `firn init` for a first one")
        problems.raise_any()
    top = Section(tree, "", problems)
    if not top.is_missing:
        top.allow_only(("catalog", "warehouse", "targets", "care", "query", "streams"))
    catalog = _catalog(top.section("catalog"))
    warehouse = top.parsed("warehouse", read_warehouse, "", "s3://bucket/prefix or file:///path")
    targets = read_targets(top.section("targets"))
    care = read_care(top.section("care"), Care())
    streams = _streams(top, care)
    readers = read_readers(top.section("query"), streams)
    problems.raise_any()
    sha = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Config(catalog, warehouse, streams, sha, text, targets, care, readers)


def _catalog(section: Section) -> CatalogConfig:
    section.allow_only(("type", "uri", "properties"))
    kind: CatalogType = section.choice("type", CatalogType, "catalog type", "sql")
    uri = _catalog_uri(section, kind)
    if KINDS[kind].default is None and not section.has("uri"):
        section.note("uri", f"is missing, and a {kind} catalog needs it; write uri: {KINDS[kind].example}")
    below = section.section("properties")
    properties = {}
    for name in below.names:
        value = below.text(name, "a text")
        if _SECRET.search(name):
            below.note(
                name,
                "is a secret, and this file is stored beside the data; take it out and set it in the environment "
                f"(PYICEBERG_CATALOG__FIRN__{re.sub('[^A-Z0-9]+', '_', name.upper())})",
            )
        elif value is not None:
            properties[name] = value
    return CatalogConfig(kind, uri, properties)


def _catalog_uri(section: Section, kind: CatalogType) -> str | None:
    """The address, or several of one catalog: a list, or one text with commas."""
    try:
        texts = section.texts("uri", "the catalog's address, or leave the line out")
        uri = ",".join(read_catalog_uri(one.text) for one in texts)
        if uri:
            check_uri(kind, uri)
    except ValueError as error:
        section.note("uri", str(error))
        return None
    return uri or None


def _streams(top: Section, care: Care) -> dict[str, StreamConfig]:
    section = top.section("streams")
    if section.is_missing:
        top.note("streams", "is missing; write streams: {shop: {tables: {'*': {to: shop.{table}}}}}")
    placed: _Placed = []
    streams = {}
    for name in section.names:
        if not _STREAM_NAME.fullmatch(name):
            section.note(
                name, f"is not a stream name; write a-z, 0-9, _ and - only, {_as_stream_name(name)} for example"
            )
        streams[name] = _stream(name, section.section(name), placed, care)
    check_targets(placed, top.problems)
    if not top.problems.published:
        check_signing_secrets(section, streams)
    return streams


def _as_stream_name(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:63] or "shop"


def _stream(name: str, section: Section, placed: _Placed, care: Care) -> StreamConfig:
    section.allow_only(_STREAM_KEYS, _MOVED_STREAM)
    debezium = section.section("debezium")
    debezium.allow_only(_DEBEZIUM, _MOVED_DEBEZIUM)
    out_of_range: OutOfRange = "null"
    # `out_of_range: null` is the word here, though YAML reads it as nothing.
    if section.node("out_of_range") is not None:
        out_of_range = section.choice("out_of_range", OutOfRange, "treatment", "null")
    tables = _tables(name, section, placed, care)
    order_by = _order_by(section)
    check_order(section, order_by, tables)
    envelope = section.choice("envelope", registry.KNOWN.names, "envelope", StreamConfig.envelope)
    rows = read_rows(section, tables, bare=registry.KNOWN.bare(envelope) is not None)
    return StreamConfig(
        name=name,
        tables=tables,
        envelope=envelope,
        unavailable_value=section.text("unavailable_value", "the connector's placeholder") or UNAVAILABLE,
        commit=_commit(section.section("commit")),
        backlog=_backlog(section.section("backlog")),
        decimal=debezium.choice("decimal.handling.mode", DecimalMode, "decimal mode", "precise"),
        time=debezium.choice("time.precision.mode", TimeMode, "time mode", "adaptive"),
        binary=debezium.choice("binary.handling.mode", BinaryMode, "binary mode", "bytes"),
        interval=debezium.choice("interval.handling.mode", IntervalMode, "interval mode", "numeric"),
        out_of_range=out_of_range,
        generation=section.integer("generation", 0, _MAX_GENERATION, 0),
        order_by=order_by,
        table_by=rows.table_by,
        op_field=rows.op_field,
        delete_when=rows.delete_when,
        job=section.text("job", "a name; streams that give the same one share their job runs") or StreamConfig.job,
        auth=read_auth(section.section("auth")),
        accept=read_accept(section),
        max_tables=section.integer("max_tables", 1, _MAX_TABLES, StreamConfig.max_tables),
    )


def _order_by(section: Section) -> tuple[str, ...]:
    fields = _columns_of(section, "order_by", "order_by: updated_at, or order_by: [updated_at, version]")
    if len(fields) > _MOST_ORDERING:
        section.note(
            "order_by", f"names {len(fields)} fields, and a position holds {_MOST_ORDERING}; write two of them"
        )
    return fields


def _commit(section: Section) -> CommitPolicy:
    section.allow_only(_COMMIT_KEYS)
    size = section.parsed("size", quantities.size, CommitPolicy.size_bytes, "100MB")
    # Whoever commits in larger portions than the default epoch wants larger epochs too.
    at_least = max(Caps.bytes, size)
    caps = Caps(
        section.parsed("max_size", quantities.size, at_least, "256MB"),
        section.integer("max_events", 1, _MOST_EVENTS, Caps.events),
    )
    if caps.bytes < size:
        section.note("max_size", f"is less than size: no epoch could hold so much; write {at_least // 10**6}MB")
    return CommitPolicy(
        section.parsed("every", quantities.seconds, CommitPolicy.every_seconds, "60s"),
        size,
        section.parsed("fresh", quantities.seconds, CommitPolicy.fresh_seconds, "2s"),
        section.parsed("linger", quantities.seconds_or_none, CommitPolicy.linger_seconds, "60s"),
        caps,
    )


def _backlog(section: Section) -> BacklogLimit:
    section.allow_only(_BACKLOG_KEYS)
    some = 10_000_000
    return BacklogLimit(
        section.parsed("bytes", quantities.size, BacklogLimit.bytes, "10GB"),
        section.integer("events", 1, _MOST_EVENTS, some) if section.has("events") else None,
        section.parsed("age", quantities.seconds, None, "6h"),
    )


def _tables(stream: str, section: Section, placed: _Placed, care: Care) -> tuple[TableRule, ...]:
    tables = section.section("tables")
    if tables.is_missing:
        section.note("tables", f"is missing; write tables: {{'*': {{to: {stream}.{{table}}}}}}")
    rules = []
    for source in tables.names:
        rule = _rule(source, tables.section(source), stream, care)
        if not source.strip() or source.startswith(".") or source.endswith("."):
            tables.note(source, "is not a source table; write schema.table, or a pattern such as 'public.*'")
        rules.append(rule)
        placed.append((stream, rule, tables.line_of(source), tables.below(source)))
    return tuple(rules)


def _rule(source: str, section: Section, stream: str, care: Care) -> TableRule:
    section.allow_only(_RULE_KEYS, _MOVED_RULE)
    ignore = section.flag("ignore", False)
    mode = section.choice("mode", tuple(MODES), "mode", "mirror", _LATER)
    key, columns = _key(section), _columns(section.section("columns"))
    partition_by = _partition_by(section, columns)
    return TableRule(
        source=source,
        to="" if ignore else _to(source, section, stream, mode),
        key=key,
        mode=mode,
        snapshot_reads=section.choice("snapshot_reads", SnapshotReads, "treatment of snapshot reads", "upsert"),
        write=section.choice("write", Write, "way to write", "merge-on-read"),
        update=section.choice("update", Update, "way to update", "replace"),
        partition_by=partition_by,
        bloom=_bloom(section),
        columns=columns,
        ignore=ignore,
        care=read_care(section.section("care"), care),
        renames=read_renames(section.section("renames"), key, columns, partition_by),
    )


def _to(source: str, section: Section, stream: str, mode: str) -> str:
    table = "{table}" if "*" in source else source.partition(".")[2] or source
    example = f"{stream}.{table}"
    to = section.text("to", example)
    if to is None:
        if not section.has("to"):
            section.note("to", f"is missing; write to: {example}")
        return ""
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
        section.note("to", f"{shown(to)} would mirror every source table into one; write to: {stream}.{{table}}")
    elif not rule.is_pattern:
        try:
            found = rule.target(source)
            namespace, name = found.namespace, found.table
        except EventError:
            section.note("to", f"{shown(to)} gives no table name for {shown(source)}; write to: {example}")
    if (why := too_long(namespace, name, with_facts=MODES[mode].keyed)) and not section.problems.published:
        section.note("to", f"{shown(to)} is too long: {why}; write a shorter name")
    if is_reserved(name) and not section.problems.published:
        section.note("to", f"{shown(to)} can't be: {RESERVED_NAMES}; write another name, with one _ for example")
    return to


def _key(section: Section) -> tuple[str, ...] | None:
    if not section.has("key"):
        return None
    names = _columns_of(section, "key", "key: [id], or leave it out")
    lost = [name for name in names if is_left_out(name)]
    if lost and not section.problems.published:
        why = _ICEBERGS if lost[0] in ICEBERGS else "is a name that Firn keeps for itself"
        section.note("key", f"{shown(lost[0])} {why}, and is left out; have the source call it otherwise")
    return names or None


def _columns_of(section: Section, key: str, instead: str) -> tuple[str, ...]:
    """The columns that are named under `key`, each once."""
    names = [item.text for item in section.texts(key, instead)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        section.note(key, f"names {', '.join(twice)} twice; write each column once")
    return tuple(dict.fromkeys(names))


def _partition_by(section: Section, columns: dict[str, ColumnDeclaration]) -> tuple[Partition, ...]:
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
            wrong := partitions.misfit(partition, columns[partition.column].type.name)
        ):
            section.problems.add(item.line, path, wrong)
        else:
            found.append(partition)
    return tuple(found)


def _bloom(section: Section) -> Bloom:
    names = _columns_of(section, "bloom", "bloom: key, or bloom: [order_id]")
    return "key" if names == ("key",) and not section.is_list("bloom") else names


def _columns(section: Section) -> dict[str, ColumnDeclaration]:
    columns = {}
    for name in section.names:
        if name.startswith(OWN):
            section.note(name, f"begins with {OWN}, which Firn keeps for itself; leave the line out")
        elif is_own_column(name) and not section.problems.published:
            section.note(name, f"ends in {RETYPED}, which Firn keeps for itself; leave the line out")
        elif name in ICEBERGS and not section.problems.published:
            section.note(name, f"{_ICEBERGS}, and is left out; write renames: {{NAME: {name}}} to have it as NAME")
        declared = section.parsed(name, _declared, None, "a type, decimal(12,2) for example")
        if declared is not None:
            columns[name] = ColumnDeclaration(*declared)
    return columns


def _declared(text: str) -> tuple[types.Type, int | None]:
    try:
        return types.parse_declared(text)
    except ValueError as error:
        # What PostgreSQL calls it, with the numbers that were meant.
        if meant := re.fullmatch(r"(?:numeric|dec|number)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", text, re.IGNORECASE):
            raise ValueError(f"{text!r} is not a type; write decimal({meant[1]},{meant[2] or 0})") from error
        raise
