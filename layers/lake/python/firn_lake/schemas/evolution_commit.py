"""Carries an evolution out: what PyIceberg is told for each step of the plan, in one commit."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ValidationError
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.types import IcebergType

from firn.errors import TransientError, UnknownOutcome
from firn.tables.renames import RENAMES
from firn.tables.shard_names import shard_in
from firn.tables.table_state import DROPPED, dropped_ids, streams_in
from firn_lake.long_history import summaries_of
from firn_lake.schemas.alter import alter_statements
from firn_lake.schemas.ddl import described
from firn_lake.schemas.ddl_writer import Described
from firn_lake.schemas.evolution import EvolutionRefused, plan
from firn_lake.schemas.evolution_steps import Step, Subject, Wishes
from firn_lake.tables import key_columns, shown

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.update.schema import UpdateSchema

_TRIES = 5


@dataclass(frozen=True)
class Evolution:
    """What was done, or would be: `steps` in their order (none: it was all so already), and the schema after them.

    `applied`: whether it was committed; False after a dry run, and where nothing was to be done. `before`: the table
    that the steps change.
    """

    table: str
    steps: tuple[Step, ...]
    schema: Schema
    applied: bool
    before: Described

    def to_sql(self, dialect: str = "spark") -> str:
        """The same changes as ALTER statements of Spark or Trino, parted by `;` and an empty line; "" for none.

        They fit the table as it was before: plan with `dry_run=True` for SQL to run. Raises NoSuchDialect,
        NotInDialect.
        """
        return ";\n\n".join(alter_statements(self.before, self.steps, dialect))

    def __str__(self) -> str:
        if not self.steps:
            return f"{self.table}: nothing to change"
        done = "done" if self.applied else "not done (dry run)"
        count = "1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
        return "\n".join([f"{self.table}: {count}, {done}", *(f"  {step}" for step in self.steps)])


def evolve(table: "Table", wishes: Wishes, *, dry_run: bool = False, despite_stream: bool = False) -> Evolution:
    """The table's columns as the wishes say, in one commit; snapshots, tags and progress stay as they are.

    Raises EvolutionRefused (nothing was changed), TransientError if others kept changing the table, UnknownOutcome.
    """
    name = shown(table)
    for _ in range(_TRIES):
        before = described(table)
        subject = subject_of(table)
        steps = plan(subject, wishes, despite_stream=despite_stream)
        if not steps:
            return Evolution(name, (), table.schema(), False, before)
        transaction = table.transaction()
        try:
            _stage(transaction, steps, fed=subject.stream is not None)
        except (ValueError, ValidationError) as error:  # what the plan does not know of Iceberg's own rules
            raise EvolutionRefused(f"{name} stays as it is: {error}") from error
        after = transaction.table_metadata.schema()
        if dry_run:
            return Evolution(name, steps, after, False, before)
        try:
            transaction.commit_transaction()
        except CommitFailedException:
            table.refresh()  # another writer was quicker: plan again, with what it has made
            continue
        except CommitStateUnknownException as error:
            raise UnknownOutcome(
                f"{name}: the catalog did not say whether it was changed; look at .columns()"
            ) from error
        except NotImplementedError as error:  # so PyIceberg says it of format 3, before it does anything
            raise EvolutionRefused(
                f"{name} is of a format that a catalog of PyIceberg's own does not write; nothing was changed. Open it "
                "by its address: firn_lake.connect('sqlite:///…', warehouse=…)"
            ) from error
        return Evolution(name, steps, table.schema(), True, before)
    raise TransientError(f"{name}: others changed the table {_TRIES} times meanwhile; nothing was changed, try again")


def subject_of(table: "Table") -> Subject:
    """What the plan has to know of the table. Raises EvolutionRefused for Firn's own memory of deletes."""
    metadata, properties = table.metadata, table.properties
    name = shown(table)
    if properties.get("firn.mode") == "deletes":
        raise EvolutionRefused(f"{name} is Firn's own memory of deletes: it follows the columns of its table by itself")
    if (shard := shard_in(properties)) is not None:
        raise EvolutionRefused(
            f"{name} is {shard}, whose columns are planned together: they can't be altered by hand yet"
        )
    schema = table.schema()
    identifiers = tuple(sorted(schema.identifier_field_names()))
    key = key_columns(properties.get("firn.key")) or identifiers
    former = {one: new for new, names in json.loads(properties.get(RENAMES, "{}")).items() for one in names}
    stream = properties.get("firn.stream") or next(_committed(table), None)
    return Subject(name, schema, metadata.format_version, key, dict(_laid_by(table)), stream, former)


def _committed(table: "Table") -> Iterator[str]:
    """The streams that have committed to the table: of one that was adopted nothing else tells."""
    for summary in summaries_of(table.metadata):
        yield from streams_in(summary)


def _laid_by(table: "Table") -> Iterator[tuple[int, str]]:
    names = {one.field_id: one.name for schema in table.metadata.schemas for one in schema.fields}

    def shown(source: int, transform: object) -> str:
        column = names.get(source, str(source))
        return column if str(transform) == "identity" else f"{transform}({column})"

    orders = [order for order in table.metadata.sort_orders if isinstance(order, SortOrder)]
    for order in orders:
        for one in order.fields:
            yield one.source_id, f"sorted by {shown(one.source_id, one.transform)}"
    for spec in table.metadata.partition_specs:
        for part in spec.fields:
            yield part.source_id, f"partitioned by {shown(part.source_id, part.transform)}"


def _stage(transaction: "Transaction", steps: tuple[Step, ...], *, fed: bool) -> None:
    there = {one.name for one in transaction.table_metadata.schema().fields}
    with transaction.update_schema() as update:
        for step in steps:
            _tell(update, step)
    dropped = {step.column for step in steps if step.action == "drop"} & there
    if dropped and fed:
        # A column that got another type had another id before.
        schemas = transaction.table_metadata.schemas
        names = {schema.schema_id: {one.field_id: one.name for one in schema.fields} for schema in schemas}
        ids = {id for its in names.values() for id, name in its.items() if name in dropped}
        ids |= dropped_ids(names, transaction.table_metadata.properties)
        transaction.set_properties({DROPPED: json.dumps(sorted(ids))})
    # Properties name columns (metrics, bloom filters): they follow a renamed one, as they do in Iceberg for Java.
    properties = transaction.table_metadata.properties
    moved: dict[str, str] = {}
    for step in steps:
        if step.action == "rename":
            old = f".column.{step.column}"
            moved |= {one: f"{one.removesuffix(old)}.column.{step.name}" for one in properties if one.endswith(old)}
    if moved:
        transaction.remove_properties(*moved)
        transaction.set_properties({new: properties[old] for old, new in moved.items()})


def _tell(update: "UpdateSchema", step: Step) -> None:
    new = step.new
    match step.action:
        case "drop":
            update.delete_column(step.column)
        case "rename":
            update.rename_column(step.column, step.to)
        case "widen" if new is not None and isinstance(new.type, IcebergType):
            update.update_column(step.column, field_type=new.type)
        case "make optional":
            update.make_column_optional(step.column)
        case "describe" if new is not None:
            update.update_column(step.column, doc=new.doc or "")
        case "add" if new is not None and isinstance(new.type, IcebergType):
            name = step.column.removeprefix(f"{step.parent}.") if step.parent else step.column
            path = (step.parent, name) if step.parent else (name,)
            update.add_column(path, new.type, new.doc)
        case "move" if step.to:
            update.move_after(step.column, step.to)
        case "move":
            update.move_first(step.column)
        case _:
            raise ValueError(f"{step.action} {step.column} lacks what it needs")
