"""Changes of the log that are plain, decoded by columns: most are, and take a third of what others do.

Plain is a change that its table must have in, with a position, whole and good: nothing left out, no step, no changed
key, no truncate. All else is left to the decoder of rows. A plain change is a tuple and no Logged, which is several
times as quick through files and in `sure_verdicts`. `as_logged` makes it one where the full rule is asked.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

from firn.audit.row_check import NOTHING, Logged
from firn.changes.change import PATCHES, STEPPED
from firn.changes.decode.image_columns import ImageColumns, Values
from firn.changes.decode.poison import poison
from firn.changes.decode.row_decoder import Decoder, MirrorDecoder
from firn.changes.merge import decoded_rows
from firn.changes.merge.fold import RowChange
from firn.changes.metadata_columns import BEFORE, OP
from firn.changes.positions import WIDTH

PlainChange = tuple[Any, bytes, str, str | None, str, int, tuple[Any, ...] | None]
"""Name (as Logged has it), order, op, source table, batch, place in it, and the values of the columns in their order
(of an append table then op and row before); None: of a delete, and where nobody asks."""
NAME: Final = 0
ORDER: Final = 1
OPERATION: Final = 2
SOURCE: Final = 3
VALUES: Final = 6

Columns = Mapping[str, Sequence[Any]]
"""Those of one staged object (commit.staged_changes.raw_columns)."""

_LONGEST_DELETE: Final = 4_300  # characters: longer integers than that are none to Python's own JSON


@dataclass(frozen=True)
class _Group:
    """Changes of one staged object that are decoded alike: their places in it, source table and inline schema."""

    columns: Columns
    places: list[int]
    table: str
    schema: str | None
    flat: bool

    def of(self, name: str, places: Sequence[int]) -> list[Any]:
        """A column at some places."""
        column = self.columns[name]
        return [column[place] for place in places]


class PlainDecoder:
    """Decodes the plain changes of one table."""

    def __init__(self, decoder: Decoder, stream: str, names: Sequence[str] | None) -> None:
        """`stream`: whose they are; `names`: of their values, None: without."""
        self._decoder, self._stream, self._names = decoder, stream, names
        self._decoding = decoder.decoding
        self._mirror = isinstance(decoder, MirrorDecoder)
        self._keyless = self._mirror and (not self._decoding.key or self._decoding.no_key is not None)
        self._ordinals = {column.name: i for i, column in enumerate(self._decoding.columns)}
        asked = {self._ordinals[name] for name in names or () if name in self._ordinals}
        self._wanted = asked | ({*self._decoding.key} if self._mirror else set())
        self._images: dict[tuple[str | None, bool, bool], ImageColumns] = {}

    def split(
        self, columns: Columns, places: Sequence[int], dead: Collection[int]
    ) -> tuple[list[PlainChange], list[int]]:
        """(the plain ones among the changes at these places, the places of the others). `dead`: the indexes of dead
        letters."""
        found: list[PlainChange] = []
        left: list[int] = []
        for group in _groups(columns, places):
            if self._keyless or group.schema in self._decoding.bad_schemas:
                left += group.places
                continue
            try:
                plain, others = (self._of_mirror if self._mirror else self._of_append)(group, dead)
            except Exception as error:  # noqa: BLE001 (one by one, the decoder of rows tells whose fault it is)
                poison(error)
                plain, others = [], group.places
            found += plain
            left += others
        return found, left

    def _of_mirror(self, group: _Group, dead: Collection[int]) -> tuple[list[PlainChange], list[int]]:
        writes, deletes, left = self._sorted(group, dead)
        found: list[PlainChange] = []
        if writes:
            values, odd = self._codec(group).decode(group.of("after", writes), self._wanted)
            odd |= self._moved(group, writes, values)
            found += self._changes(group, writes, values, odd, self._keys(values))
            left += [writes[i] for i in odd]
        if deletes:
            images = zip(*(group.of(name, deletes) for name in ("key", "before", "after")), strict=True)
            # The first that names the whole key counts: where it does not, the decoder of rows looks on.
            first = [next((one for one in some if one is not None), "") for some in images]
            keys, odd = self._codec(group, key_only=True).decode(first, whole=True)
            odd |= {i for i, image in enumerate(first) if len(image) > _LONGEST_DELETE}
            by_ordinal = {ordinal: keys[i] for i, ordinal in enumerate(self._decoding.key)}
            found += self._changes(group, deletes, {}, odd, self._keys(by_ordinal))
            left += [deletes[i] for i in odd]
        return found, left

    def _sorted(self, group: _Group, dead: Collection[int]) -> tuple[list[int], list[int], list[int]]:
        """The places of what may be plain, rows and deletes, and of the others."""
        columns = group.columns
        ops, afters, connectors, indexes = (columns[name] for name in ("op", "after", "connector", "index"))
        positions, faults = columns["pos"], columns["fault"]
        rows = "cur" if self._decoding.snapshot_reads else "cu"
        writes: list[int] = []
        deletes: list[int] = []
        left: list[int] = []
        for place in group.places:
            op = ops[place]
            if positions[place] is None or faults[place] is not None or indexes[place] in dead:
                left.append(place)
            elif op == "d":
                deletes.append(place)
            elif op in rows and afters[place] is not None and not (op == "u" and connectors[place] in PATCHES):
                writes.append(place)
            else:
                left.append(place)
        return writes, deletes, left

    def _moved(self, group: _Group, writes: Sequence[int], values: Values) -> set[int]:
        """Which of the rows have a key with a null in it, or may have had another key before."""
        odd = {i for ordinal in self._decoding.key for i, value in enumerate(values[ordinal]) if value is None}
        ops, befores = group.columns["op"], group.columns["before"]
        updates = [i for i, place in enumerate(writes) if ops[place] == "u" and befores[place] is not None]
        if updates:
            images = [befores[writes[i]] for i in updates]
            old, unsure = self._codec(group, key_only=True).decode(images)
            odd |= {updates[i] for i in unsure}
            for part, ordinal in enumerate(self._decoding.key):
                now = values[ordinal]
                odd |= {i for i, value in zip(updates, old[part], strict=True) if value != now[i]}
        return odd

    def _keys(self, values: Values) -> list[Any]:
        keys = zip(*(values[ordinal] for ordinal in self._decoding.key), strict=True)
        if all(self._decoding.columns[i].type.name in _SIMPLE for i in self._decoding.key):
            return list(keys)
        return [decoded_rows.key_of_values(one, self._decoding) for one in keys]

    def _of_append(self, group: _Group, dead: Collection[int]) -> tuple[list[PlainChange], list[int]]:
        columns = group.columns
        ops, befores, afters, connectors = (columns[name] for name in ("op", "before", "after", "connector"))
        positions, faults, indexes = (columns[name] for name in ("pos", "fault", "index"))
        images: list[str] = []
        chosen: list[int] = []
        left: list[int] = []
        for place in group.places:
            gone = ops[place] == "d"
            image = afters[place] if afters[place] is not None and not gone else befores[place] or afters[place]
            # A deleted row is not judged as others are, where a schema judges them.
            odd = image is None or (gone and self._decoding.ruled) or connectors[place] in STEPPED
            odd = odd or (ops[place] == "r" and not self._decoding.snapshot_reads)
            if odd or positions[place] is None or faults[place] is not None or indexes[place] in dead:
                left.append(place)
            else:
                images.append(image)
                chosen.append(place)
        if not chosen:
            return [], left
        values, unsure = self._codec(group).decode(images, self._wanted)
        told = {name: group.of(name, chosen) for name in ("ord", "occurrence", "tx_order")}
        source = self._decoding.names.get(group.table, group.table)
        names = [
            decoded_rows.placed_identity(self._stream, order, occurrence, number, source)
            for order, occurrence, number in zip(*told.values(), strict=True)
        ]
        left += [chosen[i] for i in unsure]
        return self._changes(group, chosen, values, unsure, names), left

    def _changes(
        self, group: _Group, places: Sequence[int], values: Values, odd: Collection[int], names: Sequence[Any]
    ) -> list[PlainChange]:
        """The changes at these places but for the odd, by their number among them. `values`: {} for none."""
        cells: Any = repeat(None)
        if self._names is not None and (values or not self._mirror):
            by_name = {name: values[i] for name, i in self._ordinals.items() if i in values}
            if not self._mirror:
                by_name |= {OP: group.of("op", places), BEFORE: group.of("before", places)}
            cells = zip(*(by_name.get(name, repeat(None)) for name in self._names), strict=False)
        source = self._decoding.names.get(group.table, group.table)
        orders, ops, indexes = (group.of(name, places) for name in ("ord", "op", "index"))
        made = zip(names, orders, ops, repeat(source), repeat(group.columns["batch"][0]), indexes, cells, strict=False)
        return [one for i, one in enumerate(made) if i not in odd] if odd else list(made)

    def _codec(self, group: _Group, *, key_only: bool = False) -> ImageColumns:
        name = (group.schema, group.flat, key_only)
        if name not in self._images:
            self._images[name] = ImageColumns(self._decoder.codec(group.schema, group.flat, key_only=key_only))
        return self._images[name]


_SIMPLE: Final = frozenset(
    {"boolean", "int", "long", "string", "uuid", "date", "time", "timestamp", "timestamptz", "decimal", "binary"}
    | {"timestamp_ns", "timestamptz_ns"}
)  # of which a key is as it is decoded: no floats, no lists


def _groups(columns: Columns, places: Sequence[int]) -> list[_Group]:
    tables, schemas, flats = columns["table"], columns["schema_id"], columns["flat"]
    found: defaultdict[tuple[str, str | None, bool], list[int]] = defaultdict(list)
    for place in places:
        found[tables[place], schemas[place], bool(flats[place])].append(place)
    return [_Group(columns, mine, *name) for name, mine in found.items()]


def plain_of(one: Logged, names: Sequence[str], *, deep: bool) -> PlainChange | None:
    """A change of a mirror table that was decoded by itself, if it is as plain as those that are not. `names`: of the
    table's columns."""
    change = one.change
    if change is None or not one.needed or change.position is None or change.unavailable or change.stepped:
        return None
    values = None if change.values is None or not deep else tuple(change.values.get(name) for name in names)
    return change.key, change.order, change.op, change.source, one.batch, one.place, values


def as_logged(one: PlainChange, names: Sequence[str], *, mirror: bool) -> Logged:
    """The change as the full rule takes it. `names`: of the values."""
    name, order, op, source, batch, place, cells = one
    values: Mapping[str, Any] | None = None if cells is None else dict(zip(names, cells, strict=True))
    if not mirror:
        return Logged(name, batch, place, needed=True, values=values)
    if values is None and op != "d":
        values = NOTHING
    change = RowChange(op, name, order[1 : 1 + WIDTH], order, values, source=source)
    return Logged(name, batch, place, needed=True, change=change)
