"""What a table's metadata says: columns, key, and how far each stream has come in main's ancestry."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from firn.changes.decode.column_defaults import write_default
from firn.changes.decode.iceberg_fields import column_of
from firn.changes.decode.types import INFERRED, Column, storable
from firn.changes.metadata_columns import METADATA
from firn.changes.positions import by_field
from firn.changes.record import by_record
from firn.errors import TerminalError

EPOCH = "firn.epoch."
SEALED = "firn.sealed."  # that epoch's nonce: numbers start over where a staging area does, nonces never come again
REFRESHES: Final = "_view"  # a view's refreshes count as epochs of a stream of a name that none has: for its fence
REBUILD = "firn.rebuild"  # in the first snapshot of a table that was rebuilt in place: which rebuild it was
SCHEMA = "firn.schema"  # in a snapshot: how often the table was altered up to it (docs/adr/0031)
MODE, KEY = "firn.mode", "firn.key"  # table properties
INFERRED_AS = "firn.inferred"  # table property: see TableState.inferred
# Table property: of each pipeline that feeds an append table, what it was seen to read (firn_sql.feed_plan).
PIPELINE_INPUT: Final = "firn.pipeline.input"
FIRST_IDENTITY = "firn.identity.first"  # property of an append table: see TableState.first_identity
FORMAT = "firn.format"  # table property: 1, or what a version needs to know at least to write the table
_TOLD_APART: Final = 2  # rows name their source table, or append rows have the identity of ADR 30
PATCHES_FORMAT: Final = 3  # rows hold all columns but some (metadata_columns.OTHERS_ID)
NEWEST_FORMAT: Final = PATCHES_FORMAT
NO_FIRST_IDENTITY = {FIRST_IDENTITY: "[]", FORMAT: str(_TOLD_APART)}  # of one that is made now
# Of a table of delete facts: the newest fact, the newest truncate (orders, hex), and whether there are facts of op c.
NEWEST, TRUNCATED, CREATES = "firn.newest", "firn.truncated", "firn.creates"
FACTS = "firn.deletes"  # table property: where the delete facts are, if not in `{table}__deletes`
FLOOR = "firn.floor"  # property of that table: the order (plain) up to which facts were dropped
# Property of that table, "true" where `order_by` may name numbers, such as a counter of each row's versions: these say
# nothing of time, so no delete is ever forgotten and the floor counts for nothing.
BY_NUMBER = "firn.order_by.numbers"
NAMED_KEY = "firn.named-key"  # table property: see TableState.named_key
HELD_IDS = "firn.held"  # table property: ids of the fields that rows may hold
DROPPED: Final = "firn.dropped"
"""Table property: field ids, as JSON, of columns that `evolve` dropped: a column of that name may come back empty."""
SOURCES = "firn.sources"  # table property: TableState.sources as JSON
_TIMES: Final = frozenset({"date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_MADE_BY = "firn.source"  # table property: the source tables that fed the table when it was made


def by_number(fields: Sequence[str], columns: Iterable[Column]) -> bool:
    """Whether changes of a stream with this `order_by` may be ordered by numbers: only a column of times says no."""
    times = {column.name for column in columns if column.type.name in _TIMES}
    return bool(fields) and fields[0] not in times


def floor_of(properties: Mapping[str, str], *, numbers: bool = False) -> bytes:
    """The order (plain) in a facts table's properties up to which facts were dropped; b"" if none were. `numbers`: as
    by_number says, before the table does."""
    floor = bytes.fromhex(properties.get(FLOOR, ""))
    if by_record(floor):
        return b""
    return b"" if (numbers or properties.get(BY_NUMBER) == "true") and by_field(floor) else floor


@dataclass(frozen=True)
class Basis:
    """What a plan for a table rests on, beside a stream's progress. Where it is another one by the time of the commit,
    the plan's files could hold values under fields that nobody reads any more, or rows of another key.

    uuid       the table's: one that is dropped and made again is another one under the same name
    mode, key  its properties, None where it has none
    rebuilt    the number of the rebuild in place that it is
    altered    how often a column was renamed or got another type, or the partitioning changed
    """

    uuid: str
    mode: str | None
    key: str | None
    rebuilt: int
    altered: int

    @classmethod
    def of(cls, uuid: str, properties: Mapping[str, str], summaries: Iterable[Mapping[str, str]]) -> "Basis":
        """`summaries`: of a snapshot and its ancestors."""
        found = list(summaries)
        return cls(uuid, properties.get(MODE), properties.get(KEY), _highest(REBUILD, found), _highest(SCHEMA, found))

    def next(self) -> "Basis":
        """The same after one alteration more."""
        return replace(self, altered=self.altered + 1)

    def summary(self) -> dict[str, str]:
        """What each commit says of it, so that a snapshot tells all that its ancestors told."""
        return {SCHEMA: str(self.altered)} if self.altered else {}


@dataclass(frozen=True)
class TableState:
    """One version of an Iceberg table's metadata, as plain values.

    `fields` are Iceberg's own JSON objects of the current schema (`id`, `name`, `required`, `type`);
    `ancestry` holds the summaries of the current snapshot and its ancestors, newest first; `partitioned_by` holds the
    ids of the fields that the table is or was partitioned by; `version` is Iceberg's format version;
    `gone` names the columns that the table had in a commit of a stream's and has no more under that name, without
    those that were dropped on purpose (empty for a branch, whose rows are made anew).
    """

    location: str
    properties: Mapping[str, str]
    fields: tuple[Mapping[str, Any], ...]
    snapshot_id: int | None
    ancestry: tuple[Mapping[str, str], ...]
    partitioned_by: frozenset[int] = frozenset()
    uuid: str = ""
    version: int = 2
    gone: frozenset[str] = frozenset()

    @property
    def records(self) -> int:
        """Rows in data files, deleted ones included; 0 where no snapshot tells."""
        return int(self.ancestry[0].get("total-records", 0)) if self.ancestry else 0

    @cached_property  # a commit asks some six times
    def columns(self) -> tuple[tuple[Column, ...], frozenset[str]]:
        """The source's columns, and the names of those whose type Firn has no word for. Metadata columns left out."""
        known = {field["name"]: self._column(field) for field in self.fields if field["name"] not in METADATA}
        unknown = frozenset(name for name, column in known.items() if column is None)
        columns = [column for column in known.values() if column is not None]
        as_seen = [replace(c, type=INFERRED.get(self.inferred.get(c.name, ""), c.type)) for c in columns]
        stored = zip(columns, as_seen, strict=True)
        return tuple(seen if storable(seen.type) == column.type else column for column, seen in stored), unknown

    def _column(self, field: Mapping[str, Any]) -> Column | None:
        """The column of a field; None where Firn does not write it: of a table that Firn has not made a struct, which
        holds what it was never told of, a map, and what is of one length, which no change of its stream tells."""
        column = column_of(field)
        if column is None:
            return None
        if self.key() is None and any(column.type.holds(name) for name in ("struct", "fixed", "map", "variant")):
            return None
        return replace(column, default=write_default(field, column.type))

    @property
    def sources(self) -> tuple[str | None, ...]:
        """The source tables whose changes a mirror table has had. The first is that of rows without `_firn_source`;
        None: it isn't known, the table was made before that was noted, or not by Firn."""
        if SOURCES in self.properties:
            return tuple(json.loads(self.properties[SOURCES]))
        return (None, *filter(None, self.properties.get(_MADE_BY, "").split(", ")))

    @cached_property
    def inferred(self) -> Mapping[str, str]:
        """Columns of which inference has seen only what is double once a fraction is among it, with what that was
        (changes.types.INFERRED)."""
        return dict(json.loads(self.properties.get(INFERRED_AS, "{}")))

    @property
    def first_identity(self) -> tuple[str, ...]:
        """Streams of which an append table may hold rows by their first identity (decoded_rows.first_identity): none
        of a table made since; of one from before those that it had rows of when the present identity met it first."""
        told = self.properties.get(FIRST_IDENTITY)
        return tuple(sorted(self.streams) if told is None else json.loads(told))

    @property
    def streams(self) -> frozenset[str]:
        """Those that have committed to it."""
        return frozenset(stream for summary in self.ancestry for stream in streams_in(summary))

    @property
    def identities(self) -> dict[str, str]:
        """The property that says so from now on."""
        return {FIRST_IDENTITY: json.dumps(self.first_identity)}

    def fixed(self) -> frozenset[str]:
        """Columns whose values are never rewritten for another type: all of a table that Firn did not create, and
        those that the table is or was partitioned by."""
        names = {int(field["id"]): str(field["name"]) for field in self.fields}
        if self.key() is None:
            return frozenset(names.values())
        return frozenset(names[source] for source in self.partitioned_by if source in names)

    def key(self) -> tuple[str, ...] | None:
        """The key as the property `firn.key` tells it; None for a table that Firn did not create."""
        text = self.properties.get(KEY)
        return None if text is None else tuple(json.loads(text))

    def named_key(self) -> tuple[str, ...] | None:
        """The key that the first events of a table that Firn did not create named, where firn.yaml told none."""
        text = self.properties.get(NAMED_KEY)
        return None if text is None else tuple(json.loads(text))

    def renamed(self, names: Mapping[str, str]) -> "TableState":
        """The same with columns under other names (old -> new), as a commit of metadata would leave it."""
        if not names:
            return self
        fields = tuple({**field, "name": names.get(field["name"], field["name"])} for field in self.fields)
        inferred = {names.get(name, name): kind for name, kind in self.inferred.items()}
        properties = {**self.properties, INFERRED_AS: json.dumps(inferred)} if inferred else self.properties
        return replace(self, fields=fields, properties=properties)

    def progress(self, stream: str) -> int:
        """The highest epoch of the stream that is in this table; 0 before the first."""
        return progress_in(stream, self.ancestry)

    def sealed(self, stream: str) -> str | None:
        """The nonce of the epoch that is the progress; None if no snapshot tells it."""
        n = self.progress(stream)
        found = (summary.get(SEALED + stream) for summary in self.ancestry if epoch_of(stream, summary) == n)
        return next(found, None) if n else None

    @property
    def rows_by_others(self) -> int:
        """How many snapshots since the newest commit of a stream's put rows into the table, or took some out, and are
        not Firn's. 0 of a table to which none has committed."""
        return next(self._by_others(), 0)

    @property
    def kept_by_others(self) -> int:
        """The same of all snapshots that are kept, not only of those since the newest commit of a stream's."""
        return sum(self._by_others())

    def _by_others(self) -> Iterator[int]:
        """How many came after each commit of a stream's, the newest first."""
        count = 0
        for summary in self.ancestry:
            if any(name.startswith(EPOCH) for name in summary):
                yield count
                count = 0
            count += _is_by_others(summary)

    @property
    def basis(self) -> Basis:
        """What a plan for this table rests on."""
        return Basis.of(self.uuid, self.properties, self.ancestry)


