"""Decoding by columns: the same rows as firn.changes.decode.row_decoder gives one by one, for what is plain.

Plain is a change whose images are JSON objects without placeholder, whose cells are of their column's kind, and whose
key stays as it is. All images of a record batch are decoded in one call, and what the fold needs beside them is passed
on as it came. Anything else (errors, unavailable values, changed keys) is left to the decoder of rows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from firn.changes.change import PATCHES, STEPPED
from firn.changes.decode.codec import NOT_PLAIN, RowCodec
from firn.changes.decode.json_lines import one_a_line
from firn.changes.decode.poison import poison
from firn.changes.decode.row_decoder import META, READ, Decoder, MirrorDecoder
from firn_spark.staged.vectors import Column

# What `META` takes from a raw change as it is. _before is an append table's; the others tell of what is not plain.
_PASSED = {
    "_epoch": "epoch", "_batch": "batch", "_index": "index", "_op": "op", "_ts": "ts", "_pos": "pos", "_ord": "ord",
    "_tx_order": "tx_order", "_occurrence": "occurrence", "_origin": "origin", "_table": "table",
}  # fmt: skip
_LONGEST_DELETE = 4_300  # bytes: longer integers than that are none to Python's own JSON


class Images:
    """Decodes the images of one codec. Not thread-safe."""

    def __init__(self, codec: RowCodec) -> None:
        self._codec = codec
        self._columns = [Column(codec, index) for index in range(len(codec.target))]

    def arrays(self, images: pa.Array, odd: set[int], *, whole: bool = False) -> list[pa.Array]:
        """An array for each column. The places of images that only the codec can take are added to `odd`; what the
        arrays hold there means nothing. `whole`: an image that does not name each column is odd."""
        cells = self._cells(images, odd)
        if whole:
            for of_one in cells:
                odd.update(place for place, cell in enumerate(of_one) if cell is UNSET)
        return [column.array(of_one, odd) for column, of_one in zip(self._columns, cells, strict=True)]

    def _cells(self, images: pa.Array, odd: set[int]) -> list[list[Any]]:
        traces = self._codec.traces
        if traces is None:
            odd.update(range(len(images)))
            return [[None] * len(images) for _ in self._columns]
        lines = joined(images)
        for trace in traces:
            if trace in lines:
                odd.update(_places(pc.match_substring(images, trace.decode())).to_pylist())
        objects = pc.and_(pc.starts_with(images, "{"), pc.ends_with(images, "}"))
        if one_a_line(lines, len(images), objects=pc.all(objects).as_py()):
            try:
                cells = self._codec.cells(lines)
            except NOT_PLAIN:
                pass
            else:
                if all(len(of_one) == len(images) for of_one in cells):
                    return cells
        return self._one_by_one(images, odd)

    def _one_by_one(self, images: pa.Array, odd: set[int]) -> list[list[Any]]:
        """The same, for a batch with images that are no JSON objects, or hold line breaks."""
        columns: list[list[Any]] = [[] for _ in self._columns]
        for place, image in enumerate(images.to_pylist()):
            try:
                cells = self._codec.cells(image.encode())
            except NOT_PLAIN:
                cells = []
            if [len(cell) for cell in cells] != [1] * len(columns):
                odd.add(place)
                cells = [[None]] * len(columns)
            for column, cell in zip(columns, cells, strict=True):
                column += cell
        return columns


class Columnar:
    """Decodes record batches with the columns READ, for one table, as `decoder` decodes their rows."""

    def __init__(self, decoder: Decoder, schema: pa.Schema) -> None:
        """`schema`: of the batches to give, META or some of it, then c0, c1, …"""
        self._decoder = decoder
        self._schema = schema
        self._meta = schema.names[: len(schema.names) - decoder.width]
        self._mirror = isinstance(decoder, MirrorDecoder)
        self._key = decoder.decoding.key
        self._keyless = self._mirror and (not self._key or decoder.decoding.no_key is not None)
        self._images: dict[tuple[str | None, bool, bool], Images] = {}

    def batches(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The decoded rows of a batch as some batches, in no order."""
        for schema_id, flat, part in _by_schema(batch):
            done: list[pa.Array] = []
            if not self._keyless and schema_id not in self._decoder.decoding.bad_schemas:
                try:
                    for places, decoded in self._plain(part, schema_id, flat):
                        done.append(places)
                        yield decoded
                except Exception as error:  # noqa: BLE001 (one by one, the decoder of rows tells whose fault it is)
                    poison(error)
            if sum(map(len, done)) < part.num_rows:
                left = set(range(part.num_rows)).difference(*(places.to_pylist() for places in done))
                yield from self._by_rows(part.take(pa.array(sorted(left), pa.uint64())))

    def _by_rows(self, part: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        columns = [part.column(name).to_pylist() for name in READ]
        changes = [dict(zip(READ, change, strict=True)) for change in zip(*columns, strict=True)]
        rows, batch = self._decoder.fitting(changes, lambda rows: typed(rows, self._schema))
        if rows:
            yield batch

    def _plain(
        self, part: pa.RecordBatch, schema_id: str | None, flat: bool
    ) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        """The plain changes of a part with one schema: their places, and them decoded."""
        op, before, after = part["op"], part["before"], part["after"]
        placed, deletes = pc.is_null(part["fault"]), pc.equal(op, "d")
        if not self._decoder.decoding.snapshot_reads:
            placed = pc.and_(placed, pc.not_equal(op, "r"))
        if not self._mirror:
            if self._decoder.decoding.ruled:  # a deleted row is not judged as others are
                placed = pc.and_not(placed, deletes)
            placed = pc.and_not(placed, pc.is_in(part["connector"], pa.array(sorted(STEPPED))))
            images = pc.if_else(deletes, pc.coalesce(before, after), pc.coalesce(after, before))
            yield from self._rows(part, pc.and_(placed, pc.is_valid(images)), images, (schema_id, flat))
            return
        rows = pc.and_not(pc.and_(placed, pc.is_valid(after)), pc.is_in(op, pa.array(["d", "t"])))
        # What an update leaves out that names only some of its columns, the decoder of rows tells.
        patches = pc.and_(pc.equal(op, "u"), pc.is_in(part["connector"], pa.array(sorted(PATCHES))))
        rows = pc.and_not(rows, patches)
        yield from self._rows(part, rows, after, (schema_id, flat))
        images = pc.coalesce(part["key"], before, after)
        short = pc.less_equal(pc.binary_length(images), _LONGEST_DELETE)
        chosen = _places(pc.and_(pc.and_(placed, deletes), pc.fill_null(short, False)))
        if len(chosen):
            # The first of these images that names the whole key counts: where it does not, the rows' decoder looks on.
            odd: set[int] = set()
            arrays = self._of(schema_id, flat, key_only=True).arrays(_taken(images, chosen), odd, whole=True)
            yield from self._kept(part, chosen, dict(zip(self._key, arrays, strict=True)), odd)

    def _rows(
        self, part: pa.RecordBatch, rows: pa.Array, images: pa.Array, schema: tuple[str | None, bool]
    ) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        chosen = _places(rows)
        if not len(chosen):
            return
        odd: set[int] = set()
        arrays = self._of(*schema).arrays(_taken(images, chosen), odd)
        if self._mirror:
            for ordinal in self._key:
                odd.update(_places(pc.is_null(arrays[ordinal])).to_pylist())
            op, before = _taken(part["op"], chosen), _taken(part["before"], chosen)
            odd |= self._moved(op, before, [arrays[ordinal] for ordinal in self._key], schema)
        yield from self._kept(part, chosen, dict(enumerate(arrays)), odd)

    def _moved(
        self, op: pa.Array, images: pa.Array, key: Sequence[pa.Array], schema: tuple[str | None, bool]
    ) -> set[int]:
        """The places of updates whose key may have been another in the images before them."""
        updates = _places(pc.and_(pc.equal(op, "u"), pc.is_valid(images)))
        if not len(updates):
            return set()
        odd: set[int] = set()
        before = self._of(*schema, key_only=True).arrays(_taken(images, updates), odd)
        for old, new in zip(before, key, strict=True):
            try:
                same = pc.equal(old, _taken(new, updates))
            except pa.ArrowNotImplementedError:  # lists
                return set(updates.to_pylist())
            odd.update(_places(pc.invert(pc.fill_null(same, False))).to_pylist())
        return {updates[place].as_py() for place in odd}

    def _kept(
        self, part: pa.RecordBatch, chosen: pa.Array, arrays: dict[int, pa.Array], odd: set[int]
    ) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        """The chosen rows with their typed columns, but for the odd."""
        if odd:
            kept = pa.array([place for place in range(len(chosen)) if place not in odd], pa.uint64())
            arrays = {ordinal: _taken(array, kept) for ordinal, array in arrays.items()}
            chosen = chosen.take(kept)
        if not len(chosen):
            return
        passed = _PASSED if self._mirror else _PASSED | {"_before": "before"}
        found = [_taken(part[passed[name]], chosen) if name in passed else None for name in self._meta]
        if "_table" in self._meta and self._decoder.names:
            place, names = self._meta.index("_table"), self._decoder.names
            found[place] = pa.array([names.get(one, one) for one in found[place].to_pylist()], pa.string())
        found += [arrays.get(ordinal) for ordinal in range(self._decoder.width)]
        filled = [
            pa.nulls(len(chosen), field.type) if array is None else array
            for array, field in zip(found, self._schema, strict=True)
        ]
        yield chosen, pa.RecordBatch.from_arrays(filled, schema=self._schema)

    def _of(self, schema_id: str | None, flat: bool, *, key_only: bool = False) -> Images:
        name = (schema_id, flat, key_only)
        if name not in self._images:
            self._images[name] = Images(self._decoder.codec(schema_id, flat, key_only=key_only))
        return self._images[name]


def typed(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Decoded rows by columns. `schema`: META or some of it, then c0, c1, …"""
    names = (*META, *(name for name in schema.names if name not in META))
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _by_schema(batch: pa.RecordBatch) -> Iterator[tuple[str | None, bool, pa.RecordBatch]]:
    """The changes of each inline schema, and of flattened rows apart."""
    flat = pc.fill_null(batch["flat"], False)
    forms, ids = pc.unique(flat).to_pylist(), pc.unique(batch["schema_id"]).to_pylist()
    for form in forms:
        for schema_id in ids:
            if len(forms) == len(ids) == 1:
                yield schema_id, form, batch
                return
            same = pc.is_null(batch["schema_id"]) if schema_id is None else pc.equal(batch["schema_id"], schema_id)
            part = batch.filter(pc.and_(pc.equal(flat, form), same))
            if part.num_rows:
                yield schema_id, form, part


def joined(images: pa.Array) -> bytes:
    """The images, none of them null, a line each."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(images)], pa.int32()), images)
    found: bytes = pc.binary_join(whole, "\n")[0].as_buffer().to_pybytes()
    return found


def _places(chosen: pa.Array) -> pa.Array:
    """Where a boolean array is true."""
    return pc.indices_nonzero(chosen)


def _taken(array: pa.Array, places: pa.Array) -> pa.Array:
    return array if len(places) == len(array) else array.take(places)
