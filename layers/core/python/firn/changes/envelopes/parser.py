"""A request's body -> changes as columns. The one entry: `parse`.

The fast path decodes the whole body at once into the structs of one shape, found by looking at the first events, and
turns them into columns. What does not fit (markers, broken events, other shapes) is read again, one event at a time, by
the same rules; so is the whole body, if the decode of it fails. Both paths give the same answer. Which envelopes there
are stands in registry.py.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import compress, islice
from operator import itemgetter
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from firn.changes.change import Change, Ignored, Parsed, Rejected
from firn.changes.envelopes import registry
from firn.changes.envelopes.columnar_events import images
from firn.changes.envelopes.envelope import ValueType
from firn.changes.envelopes.event_reader import Value, absent, fields_of, key_payload, unwrap
from firn.changes.envelopes.json_text import (
    COUNTED,
    elements,
    first_elements,
    is_json_object,
    objects_by_line,
    readable,
    readable_together,
)
from firn.changes.envelopes.limits import LARGE, LIMITS, EventLimits
from firn.changes.envelopes.parts import DEEPEST, Parts, is_delivery
from firn.changes.envelopes.registry import Registry
from firn.changes.envelopes.sources import SOURCES
from firn.errors import EventError, RequestError

__all__ = ["Content", "Parsed", "Rejected", "parse"]

Content = Literal["json", "ndjson", "auto"]
T = TypeVar("T")
_Lists = tuple[list[Any], ...]  # Parsed's columns, in its order
_Unwrapped = tuple[Sequence[int], list[Any], list[str | None], list[bytes | None], list[bytes | None]]
_NULL = Raw(b"null")
_LOOKS = 8  # events to look at for one that is a change


class Record(Struct, Generic[T], frozen=True, gc=False, forbid_unknown_fields=True):
    """A record as Kafka has it. `value` is required, and other members make it something else."""

    value: T
    key: Raw = Raw(b"null")
    headers: Raw = Raw(b"null")
    destination: str | None = None


class Wrapped(Struct, Generic[T], frozen=True, gc=False, forbid_unknown_fields=True):
    """A value with its inline Connect schema."""

    schema: Raw
    payload: T


class Shape(Struct, frozen=True):
    """What the events of a request look like."""

    envelope: str
    connector: str
    record: bool
    wrapped: bool


def parse(
    body: bytes,
    envelope: str,
    content: Content = "auto",
    limits: EventLimits = LIMITS,
    fits: Callable[[bytes, int], bool] | None = None,
) -> Parsed:
    """Read a request's body: a JSON object, an array of them, or NDJSON, each event in any wrapping.

    `envelope`: one of the registry, or auto (by the event). `content`: "ndjson" if the body can't be one array. `fits`,
    of an envelope that is all row: whether lines are so many objects that fit their schema; then nothing else reads
    them.
    Raises RequestError 400 (empty, not_utf8, bad_json) if nothing of it can be read, 413 over `limits`; an event that
    can't be taken is in `rejected`, with one of these codes: bad_json, not_an_object, too_deep, missing_op, unknown_op,
    missing_table, missing_image, bad_event.
    """
    if envelope not in registry.KNOWN.names:
        raise ValueError(f"{envelope!r} is not an envelope: {', '.join(registry.KNOWN.names)}")
    body, array = readable(body, lines=content == "ndjson")
    parsed = None if fits is None else _by_lines(body, envelope, limits, fits, array=array)
    if parsed is None:
        shape = _shape(body, envelope, array=array)
        parsed = None if shape is None else _together(body, envelope, shape, limits, array=array)
    if parsed is None:
        parsed = _one_by_one(body, envelope, limits, array=array)
    if len(body) > LARGE:
        limits.check_columns((parsed.before, parsed.after), parsed.schema)
    if len(body) > limits.size:
        limits.check_size(parsed.table, parsed.order, parsed.key, parsed.before, parsed.after, parsed.schema)
        if parsed.rejected:
            limits.check_rejected(sum(len(one.original) for one in parsed.rejected), parsed.rejected[0].message[:200])
    return parsed


def _by_lines(
    body: bytes, envelope: str, limits: EventLimits, fits: Callable[[bytes, int], bool], *, array: bool
) -> Parsed | None:
    """All events of a body that is read only to see that they fit; None if they do not, or are not a line each."""
    form = registry.KNOWN.bare(envelope)
    if form is None or array or len(body) > COUNTED:
        return None
    rows = objects_by_line(body)
    count = len(rows)
    limits.check_events(count)
    if not count or not fits(body, count):
        return None
    columns = form.columns(rows, (), "")
    nothing: list[Any] = [None] * count
    regular: _Lists = (
        *(list(range(count)), columns.op, columns.table, columns.ts, columns.connector, columns.order),
        *(columns.tx_order, columns.emitted, [form.flat] * count, nothing, columns.before, columns.after),
        *(nothing, nothing),  # schemas, transactions
    )
    return _Rest(envelope, limits).parsed(regular)


def _shape(body: bytes, envelope: str, *, array: bool) -> Shape | None:
    """The shape of the first event that is a change; None if there is none among the first few."""
    if registry.KNOWN.bare(envelope):
        return Shape(envelope, "", record=False, wrapped=False)
    for element in islice(first_elements(body, array=array), _LOOKS):
        try:
            value = unwrap(element)
            if isinstance(value, Value):
                name = registry.KNOWN.envelope_of(value, envelope)
                if registry.KNOWN.envelopes[name].value_type is None or is_delivery(value):
                    return None
                return Shape(name, registry.KNOWN.envelopes[name].connector_of(value), value.record, value.wrapped)
        except EventError:
            continue
    return None


@cache  # bounded: a shape's connector is one of SOURCES or ""
def _decoder(known: Registry, shape: Shape, value_type: ValueType, *, array: bool) -> Callable[[bytes], list[Any]]:
    strict = known.envelopes[shape.envelope].strict
    kind = value_type(shape.connector, known.foreign[shape.envelope])
    if shape.wrapped:
        kind = Wrapped[kind] | None  # type: ignore[valid-type]
    if shape.record:
        kind = Record[kind]  # type: ignore[valid-type]
    if array:
        return msgspec.json.Decoder(list[kind], strict=strict).decode  # type: ignore[valid-type]
    return msgspec.json.Decoder(kind, strict=strict).decode_lines


def _decoded(body: bytes, shape: Shape, value_type: ValueType, *, array: bool) -> list[Any] | None:
    try:
        return _decoder(registry.KNOWN, shape, value_type, array=array)(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def _together(body: bytes, envelope: str, shape: Shape, limits: EventLimits, *, array: bool) -> Parsed | None:
    """All events by one decode: decoded, unwrapped, made columns; then the irregular ones, each on its own. None if
    they are not of one shape, or one of them holds several."""
    form = registry.KNOWN.envelopes[shape.envelope]
    if form.value_type is None or not readable_together(body, limits, array=array, exact=form.counted):
        return None
    known = shape if shape.connector in SOURCES else msgspec.structs.replace(shape, connector="")
    values = _decoded(body, known, form.exact_type, array=array) if form.exact_type else None
    if values is None and (values := _decoded(body, known, form.value_type, array=array)) is None:
        return None
    limits.check_events(len(values))
    rest = _Rest(envelope, limits)
    unwrapped = _unwrapped(values, shape, rest)
    if unwrapped is None:
        return None
    places, values, destinations, keys, schemas = unwrapped
    try:
        columns = form.columns(values, destinations, shape.connector)
    except (msgspec.DecodeError, RecursionError):  # flat.py decodes its rows here
        return None
    regular: _Lists = (
        *(list(places), columns.op, columns.table, columns.ts, columns.connector, columns.order, columns.tx_order),
        *(columns.emitted, [form.flat] * len(places), keys, columns.before, columns.after),
        schemas if columns.schema is None else _shared(columns.schema),
        [None] * len(places) if columns.transaction is None else columns.transaction,
    )
    if columns.irregular:
        limits.check_events(len(columns.irregular), alone=True)
        originals = elements(body, limits, array=array, alone=False)
        keep = [True] * len(places)
        for i in columns.irregular:
            keep[i] = False
            if rest.read(places[i], bytes(originals[places[i]])) != 1:
                return None  # what comes after it has another place
        regular = tuple(list(compress(column, keep)) for column in regular)
    return rest.parsed(regular)


def _unwrapped(values: list[Any], shape: Shape, rest: "_Rest") -> _Unwrapped | None:
    """Equal lists: places in the request, values without record and inline schema, destinations, keys, schemas. What is
    null is left out, and ignored in `rest`; None if an inline schema is not an object."""
    count = len(values)
    keys: list[bytes | None] = [None] * count
    destinations: list[str | None] = [None] * count
    schemas: list[bytes | None] = [None] * count
    if shape.record:
        keys, destinations = _keys([r.key for r in values]), [r.destination for r in values]
        values = [r.value for r in values]
    if shape.wrapped:
        schemas, objects = images([w.schema if w else _NULL for w in values])
        if not objects:
            return None
        schemas = _shared(schemas)
        values = [w.payload if w else None for w in values]
    if all(values):
        return range(count), values, destinations, keys, schemas
    there = [value is not None for value in values]
    rest.ignored.update(absent(destinations[i]) for i, it_is in enumerate(there) if not it_is)
    return (
        list(compress(range(count), there)),
        list(compress(values, there)),
        list(compress(destinations, there)),
        list(compress(keys, there)),
        list(compress(schemas, there)),
    )


def _one_by_one(body: bytes, envelope: str, limits: EventLimits, *, array: bool) -> Parsed:
    rest, place = _Rest(envelope, limits), 0
    found = elements(body, limits, array=array)
    for element in found:
        place += rest.read(place, bytes(element))
    codes = {rejected.code for rejected in rest.rejected}
    nothing = not (array or rest.changes or rest.ignored) and "bad_json" in codes <= {"bad_json", "not_an_object"}
    if nothing and not any(is_json_object(bytes(element)) for element in found):
        raise RequestError(400, "bad_json", f"the body is not JSON: {rest.rejected[0].message}")
    return rest.parsed(tuple([] for _ in range(len(Change.__struct_fields__) + 1)))


class _Rest:
    """Events read on their own, and what became of them."""

    def __init__(self, envelope: str, limits: EventLimits) -> None:
        self.envelope = envelope
        self.ignored: Counter[str] = Counter()
        self.rejected: list[Rejected] = []
        self.changes: list[tuple[int, Change]] = []
        self._limits = limits
        self._refused = self._repeated = self._made = 0  # bytes of parts, and of images

    def read(self, index: int, element: bytes, depth: int = 1) -> int:
        """Reads the event at this place. `depth`: in how many it is, itself included. -> how many places it takes."""
        try:
            result = self._read(element, depth)
        except RecursionError:  # whatever is made of what it holds
            why = EventError("too_deep", "the event's JSON is nested too deeply")
            self._reject(Rejected(index, why.code, str(why), element), why, part=depth > 1)
            return 1
        except EventError as error:
            self._reject(Rejected(index, error.code, str(error), element), error, part=depth > 1)
            return 1
        if isinstance(result, Change):
            self._made += len(result.before or b"") + len(result.after or b"")
            self._limits.check_made(self._made)
            self.changes.append((index, result))
        elif isinstance(result, Ignored):
            self.ignored[result.reason] += 1
        else:
            return self._parts(index, result, depth)
        return 1

    def _read(self, element: bytes, depth: int) -> Change | Ignored | Parts:
        if bare := registry.KNOWN.bare(self.envelope):
            return bare.read(Value(element, fields_of(element, "the row")))
        value = unwrap(element)
        if isinstance(value, Ignored):
            return value
        result = registry.KNOWN.read(value, self.envelope, self._limits)
        if isinstance(result, Parts) and depth == DEEPEST:
            raise EventError("too_deep", f"events in events, more than {DEEPEST} deep")
        return result

    def _parts(self, index: int, parts: Parts, depth: int) -> int:
        if not parts.count:
            self.ignored["empty"] += 1
            return 1
        self._limits.check_events(index + parts.count)
        self._repeated += parts.repeated
        self._limits.check_repeated(self._repeated)
        place = index
        for part in parts.events:
            place += self.read(place, part, depth + 1)
        return place - index

    def _reject(self, rejected: Rejected, why: EventError, *, part: bool) -> None:
        self.rejected.append(rejected)
        if part:  # parts may be longer than what they are parts of
            self._refused += len(rejected.original)
            self._limits.check_rejected(self._refused, str(why)[:200])

    def parsed(self, regular: _Lists) -> Parsed:
        """These changes among the regular ones, in the request's order."""
        if self.changes:
            rows = [*zip(*regular, strict=True), *((i, *msgspec.structs.astuple(c)) for i, c in self.changes)]
            rows.sort(key=itemgetter(0))
            regular = tuple(map(list, zip(*rows, strict=True)))
        return Parsed(*regular, dict(self.ignored), self.rejected)  # type: ignore[call-arg,arg-type]


def _keys(raws: Sequence[Raw]) -> list[bytes | None]:
    # Only a key that speaks of a schema may be wrapped in one.
    return [key_payload(key) if b'"schema"' in key or key == b"null" else key for key in map(bytes, raws)]


def _shared(schemas: list[bytes | None]) -> list[bytes | None]:
    """Equal schemas as one object: a schema is many times larger than its event."""
    seen: dict[bytes | None, bytes | None] = {}
    return [seen.setdefault(schema, schema) for schema in schemas]