def streams_in(summary: Iterable[str]) -> Iterator[str]:
    """The streams whose epochs a snapshot's summary tells (its names); what a view's refreshes are told by is none."""
    return (name.removeprefix(EPOCH) for name in summary if name.startswith(EPOCH) and name != EPOCH + REFRESHES)


def fed_by(state: TableState | None, sources: Iterable[str]) -> tuple[str | None, ...]:
    """`TableState.sources` of a mirror table once it has changes of these source tables too; None: it isn't made."""
    return tuple(dict.fromkeys((*(state.sources if state else ()), *sources)))


def are_several(sources: Iterable[str | None]) -> bool:
    """Whether more than one source table is among them: then each row says of which one it is."""
    return len(set(sources) - {None}) > 1


def source_properties(state: TableState | None, sources: Iterable[str]) -> dict[str, str]:
    """What a mirror table says of its source tables once it has changes of these too; {} if it says so already."""
    fed = fed_by(state, sources)
    if state is not None and state.sources == fed:
        return {}
    said = {SOURCES: json.dumps(fed, ensure_ascii=False)}
    return said | (at_least(state, _TOLD_APART) if are_several(fed) else {})


def at_least(state: TableState | None, number: int) -> dict[str, str]:
    """The property by which only versions that know this format write the table from now on. The table has one that is
    known (check_format)."""
    there = state.properties.get(FORMAT, "1") if state else "1"
    return {FORMAT: str(max(number, int(there)))}


