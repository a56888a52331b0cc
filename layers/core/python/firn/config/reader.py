"""Reads `firn.yaml`, one function a section of the file: from its text to `Config`, every problem named by line."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from firn.changes.decode.source_encodings import (
    BinaryMode,
    DecimalMode,
    IntervalMode,
    OutOfRange,
    TimeMode,
    UnsignedMode,
)
from firn.changes.envelopes import registry
from firn.config import quantities
from firn.config.alerts_reader import read_alerts
from firn.config.auth_reader import check_signing_secrets, check_ways, read_accept, read_auth, read_readers
from firn.config.catalogs import CREDENTIAL_PLACE, KINDS, check_uri
from firn.config.column_renames import check_order
from firn.config.console_access import ConsoleAccess, read_console
from firn.config.deployments import read_targets
from firn.config.epoch_limits import Caps
from firn.config.event_sources_reader import KEYS as EVENT_SOURCES
from firn.config.event_sources_reader import check_event_sources, read_event_sources
from firn.config.file_sinks_reader import check_places
from firn.config.further_targets import read_further_targets
from firn.config.joined_tables import check_joins
from firn.config.maintenance import Care
from firn.config.maintenance_reader import check_classes, read_common_care
from firn.config.model import (
    UNAVAILABLE,
    Auth,
    BacklogLimit,
    CatalogConfig,
    CatalogType,
    CommitPolicy,
    Config,
    StreamConfig,
)
from firn.config.pipelines_reader import read_pipelines
from firn.config.problems import Problems, Section
from firn.config.pull_source_reader import read_sources
from firn.config.rows_reader import read_rows
from firn.config.schema_files import FILES
from firn.config.secret_addresses import checked_place
from firn.config.shared_tables import Placed, check_targets
from firn.config.storage import read_catalog_uri, read_warehouse
from firn.config.table_rules_reader import read_tables
from firn.config.views_reader import read_views
from firn.config.written_secrets import is_secret_name, secret_in
from firn.config.yaml_tree import YamlProblem, read

if TYPE_CHECKING:
    from firn.config.reader_scopes import ScopedReaders
    from firn.config.writers import Writer

_STREAM_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_MOST_EVENTS: Final = 10**12
_MAX_GENERATION: Final = 2**32 - 1  # four bytes of a position
_MOST_ORDERING: Final = 2  # fields that a position holds
_MAX_TABLES: Final = 1_000_000
_MOST_LANES: Final = 16

_TOP_KEYS: Final = (
    "catalog", "warehouse", "targets", "care", "query", "console", "sources", "alerts", "streams", "views", FILES
)  # fmt: skip
_STREAM_KEYS: Final = (
    "envelope", "unavailable_value", "commit", "backlog", "debezium", "out_of_range", "generation", "order_by",
    "table_by", "op_field", "delete_when", "job", "auth", "writers", "accept", "max_tables", "max_body", "rate",
    "tables", "pipelines", *EVENT_SOURCES,
)  # fmt: skip
_COMMIT_KEYS: Final = ("every", "size", "fresh", "linger", "max_size", "max_events")
_BACKLOG_KEYS: Final = ("bytes", "events", "age")
_DEBEZIUM: Final = (
    "decimal.handling.mode", "time.precision.mode", "binary.handling.mode", "interval.handling.mode",
    "bigint.unsigned.handling.mode",
)  # fmt: skip
_MOVED_TOP: Final = dict.fromkeys(_STREAM_KEYS, "belongs to a stream; write it under streams: NAME:")
_MOVED_STREAM: Final = {
    **dict.fromkeys(_TOP_KEYS, "is for all streams; write it beside `streams:`"),
    **{key: f"belongs under `debezium:`; write debezium: {{{key}: …}}" for key in _DEBEZIUM},
}
_MOVED_DEBEZIUM: Final = {
    "unavailable.value.placeholder": "belongs to the stream itself; write unavailable_value: … beside `debezium:`"
}


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
        top.allow_only(_TOP_KEYS, _MOVED_TOP)
    catalog = _catalog(top.section("catalog"))
    warehouse = top.parsed("warehouse", read_warehouse, "", "s3://bucket/prefix, gs://…, abfss://… or file:///path")
    targets = read_targets(top.section("targets"))
    care = read_common_care(top.section("care"))
    streams = _streams(top, care)
    check_places(top.section("streams"), streams, warehouse)
    check_classes(top, warehouse)
    readers = read_readers(top.section("query"), streams)
    sources = read_sources(top.section("sources"), streams)
    console = read_console(top.section("console"), readers, streams)
    alerts = read_alerts(top.section("alerts"), streams)
    scoped = _scoped_readers(top.section("query"), readers, console, streams)
    problems.raise_any()
    sha = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Config(catalog, warehouse, streams, sha, text, targets, care, readers, sources, console, alerts, scoped)


def _scoped_readers(
    query: Section, readers: Auth | None, console: ConsoleAccess | None, streams: Mapping[str, StreamConfig]
) -> "ScopedReaders | None":
    if "readers" not in query.names:
        return None
    from firn.config.reader_scopes_reader import read_scoped_readers  # few files have them

    return read_scoped_readers(query.section("readers"), readers, console or ConsoleAccess(), streams)


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
        if name == CREDENTIAL_PLACE:
            where = "where the secret is: secretsmanager:NAME, ssm:/NAME or file:/PATH"
            properties[name] = below.parsed(name, checked_place, "", where)
        elif is_secret_name(name) or (value is not None and secret_in(value)):
            below.note(
                name,
                "is a secret, and this file is stored beside the data; take it out and set it in the environment "
                f"(PYICEBERG_CATALOG__FIRN__{re.sub('[^A-Z0-9]+', '_', name.upper())}), or write "
                f"{CREDENTIAL_PLACE}: and the place of a secret that holds CLIENT_ID:SECRET (a database's: its "
                "password)",
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
    placed: list[Placed] = []
    streams, files = {}, top.section(FILES)
    for name in section.names:
        if not _STREAM_NAME.fullmatch(name):
            section.note(
                name, f"is not a stream name; write a-z, 0-9, _ and - only, {_as_stream_name(name)} for example"
            )
        streams[name] = _stream(name, section.section(name), placed, care, files)
        _check_senders(section.section(name), streams[name])
    check_targets(placed, top.problems)
    check_event_sources(section, streams)
    if not top.problems.published:
        check_signing_secrets(section, streams)
    streams = read_views(top.section("views"), streams, placed, care)
    check_joins(section, streams)
    if any(rule.shard for stream in streams.values() for rule in stream.tables):
        from firn.config.sharding_reader import bounded, check_sharded  # with the hashes: few files have shards

        check_sharded(section, streams)
        return {name: bounded(one) if any(r.shard for r in one.tables) else one for name, one in streams.items()}
    return streams


def _as_stream_name(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:63] or "shop"


def _stream(name: str, section: Section, placed: list[Placed], care: Care, files: Section) -> StreamConfig:
    section.allow_only(_STREAM_KEYS, _MOVED_STREAM)
    debezium = section.section("debezium")
    debezium.allow_only(_DEBEZIUM, _MOVED_DEBEZIUM)
    out_of_range: OutOfRange = "null"
    # `out_of_range: null` is the word here, though YAML reads it as nothing.
    if section.node("out_of_range") is not None:
        out_of_range = section.choice("out_of_range", OutOfRange, "treatment", "null")
    tables = read_tables(name, section, placed, care, files)
    order_by = _order_by(section)
    check_order(section, order_by, tables)
    envelope = section.choice("envelope", registry.KNOWN.names, "envelope", StreamConfig.envelope)
    # Emitters other than Debezium write decimals as JSON numbers or as their digits, never as bytes; this reads both.
    decimal: DecimalMode = "double" if registry.KNOWN.is_shaped(envelope) else "precise"
    rows = read_rows(section, tables, bare=registry.KNOWN.bare(envelope) is not None)
    job, lanes = _job(section, sharded=any(rule.shard for rule in tables))
    settings = StreamConfig(
        name=name,
        tables=tables,
        envelope=envelope,
        unavailable_value=section.text("unavailable_value", "the connector's placeholder") or UNAVAILABLE,
        commit=_commit(section.section("commit")),
        backlog=_backlog(section.section("backlog")),
        decimal=debezium.choice("decimal.handling.mode", DecimalMode, "decimal mode", decimal),
        time=debezium.choice("time.precision.mode", TimeMode, "time mode", "adaptive"),
        binary=debezium.choice("binary.handling.mode", BinaryMode, "binary mode", "bytes"),
        interval=debezium.choice("interval.handling.mode", IntervalMode, "interval mode", "numeric"),
        unsigned=debezium.choice("bigint.unsigned.handling.mode", UnsignedMode, "mode of unsigned integers", "long"),
        out_of_range=out_of_range,
        generation=section.integer("generation", 0, _MAX_GENERATION, 0),
        order_by=order_by,
        table_by=rows.table_by,
        op_field=rows.op_field,
        delete_when=rows.delete_when,
        delete_if=rows.delete_if,
        job=job,
        lanes=lanes,
        auth=read_auth(section.section("auth"), queue=True),
        writers=_writers(section),
        accept=read_accept(section),
        max_tables=section.integer("max_tables", 1, _MAX_TABLES, StreamConfig.max_tables),
        rate=section.parsed("rate", quantities.rate, None, "5MB/s"),
        max_body=section.parsed("max_body", quantities.body_size, None, "1MB"),
        fed_by=read_event_sources(section),
    )
    further = read_further_targets(section.section("tables"), settings, placed)
    pipelines = read_pipelines(section.section("pipelines"), settings, placed, care)
    return replace(settings, pipelines=(*further, *pipelines))


def _job(section: Section, *, sharded: bool) -> tuple[str, int]:
    """Whose runs commit it, and in how many lanes: the name alone, or both. `sharded`: whether lanes are of use."""
    of, key, lanes = section, "job", StreamConfig.lanes
    if section.is_mapping("job"):
        of, key = section.section("job"), "name"
        of.allow_only(("name", "lanes"))
        lanes = of.integer("lanes", 1, _MOST_LANES, lanes)
        if lanes > 1 and not sharded:
            of.note(
                "lanes", "is of streams that have a table of several shards; leave it out, or write shard in a rule"
            )
    return of.text(key, "a name; streams that give the same one share their job runs") or StreamConfig.job, lanes


def _writers(section: Section) -> "Mapping[str, Writer]":
    if "writers" not in section.names:
        return {}
    from firn.config.writers_reader import read_writers  # few streams have some

    return read_writers(section)


def _check_senders(section: Section, stream: StreamConfig) -> None:
    check_ways(section, stream.auth, stream.accept)
    if stream.writers:
        from firn.config.writers_reader import check_writers

        check_writers(section, stream)


def _order_by(section: Section) -> tuple[str, ...]:
    fields = section.each_once("order_by", "order_by: updated_at, or order_by: [updated_at, version]")
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
