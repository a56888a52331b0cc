"""What a task does with a slice of a mirror table's keys: look up, decide, write. The job commits what comes back."""

import pickle
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.types import Column
from firn.changes.merge import decide
from firn.changes.merge.fold import Key, RowChange
from firn.changes.metadata_columns import FACTS_METADATA, POSITION
from firn_spark.files import row_lookup
from firn_spark.files.row_lookup import Files, Wanted
from firn_spark.files.write import Layout, NewFile, rows_of, write_rows
from firn_spark.merge import column_decoder, key_lookup
from firn_spark.merge import columnar_merge as by_columns
from firn_spark.merge.decision import SliceRules, decide_slice
from firn_spark.merge.delete_memory import changes_in, newer_in, whole_facts
from firn_spark.merge.key_lookup import Emptied, Found, Ground
from firn_spark.merge.mirror_commit import METADATA
from firn_spark.merge.shape import Shape
from firn_spark.slices import by_partition
from firn_spark.slices.decoding import body_of, table_of
from firn_spark.slices.tasks import Rest, results
from firn_spark.tables import deletes

_FILE, _ROW = "file", "row"


@dataclass(frozen=True)
class Slice:
    """Where the rows of a slice's keys may be, and the facts that may be newer than its changes (None: there is none),
    planned before the keys are known (Wanted.between); `older`: the other facts too, where updates leave values out and
    may meet a row that another tool loaded. `number`: of the slice, in the order of the keys."""

    number: int
    rows: Files
    facts: Files | None
    older: Files | None


@dataclass(frozen=True)
class Work:
    """What all slices of a table have in common. Goes to the executors.

    rules    what is decided, and how; the rest is the job's
    shape    of the table's rows; `sources`: its source tables (table_state)
    emptied  the order of the newest truncate that is remembered; `truncates`: those that are and may matter
    ids      row_lookup.ids_of: of the table, and of its facts
    layout   of the table's new files; `facts`: of new facts, None if there are none; `looked`: the snapshot that was
             looked at
    slices   by label
    worth    rows of a partition that are worth a file of their own, where slices share partitions; 0: they don't
    """

    rules: SliceRules
    shape: Shape
    sources: Sequence[str | None]
    emptied: bytes
    truncates: Sequence[RowChange]
    ids: Mapping[str, int]
    fact_ids: Mapping[str, int]
    layout: Layout
    facts: Layout | None
    looked: int | None
    slices: Mapping[int, Slice]
    worth: int


@dataclass(frozen=True)
class Done:
    """What became of one slice, or of several: new files of rows and of facts, the places of the rows that go, changes
    that are left to be decided one by one (as column_decoder has them), and how many keys a change decided."""

    files: Sequence[NewFile]
    facts: Sequence[NewFile]
    gone: deletes.Places
    left: pa.Table
    told: int


@dataclass(frozen=True)
class _SliceLookup:
    """A Lookup of one slice, for keys that no move connects to others."""

    work: Work
    mine: Slice

    def places(self, newest: pa.Table, decoding: Decoding) -> pa.Table:
        """As PlainLookup says."""
        key = [decoding.columns[i] for i in decoding.key]
        parts = []
        if len(newest) and self.mine.rows.files:
            files = replace(self.mine.rows, wanted=_values(newest, key, decoding))
            parts = row_lookup.read_columns(files, self.work.ids, POSITION, key_lookup.lowest(newest))
        return key_lookup.places_in(parts, key, decoding)

    def newer(self, orders: pa.Table, decoding: Decoding) -> pa.Table:
        """As PlainLookup says."""
        if self.mine.facts is None or not len(orders):
            return orders.drop_columns("_order").slice(0, 0)
        key = [decoding.columns[i] for i in decoding.key]
        files = replace(self.mine.facts, wanted=_values(orders, key, decoding))
        return newer_in(files, self.work.fact_ids, orders)

    def emptied(self, _decoding: Decoding, _truncates: Sequence[RowChange]) -> Emptied:
        """As Lookup says: rows whose keys do not change are the job's."""
        return Emptied({}, ())

    def before(
        self, decoding: Decoding, changes: Sequence[RowChange], truncates: Sequence[RowChange], _emptied: Emptied
    ) -> Found:
        """As Lookup says, but for what only the log tells: the job decides keys that are to be folded again."""
        work, mine = self.work, self.mine
        key = [decoding.columns[i] for i in decoding.key]
        touched = {change.key for change in changes}

        def files(keys: Collection[Key] | None) -> Files:
            wanted = Wanted(key, touched if keys is None else keys)
            return replace(mine.rows, wanted=wanted) if wanted.keys else Files(wanted)

        def facts(keys: Collection[Key], low: bytes) -> Sequence[RowChange]:
            files = mine.facts if low else mine.older or mine.facts
            if files is None or not keys:
                return ()
            return changes_in(replace(files, wanted=Wanted(key, keys)), work.fact_ids, key, low)

        ground = Ground(
            key, work.shape.columns, work.sources, work.ids, bool(work.shape.held_ids), False, work.emptied,
            files, facts, lambda _: (), lambda: work.truncates, lambda _: (), lambda _: (),
        )  # fmt: skip
        before = decide.look(ground, changes, truncates, work.sources)
        return Found(before, ground.places, ground.times, {}, ground.spare)