def check_format(state: TableState | None) -> None:
    """Raises TerminalError for a table that a newer version of Firn has written."""
    number = state.properties.get(FORMAT, "1") if state else "1"
    if not (number.isascii() and number.isdecimal() and int(number) <= NEWEST_FORMAT):
        raise TerminalError(
            f"the table has {FORMAT} {number[:20]}, and this Firn knows {NEWEST_FORMAT} at most: a newer one "
            "has written it. Deploy that version again; the changes wait in the log"
        )


def of_unnamed(sources: Sequence[str | None]) -> str | None:
    """The source table of rows without `_firn_source`; None: it isn't known. `sources`: as TableState has them."""
    return sources[0] if are_several(sources) else next((one for one in sources if one is not None), None)


def progress_in(stream: str, summaries: Iterable[Mapping[str, str]]) -> int:
    """The highest `firn.epoch.{stream}` in the summaries: a twin may have landed after its successor."""
    return _highest(EPOCH + stream, summaries)


def field_before(column: Column, number: int | None, fields: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Which of the fields (as TableState.fields) of an earlier schema the column was; None if it was not there.

    number  its field id today. Where it has got another one since, as another type needs, the name tells, or one that
            it had before
    """
    there = {int(field["id"]): field for field in fields}
    named = {str(field["name"]): field for field in there.values()}
    if number in there:
        return there[number]
    return next((named[name] for name in (column.name, *column.earlier) if name in named), None)


def epoch_of(stream: str, summary: Mapping[str, str]) -> int:
    """The epoch of the stream up to which a snapshot brought its table; 0 if it is none of the stream's."""
    return progress_in(stream, (summary,))


def parse(metadata: str, branch: str | None = None) -> TableState:
    """Reads table metadata JSON (Iceberg spec, appendix C: format v2 and v3). `branch`: whose snapshots to tell of;
    None for main.
    """
    table = json.loads(metadata)
    schema = next(schema for schema in table["schemas"] if schema["schema-id"] == table["current-schema-id"])
    snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in table.get("snapshots") or ()}
    refs = table.get("refs") or {}
    current = table.get("current-snapshot-id") if branch is None else refs.get(branch, {}).get("snapshot-id")
    current = None if current in (None, -1) else current
    chain = list(_chain(current, snapshots))
    return TableState(
        location=table["location"],
        properties=table.get("properties") or {},
        fields=tuple(schema["fields"]),
        snapshot_id=current,
        ancestry=tuple(snapshot.get("summary") or {} for snapshot in chain),
        partitioned_by=frozenset(
            int(field["source-id"]) for spec in table.get("partition-specs") or () for field in spec["fields"]
        ),
        uuid=table.get("table-uuid", ""),
        version=int(table.get("format-version", 2)),
        gone=_gone(chain, table) if branch is None else frozenset(),
    )


