"""`firn.yaml` as types; docs/configuration.md is the reference. firn.config.reader makes them from the file's text.

Pure, and quick to import: the ingest function imports this module on every cold start, and the reader with PyYAML only
once it has a configuration to read.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from firn.config.epoch_limits import Caps
from firn.config.event_sources import NOTHING, EventSources
from firn.config.file_writing import BloomSize, FileWriting
from firn.config.maintenance import Care
from firn.config.modes import MODES
from firn.config.names import RESERVED_NAMES, TableName, is_reserved, may_fill, too_long
from firn.config.partitions import Partition
from firn.config.rule_lookup import RuleLookup, SourceNames
from firn.errors import EventError

if TYPE_CHECKING:
    from firn.changes.decode.row_schema import RowSchema
    from firn.changes.decode.source_encodings import (
        BinaryMode,
        DecimalMode,
        DecodeSettings,
        IntervalMode,
        OutOfRange,
        TimeMode,
        UnsignedMode,
    )
    from firn.changes.decode.types import Type
    from firn.changes.merge.ordering import Order
    from firn.changes.row_condition import RowCondition
    from firn.config.alerts import Alerts
    from firn.config.console_access import ConsoleAccess
    from firn.config.pipelines import Pipeline
    from firn.config.pull_source import PullSource
    from firn.config.reader_scopes import ScopedReaders
    from firn.config.sharding import Sharding
    from firn.config.views import View
    from firn.config.writers import Writer

SnapshotReads = Literal["upsert", "ignore"]
Write = Literal["merge-on-read", "copy-on-write"]
Update = Literal["replace", "patch"]
AuthBy = Literal["iam", "api_key", "signature", "queue"]
Way = Literal["http", "sqs"]
Bloom = tuple[str, ...] | Literal["key"]
CatalogType = Literal["sql", "glue", "rest", "hive", "nessie"]

UNAVAILABLE = "__debezium_unavailable_value"


@dataclass(frozen=True)
class ColumnDeclaration:
    """What `columns:` says of a column. `source_precision` is the digits of a second that the source keeps (0 to 9):
    Debezium's adaptive modes send timestamp(0..3) as milliseconds, (4..6) as microseconds. None: not said. `default`:
    what rows have that no change told a value of, as decoded values of the stored type are; None: null."""

    type: "Type"
    source_precision: int | None = None
    default: Any = None


@dataclass(frozen=True)
class CommitPolicy:
    """When staged changes are committed: `every_seconds` after the first, or once they hold `size_bytes` (staged); and
    how much one epoch holds (`caps`). While a job is up, `fresh_seconds` after the first; it stays up for
    `linger_seconds` after the last."""

    every_seconds: int = 60
    size_bytes: int = 100_000_000
    fresh_seconds: int = 2
    linger_seconds: int = 60
    caps: Caps = field(default_factory=Caps)


@dataclass(frozen=True)
class BacklogLimit:
    """How much may wait for its commit before the stream takes nothing more: `bytes` (staged), `events`, or the oldest
    of them for `age_seconds`; None: however many, however long."""

    bytes: int = 10_000_000_000
    events: int | None = None
    age_seconds: int | None = None


@dataclass(frozen=True)
class Auth:
    """Who may post to a stream, or read tables: whoever AWS IAM lets through, or who has a key. `secret`: the place of
    the keys (firn.auth.secrets), "" for iam. `callers`: the ARNs that iam is narrowed to (firn.config.callers),
    none: whoever is let through. `queue`: SQS's ids of who may send by queue (by: queue: they alone, and by no other
    way); none: whoever may send to the queue, if the stream takes its messages."""

    by: AuthBy
    secret: str = ""
    callers: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()

    @property
    def knows_senders(self) -> bool:
        """Whether it tells one sender from another, not only strangers from those whom AWS lets in."""
        return self.by != "iam" or bool(self.callers)


@dataclass(frozen=True)
class TableRule:
    """One entry of `tables:`. `source` is `schema.table` or a pattern with `*`; `to` may hold {schema} and {table}.
    `write` says how rows leave a mirror table: by delete files, or by writing their data files again without them.
    `update`: whether a plain row takes the place of the one before, or changes the columns that it names.
    `bloom`: the columns whose Parquet files get Bloom filters; "key": those of the key, whatever it is.
    `writing`: how its files are written otherwise. `renames`: columns that the source has renamed, new name -> old
    name; `schema`: what rows must be; `also`: further tables, by pipelines; `shard`: its tables (`to`: the rest's)."""

    source: str
    to: str
    key: tuple[str, ...] | None = None
    mode: str = "mirror"  # of modes.MODES
    snapshot_reads: SnapshotReads = "upsert"
    write: Write = "merge-on-read"
    update: Update = "replace"
    partition_by: tuple[Partition, ...] = ()
    bloom: Bloom = ()
    columns: "Mapping[str, ColumnDeclaration]" = field(default_factory=dict)
    ignore: bool = False
    care: Care = field(default_factory=Care)
    renames: Mapping[str, str] = field(default_factory=dict)
    bloom_size: BloomSize = field(default_factory=BloomSize)
    writing: FileWriting = field(default_factory=FileWriting)
    metadata: tuple[str, ...] = ()  # of an append table: words of metadata_columns.ASKED_METADATA
    schema: "RowSchema | None" = None
    also: tuple[str, ...] = ()
    shard: "Sharding | None" = None

    @property
    def is_pattern(self) -> bool:
        """Whether `source` holds a `*`."""
        return "*" in self.source

    def source_of(self, table: str) -> str:
        """The whole name of the source table `table`: without schema it has the rule's own, if that names one."""
        schema = self._schema
        return table if "." in table or not schema else f"{schema}.{table}"

    def target(self, table: str) -> TableName:
        """The Iceberg table for the source table `table`. A `table` without schema takes the rule's own schema.

        Raises EventError: "bad_table" if the names give no table name, as when {schema} is asked for and unknown, or a
        pattern makes one that is too long;
        "reserved_name" if a pattern makes one of Firn's own out of them. (What firn.yaml names, the reader refuses.)
        """
        schema, dot, name = table.partition(".")
        if not dot:
            schema, name = self._schema, table
        namespace, _, target = self.to.partition(".")
        try:
            found = TableName(_fill(namespace, schema, name), _fill(target, schema, name))
        except ValueError as error:
            raise EventError("bad_table", f"source table {table!r} gives no target by {self.to!r}: {error}") from error
        if self.is_pattern and "{" in self.to and (why := self._too_long(found)) is not None:
            raise EventError(
                "bad_table",
                f"by {self.to!r} the source table would get a name that is too long: {why}; give it a rule with "
                f"another `to` in firn.yaml, such as {table[:100]}: {{to: {found.namespace[:100]}.NAME}}",
            )
        if self.is_pattern and "{" in target and is_reserved(found.table):
            raise EventError(
                "reserved_name",
                f"source table {table!r} would be {found}, and {RESERVED_NAMES}; give it a rule with another `to` in "
                f"firn.yaml, such as {table}: {{to: {found.namespace}.NAME}}",
            )
        return found

    @property
    def keyed(self) -> bool:
        """Whether its mode is (modes.TableMode)."""
        return MODES[self.mode].keyed

    def _too_long(self, target: TableName) -> str | None:
        return too_long(target.namespace, target.table, with_facts=self.keyed)

    def feeds(self, table: TableName) -> bool:
        """Whether `table` may be a target of this rule, by its name."""
        return may_fill(self.to.replace("{schema}", self._schema or "{schema}"), str(table))

    def feeds_namespace(self, namespace: str) -> bool:
        """Whether a target of this rule may lie in `namespace`, by its name."""
        return may_fill(self.to.partition(".")[0], namespace)

    @property
    def _schema(self) -> str:
        schema, dot, _ = self.source.partition(".")
        return schema if dot and "*" not in schema else ""


def _fill(template: str, schema: str, table: str) -> str:
    # In one pass, so that a table that is really named "{schema}" stays itself.
    return re.sub(r"\{(schema|table)\}", lambda word: schema if word.group(1) == "schema" else table, template)


@dataclass(frozen=True)
class StreamConfig:
    """A named ingress: how its events are written and where its tables go."""

    name: str
    tables: tuple[TableRule, ...]
    envelope: str = "debezium"  # one of those in firn.changes.envelopes.registry
    unavailable_value: str = UNAVAILABLE
    commit: CommitPolicy = CommitPolicy()
    backlog: BacklogLimit = BacklogLimit()
    decimal: "DecimalMode" = "precise"
    time: "TimeMode" = "adaptive"
    binary: "BinaryMode" = "bytes"
    interval: "IntervalMode" = "numeric"
    unsigned: "UnsignedMode" = "long"
    out_of_range: "OutOfRange" = "null"
    generation: int = 0
    order_by: tuple[str, ...] = ()
    table_by: str | None = None  # of rows: the field that names the source table
    op_field: str | None = None  # of rows: the field whose values in `delete_when` make a delete
    delete_when: frozenset[str] = frozenset()
    delete_if: "RowCondition | None" = None  # of rows: which are deletes, where no field tells it by its values
    commits: bool = False  # known of the stream, not of the file: firn.quarantine.rules.tells_commits
    job: str = "shared"
    lanes: int = 1  # of a table of several shards: how many of them a job commits at the same time
    auth: Auth | None = None
    writers: "Mapping[str, Writer]" = field(default_factory=dict)
    accept: tuple[Way, ...] | None = None
    max_tables: int = 1_000  # those that firn.yaml names one by one are never too many
    pipelines: "tuple[Pipeline, ...]" = ()
    views: "tuple[View, ...]" = ()  # those that its jobs refresh: a view comes after those that it reads
    max_body: int | None = None  # bytes of a request as sent; None: the deployment's
    rate: int | None = None  # bytes of JSON a second; None: any
    fed_by: EventSources = NOTHING

    @cached_property
    def ways(self) -> tuple[Way, ...]:
        """The ways by which it takes events. One that tells senders apart takes queue messages of those whom it lists:
        the queue's policy serves all streams. One that an event source feeds takes none, unless `accept` says so."""
        if self.accept is not None:
            return self.accept
        if self.fed_by.kind is not None:
            return ()
        auths = [auth for _, auth in self.auths()]
        http = not auths or any(auth.by != "queue" for auth in auths)
        sqs = any(auth.queue for auth in auths) or not any(auth.knows_senders for auth in auths)
        return (*(("http",) if http else ()), *(("sqs",) if sqs else ()))

    def auths(self) -> Iterator[tuple[str, Auth]]:
        """Who may post to it, by their place in firn.yaml: the stream's own `auth`, its writers'."""
        if self.auth is not None:
            yield f"the stream {self.name}", self.auth
        for writer in self.writers.values():
            yield f"the writer {writer.name} of the stream {self.name}", writer.auth

    @cached_property
    def has_schemas(self) -> bool:
        """Whether any of its tables has one."""
        return any(rule.schema is not None for rule in self.tables)

    @property
    def own_fields(self) -> frozenset[str]:
        """The fields of plain rows that say something to the stream itself: table, op, order."""
        told = self.delete_if.fields if self.delete_if is not None else ()
        return frozenset({*self.order_by, self.table_by, self.op_field, *told} - {None})

    @property
    def order(self) -> "Order":
        """What orders the stream's changes, in its present generation."""
        from firn.changes.merge.ordering import Order

        return Order(self.generation, self.order_by, self.generation if self.commits else None)

    @property
    def settings(self) -> "DecodeSettings":
        """How this stream's values are written, for `firn.changes.decode.codec.RowCodec`."""
        from firn.changes.decode.source_encodings import DecodeSettings

        return DecodeSettings(
            unavailable_value=self.unavailable_value, decimal=self.decimal, time=self.time, binary=self.binary,
            interval=self.interval, unsigned=self.unsigned, out_of_range=self.out_of_range,
        )  # fmt: skip

    def rule_for(self, table: str) -> TableRule | None:
        """The rule for a source table, or None: filtered (no rule matches, or the one that does says `ignore: true`).

        An exact rule wins; then the pattern with the most literal characters (the first in the file among equals).
        A `table` without schema, as flattened events name it, is compared with the part after each rule's first dot.
        Raises EventError("ambiguous_table") if that fits exact rules of several schemas: to guess would mix tables.
        """
        rule = self._rules.find(table)
        return None if rule is None or rule.ignore else rule

    def wants(self, table: str) -> bool:
        """Whether a source table's changes are taken: a rule does, or a pipeline reads them. Raises as `rule_for`."""
        return self.rule_for(table) is not None or bool(self.pipelines_of(table))

    def pipelines_of(self, table: str) -> "tuple[Pipeline, ...]":
        """The pipelines that read a source table, in the file's order. Raises as `rule_for`, whose names they have."""
        name = self._read.find(table) if self.pipelines else None
        return tuple(one for one in self.pipelines if one.source == name)

    @property
    def targets(self) -> tuple[TableRule, ...]:
        """A rule of each table or kind of tables that its jobs fill: its own, of each shard, of pipelines, of views."""
        return (
            *(one for r in self.tables if not r.ignore for one in (r.shard.rules(r) if r.shard else (r,))),
            *(one.rule for one in self.pipelines if one.rule is not None),
            *(one.rule for one in self.views),
        )

    def target(self, table: str) -> TableName:
        """The Iceberg table that a source table's changes go to.

        Raises EventError: "filtered_table" if no rule takes the table, else as `rule_for` and `TableRule.target`.
        """
        rule = self.rule_for(table)
        if rule is None:
            raise EventError("filtered_table", f"stream {self.name} has no rule for the source table {table!r}")
        return rule.target(table)

    @cached_property
    def _rules(self) -> RuleLookup:
        return RuleLookup(self.tables)

    @cached_property
    def _read(self) -> SourceNames:
        return SourceNames(one.source for one in self.pipelines)


@dataclass(frozen=True)
class CatalogConfig:
    """Which Iceberg catalog holds the tables. `type` is a name in catalogs.KINDS; `uri` None: the deployment's own
    (FIRN_CATALOG_URI); several places of one catalog have commas between."""

    type: CatalogType = "sql"
    uri: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The catalog as jobs and commands are told of it; "" for the deployment's own."""
        from firn.config.catalogs import address_of

        return address_of(self.type, self.uri, self.properties)


@dataclass(frozen=True)
class TargetConfig:
    """A deployment that `firn --target NAME` talks to. `stack`: its CloudFormation stack; `region`, `profile`: where
    and as whom, None for what the AWS environment says; `endpoint`: another address of AWS, such as LocalStack's."""

    stack: str
    region: str | None = None
    profile: str | None = None
    endpoint: str | None = None


@dataclass(frozen=True)
class Config:
    """All of `firn.yaml`. `warehouse` "": the deployment's (FIRN_WAREHOUSE wins over both). `sha`: SHA-256 of `text`,
    its name in epochs. Over HTTP `readers` read all, `scoped` some, `console` says who looks. None: nothing is said."""

    catalog: CatalogConfig
    warehouse: str
    streams: Mapping[str, StreamConfig]
    sha: str
    text: str
    targets: Mapping[str, TargetConfig] = field(default_factory=dict)
    care: Care = field(default_factory=Care)
    readers: Auth | None = None
    sources: "Mapping[str, PullSource]" = field(default_factory=dict)
    console: "ConsoleAccess | None" = None
    alerts: "Alerts | None" = None
    scoped: "ScopedReaders | None" = None

    def care_of(self, table: TableName) -> Care:
        """How a target table is looked after: a view as it says, else by the first rule that feeds it, else as all."""
        streams, also = self.streams.values(), self.care.also.patterns
        views = (view.rule for stream in streams for view in stream.views if view.table == table)
        rules = (rule for stream in streams for rule in stream.targets if rule.feeds(table))
        since = (r for one in streams for r in one.tables if r.shard and r.shard.may_hold(table, also))
        return (next(views, None) or next(rules, None) or next(since, None) or self).care

    @property
    def has_schemas(self) -> bool:
        """Whether any stream has."""
        return any(stream.has_schemas for stream in self.streams.values())

    def feeds_namespace(self, namespace: str) -> bool:
        """Whether tables of any stream may lie in `namespace`."""
        return any(rule.feeds_namespace(namespace) for stream in self.streams.values() for rule in stream.targets)

    def sharing(self, stream: str) -> tuple[str, ...]:
        """The streams whose changes are committed by the same job runs as those of `stream`, itself among them."""
        mine = self.streams.get(stream)
        return tuple(name for name, other in self.streams.items() if mine is not None and other.job == mine.job)