def _values(rows: pa.Table, key: Sequence[Column], decoding: Decoding) -> Wanted:
    return Wanted(key, some=[pc.unique(rows[name]) for name in by_columns.key_names(decoding)])


def done_in(rows: DataFrame, work: Work) -> Done:
    """Has the slices of `rows` (decoding.SLICED) worked on, a task each. Raises Unfit, fence.LostRace, and what Spark
    raises."""
    if not work.slices:
        return Done([], [], {}, column_decoder.schema(work.rules.decoding).empty_table(), 0)
    bodies, more = results(rows, len(work.slices), partial(_worked, work), work.layout if work.worth else None)
    each = [_read(body) for body in bodies]
    return Done(
        [*(file for done in each for file in done.files), *more],
        [file for done in each for file in done.facts],
        deletes.together(done.gone for done in each),
        pa.concat_tables([column_decoder.schema(work.rules.decoding).empty_table(), *(done.left for done in each)]),
        sum(done.told for done in each),
    )


def _worked(work: Work, label: int, plain: pa.Table) -> tuple[bytes, Rest]:
    done, rest = _decided(work, work.slices[label], plain)
    return _written(done), rest


def _decided(work: Work, mine: Slice, plain: pa.Table) -> tuple[Done, Rest]:
    """What became of a slice, and the rows that are yet to be written (by_partition.placed). Raises what the look-ups
    raise, StorageUnavailable, UnknownOutcome."""
    decoding, shape, lookup = work.rules.decoding, work.shape, _SliceLookup(work, mine)
    made = decide_slice(plain, work.rules, lookup)
    cells = by_columns.cells(work.sources, made.whole, made.columns, shape.columns)
    told = made.rows.cells(work.sources, shape, work.layout) if made.rows.decided.writes else {}
    rows = rows_of(work.layout, [*shape.columns, *METADATA], cells, told)
    here, rest = by_partition.placed(work.layout, rows, mine.number, work.worth) if work.worth else ([rows], [])
    files = [file for part in here for file in write_rows(work.layout, part)]
    facts: Sequence[NewFile] = ()
    if work.facts is not None:
        gone = whole_facts(by_columns.facts(made.whole, decoding, work.rules.source), work.looked)
        facts = write_rows(work.facts, rows_of(work.facts, [*shape.columns, *FACTS_METADATA], gone, {}))
    places = deletes.together((by_columns.gone(made.columns), made.rows.gone()))
    return Done(files, facts, places, made.left, made.columns.told + made.rows.decided.told), rest


def _written(done: Done) -> bytes:
    """A Done on its way: places and changes in the fewest bytes."""
    names, rows = list(done.gone), [rows.take(pc.sort_indices(rows)) for rows in done.gone.values()]
    places = pa.concat_tables(
        [
            pa.table({_FILE: pa.array([], pa.int32()), _ROW: pa.array([], pa.int64())}),
            *(
                pa.table({_FILE: pa.repeat(pa.scalar(number, pa.int32()), len(some)), _ROW: some})
                for number, some in enumerate(rows)
            ),
        ]
    )
    return pickle.dumps((done.files, done.facts, names, body_of(places), body_of(done.left), done.told))


def _read(body: bytes) -> Done:
    files, facts, names, places, left, told = pickle.loads(body)  # noqa: S301 (our own executors wrote it)
    rows = table_of(places)
    coded = pa.DictionaryArray.from_arrays(rows[_FILE].combine_chunks(), pa.array(names, pa.string()))
    gone = deletes.by_file(pa.chunked_array([coded]), rows[_ROW])
    return Done(files, facts, gone, table_of(left), told)