def _is_by_others(summary: Mapping[str, str]) -> bool:
    return not any(name.startswith("firn.") for name in summary) and summary.get("operation") != "replace"


def _chain(current: int | None, snapshots: Mapping[int, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    while current is not None and (snapshot := snapshots.get(current)) is not None:
        yield snapshot
        current = snapshot.get("parent-snapshot-id")


def _gone(chain: Iterable[Mapping[str, Any]], table: Mapping[str, Any]) -> frozenset[str]:
    told = ((one.get("schema-id"), one.get("summary") or {}) for one in chain)
    names = {one["schema-id"]: {field["id"]: field["name"] for field in one["fields"]} for one in table["schemas"]}
    return gone_from(told, names, table["current-schema-id"], table.get("properties") or {})


def gone_from(
    chain: Iterable[tuple[int | None, Mapping[str, str]]],
    names: Mapping[int, Mapping[int, str]],
    current: int,
    properties: Mapping[str, str],
) -> frozenset[str]:
    """Names that columns had in those of the snapshots that name an epoch, and that no column has now. `chain`: schema
    and summary of each snapshot; `names`: of the columns of each schema, by field id."""
    fed = {schema for schema, summary in chain if any(name.startswith(EPOCH) for name in summary)}
    dropped = dropped_ids(names, properties)
    had = {name for one, its in names.items() if one in fed for id, name in its.items() if id not in dropped}
    return frozenset(had.difference(names[current].values()))


def dropped_ids(names: Mapping[int, Mapping[int, str]], properties: Mapping[str, str]) -> frozenset[int]:
    """The field ids that DROPPED tells. It held names before, which stand for all columns that were called so by then.
    `names`: of the columns of each schema, by field id. Raises TerminalError."""
    try:
        told = frozenset(json.loads(properties.get(DROPPED, "[]")))
    except (ValueError, TypeError) as error:
        raise TerminalError(
            f"the table property {DROPPED} is {properties[DROPPED]!r:.200}; set it to the field ids of the columns "
            'that were dropped on purpose, such as "[3, 7]", or to "[]"'
        ) from error
    by_name = {id for its in names.values() for id, name in its.items() if name in told}
    return frozenset(one for one in told if isinstance(one, int)) | by_name


def _highest(name: str, summaries: Iterable[Mapping[str, str]]) -> int:
    """The highest number under this name, 0 without one."""
    return max((int(summary[name]) for summary in summaries if name in summary), default=0)
