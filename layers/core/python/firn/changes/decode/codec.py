"""Row images to typed values: compiled once for a table and a schema, then one msgspec decode a row."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Raw

from firn.changes.decode.connect_schema import FLAT_METADATA
from firn.changes.decode.converters import converter, reads_text
from firn.changes.decode.exact_values import convert_exactly
from firn.changes.decode.image_cells import (
    are_odd,
    check_names,
    chosen,
    decode_row,
    fields_of,
    first_of,
    image_decoder,
    names_of,
    odd_cells,
    with_absent,
)
from firn.changes.decode.source_encodings import DecodeSettings, declared_column, encoding_of
from firn.changes.decode.target_encodings import understood
from firn.changes.decode.texts import changes_form, retyped, text_of_json_number
from firn.changes.decode.types import STRING, Column, Encoding, Type, promotable, storable, widen
from firn.changes.decode.unavailable import MARK_TRACE, Placeholder, is_mark
from firn.changes.decode.values import MISSING, Refused, mismatch
from firn.errors import EventError

__all__ = ["NOT_PLAIN", "DecodeSettings", "Decoded", "RowCodec", "declared_column"]


class Decoded(msgspec.Struct, frozen=True, gc=False):
    """One row: `values` aligned with the codec's target (None: null, absent or unavailable).

    `unavailable` are the indexes of columns that hold the placeholder, in rising order, and `literals` what each would
    be if the source meant it literally (None where the column's type can't hold it). Whether it is meant literally
    depends on the op: an insert or a snapshot read never holds unavailable values.
    """

    values: list[Any]
    unavailable: tuple[int, ...] = ()
    literals: tuple[Any, ...] = ()

    def as_literal(self) -> list[Any]:
        """The values, with the placeholders taken at their word: what an insert or a snapshot read says."""
        row = list(self.values)
        for index, literal in zip(self.unavailable, self.literals, strict=True):
            row[index] = literal
        return row

    def first(self, width: int) -> "Decoded":
        """The same of the first columns alone."""
        told = [(index, one) for index, one in zip(self.unavailable, self.literals, strict=True) if index < width]
        return Decoded(self.values[:width], tuple(index for index, _ in told), tuple(one for _, one in told))


# An inline schema has a bigint unsigned as int64, and nothing tells it from a bigint: a declaration does.
_UNSIGNED: Final = (Encoding("unsigned"),)
_GEOMETRY: Final = Encoding("geometry")  # of a column that is declared as wkb
_NULL: Final = Raw(b"null")
_NUMBERS: Final = frozenset(b"-0123456789"[i : i + 1] for i in range(11))


def _then(step: Callable[[Any], Any], finish: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def convert(cell: Any) -> Any:
        value = step(cell)
        return None if value is None else finish(value)

    return convert


class RowCodec:
    """Decodes the row images of one table that share one schema.

    target    the table's columns: the types to produce. A column's `source`, if set, is how an image without schema
              writes it (see source_encodings.declared_column); otherwise `settings` and its type tell.
    source    the columns of the events' inline schema (connect_schema.columns_of); None: they carry none.
    flat      whether images are flattened. Their `__op`, `__lsn`, … are values of declared columns alone.
    unnamed   names that no column can have: an image with a value there is refused
    closed    names that an image may have beside those of the columns; one with others is refused. None: any
    lenient   whether what a schema requires may be missing, and what it fills in is left out: of rows that are deleted

    traces      an image that holds none of these byte strings has no unavailable value, but for arrays of integers;
                None: only `decode` can take this table's images
    converters  of each column, from what `cells` gives (but null and UNSET) to the value; they raise one of NOT_PLAIN
                for what only `decode` can tell
    sources     how each column is written
    absent      the values of columns that an image does not name, by their index; of the others null
    through     the type that a column's values have first, where they become another one from there: None as a rule

    Thread-safe once made.
    """

    def __init__(
        self,
        target: Sequence[Column],
        source: Sequence[Column] | None,
        settings: DecodeSettings,
        *,
        flat: bool = False,
        unnamed: Collection[str] = (),
        closed: Collection[str] | None = None,
        lenient: bool = False,
    ) -> None:
        self.target = tuple(target)
        self.settings = settings
        self.flat = flat
        self._nulls = settings.out_of_range == "null"
        written = {column.name: column for column in source or ()}
        placeholder = Placeholder(settings.unavailable_value, settings.binary)
        self.sources: list[Encoding] = []
        self.through: list[Type | None] = []
        known: list[bool] = []
        for column in self.target:
            sent = next((written[name] for name in names_of(column) if name in written), None)
            through = sent and column.source is None and changes_form(sent.type, column.type)
            self.through.append(sent.type if sent and through else _demanded(column))
            known.append(sent is not None)
            kind = self.through[-1] or column.type
            encoding = _sent_as(kind, sent.source, column, settings) if sent and sent.source else column.source
            self.sources.append(encoding or encoding_of(kind, None, settings))
        # What nobody has declared, as text: the JSON value tells what it would have been in a column of its own.
        free = [column.source is None and column.type == STRING for column in self.target]
        self._inferred = [text and not sent for text, sent in zip(free, known, strict=True)]
        kinds = [through or column.type for through, column in zip(self.through, self.target, strict=True)]
        pairs = list(zip(kinds, self.sources, strict=True))
        self._find_unavailable(placeholder, known)
        self._kinds = kinds
        self._finish = [retyped(kind, column.type) for kind, column in zip(kinds, self.target, strict=True)]
        plain = [column.rule is not None or s.marked for column, (_, s) in zip(self.target, pairs, strict=True)]
        steps = [self._step(k, s, None if p else placeholder) for (k, s), p in zip(pairs, plain, strict=True)]
        ways = zip(steps, self.through, self._finish, strict=True)
        self.converters = [step if through is None else _then(step, finish) for step, through, finish in ways]
        # What the schema does not name is not there, whether the table has a column of that name by now or not. Nor is
        # metadata of a flattened row, unless firn.yaml declares it: what columns there are depends on what came before.
        told = [
            (_without_metadata(column) if flat and column.source is None else column)
            if there or not source
            else replace(column, silent=True, earlier=())
            for column, there in zip(self.target, known, strict=True)
        ]
        rules = [None if lenient else column.rule for column in self.target]
        self._required = [i for i, rule in enumerate(rules) if rule is not None and rule.required]
        self._defaults = {
            i: (Raw(rule.default), Raw(rule.default) if reads_text(*pairs[i]) else msgspec.json.decode(rule.default))
            for i, rule in enumerate(rules)
            if rule is not None and rule.default is not None
        }
        self._prepare(told, [reads_text(kind, encoding) for kind, encoding in pairs], unnamed, closed)

    def _find_unavailable(self, placeholder: Placeholder, known: Sequence[bool]) -> None:
        """How unavailable values are told. `known`: whether a schema says how each column is written."""
        # A row with a schema leaves nothing out: what looks like the placeholder there is a value like others.
        free_of = [column.rule is not None for column in self.target]
        tested = list(zip(self.sources, known, free_of, strict=True))
        self._unavailable = [
            _never if ruled else is_mark if s.marked else placeholder.test(s, k) for s, k, ruled in tested
        ]
        self.traces = placeholder.traces([(s, k) for s, k, ruled in tested if not (ruled or s.marked)])
        if self.traces is not None and any(s.marked for s in self.sources):
            self.traces = (*self.traces, MARK_TRACE)

    def _prepare(
        self,
        told: Sequence[Column],
        texts: Sequence[bool],
        unnamed: Collection[str],
        closed: Collection[str] | None,
    ) -> None:
        """How the cells are had out of an image. `told`: the columns as images carry them; `texts`: those that are read
        as text."""
        self.absent = {i: column.default for i, column in enumerate(self.target) if column.default is not None}
        names, texts, self._renamed = fields_of(told, texts)
        self._width, self._names = len(names), [names_of(column) for column in self.target]
        self._closed = None if closed is None else frozenset(names).union(closed)
        if are_odd(names if self._closed is None else self._closed) or unnamed:
            self.traces = None
            self._cells = odd_cells(names, unnamed)
        else:
            fast = image_decoder(names, texts, self._closed)
            self._fast, self._fast_lines = fast.decode, fast.decode_lines
            exact = image_decoder(names, [True] * len(names)).decode
            self._cells = lambda image: msgspec.structs.astuple(exact(image))

    def decode(self, image: bytes) -> Decoded:
        """One row image (a JSON object, or a JSON string that holds one) -> its values.

        EventError: bad_image (not a JSON object in UTF-8), type_mismatch (a value that the column can't hold exactly),
        out_of_range (only if settings.out_of_range is dead_letter), missing_field and unknown_field where a schema says
        so. The message names the column, never the value.
        """
        traces = self.traces
        if traces is not None:
            for trace in traces:
                if trace in image:
                    return self._decode_exactly(image)
            try:
                row = msgspec.structs.astuple(self._fast(image))[: self._width]
                if self._renamed is not None:
                    row = chosen(row, self._renamed)
                if self._defaults:
                    row = self._filled(row, 1)
                values = [None if v is None or v is UNSET else f(v) for f, v in zip(self.converters, row, strict=True)]
                if not (self._required and any(values[i] is None for i in self._required)):
                    return Decoded(with_absent(values, row, self.absent))
            except NOT_PLAIN:
                pass
        return self._decode_exactly(image)

    def cells(self, lines: bytes) -> list[list[Any]]:
        """The cells of many images, one a line: a list for each column, UNSET where an image does not name it.

        Only if `traces` is not None. Raises one of NOT_PLAIN if any of the images is not plain.
        """
        rows = self._fast_lines(lines)
        columns = [list(map(attrgetter(f"c{i}"), rows)) for i in range(self._width)]
        if self._renamed is not None:
            columns = [first_of([columns[place] for place in places], len(rows)) for places in self._renamed]
        for i, (_, cell) in self._defaults.items():
            columns[i] = [cell if one is UNSET else one for one in columns[i]]
        for i in self._required:
            if any(one is None or one is UNSET or one == _NULL for one in columns[i]):
                raise _LooksUnavailable
        return columns

    def _filled(self, row: Sequence[Any], form: Literal[0, 1]) -> tuple[Any, ...]:
        """The cells of a row with the schema's defaults. `form`: 0 as JSON text, 1 as the converters take them."""
        return tuple(self._defaults[i][form] if v is UNSET and i in self._defaults else v for i, v in enumerate(row))

    @staticmethod
    def _step(kind: Type, source: Encoding, placeholder: Placeholder | None) -> Callable[[Any], Any]:
        convert = converter(kind, source)
        if reads_text(kind, source):

            def of_text(raw: Any) -> Any:
                text = bytes(raw)
                return None if text == b"null" else convert(text)

            return of_text
        integers = None if placeholder is None else placeholder.integers_of(source)
        if integers is None:
            return convert

        def unless_placeholder(value: Any) -> Any:
            if value == integers:
                raise _LooksUnavailable
            return convert(value)

        return unless_placeholder

    def _decode_exactly(self, image: bytes) -> Decoded:
        """The slow way: one value after the other from its JSON text, with unavailable values and errors told apart."""
        try:
            if image[:1] == b'"':
                image = msgspec.json.decode(image, type=str).encode()
            row = self._cells(image)
            if self._closed is not None:
                check_names(image, self._closed)
            if self._renamed is not None:
                row = chosen(row, self._renamed)
            row = self._filled(row, 0)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise EventError("bad_image", f"the row image is not a JSON object: {error}") from error
        return self._read_exactly(row)

    def named(self, image: bytes, width: int) -> tuple[list[int], list[str]]:
        """What a row image that `decode` takes leaves out of the first `width` columns: the indexes of those that it
        does not name, rising; and the names of its members that are null and none of these, sorted."""
        cells = decode_row(image)
        mine = self._names[:width]
        absent = [i for i, names in enumerate(mine) if cells.keys().isdisjoint(names)]
        others = cells.keys() - set().union(*mine)
        return absent, sorted(name for name in others if bytes(cells[name]) == b"null")

    def _read_exactly(self, row: Sequence[Any]) -> Decoded:
        values: list[Any] = []
        unavailable: list[int] = []
        literals: list[Any] = []
        for index, raw in enumerate(row):
            text = b"null" if raw is UNSET else bytes(raw)
            if text == b"null":
                values.append(None)
            elif text[0] in b'"[{' and self._is_unavailable(index, text):
                values.append(None)
                unavailable.append(index)
                literals.append(self._literal(index, text))
            else:
                values.append(self._convert(index, text))
        for index in self._required:
            if values[index] is None:
                raise EventError("missing_field", f"column {self.target[index].name}: {MISSING}")
        return Decoded(with_absent(values, row, self.absent), tuple(unavailable), tuple(literals))

    def _is_unavailable(self, index: int, text: bytes) -> bool:
        try:
            return self._unavailable[index](msgspec.json.decode(text))
        except (msgspec.MsgspecError, UnicodeError):  # a number beyond a double, a lone surrogate: no placeholder
            return False

    def _literal(self, index: int, text: bytes) -> Any:
        try:
            return self._exactly(index, text, nulls=True)
        except Refused:
            return None

    def _exactly(self, index: int, text: bytes, *, nulls: bool) -> Any:
        if self._inferred[index] and text[:1] in _NUMBERS:
            found = text_of_json_number(text.decode())
            if found is None:
                raise mismatch("the number does not fit double")
            return found
        value = convert_exactly(self._kinds[index], self.sources[index], text, nulls=nulls)
        return value if value is None or self.through[index] is None else self._finish[index](value)

    def _convert(self, index: int, text: bytes) -> Any:
        column = self.target[index]
        try:
            return self._exactly(index, text, nulls=self._nulls)
        except Refused as refused:
            hint = DECIMAL_AS_TEXT if self.sources[index].kind == "decimal_base64" and text[:1] == b'"' else ""
            raise EventError(refused.code, f"column {column.name}: {refused.reason}{hint}") from refused
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise EventError("bad_image", f"column {column.name}: not valid JSON in UTF-8: {error}") from error


DECIMAL_AS_TEXT: Final = (
    ", as Debezium sends decimals by default; are they sent as text? Then the stream needs "
    "debezium: {decimal.handling.mode: string}"
)
"""What is likely where a decimal is not the base64 that it is read as."""


class _LooksUnavailable(Exception):
    """A turn to the exact way, not an error."""


def _never(_: Any) -> bool:
    return False


def _sent_as(kind: Type, sent: Encoding, column: Column, settings: DecodeSettings) -> Encoding:
    """How a column of `kind` is written whose inline schema says `sent`, of which the declaration may know more."""
    found = understood(kind, sent, settings)
    if found.kind == "integer" and column.source in _UNSIGNED:
        found = replace(found, kind="unsigned")
    if column.source == _GEOMETRY and found.kind != "geometry":
        found = _GEOMETRY
    return replace(found, marked=True) if sent.marked else found


def _demanded(column: Column) -> Type | None:
    """The type that a schema demands of a column's values, where the table has a wider one."""
    if column.rule is None or (checked := storable(column.rule.type)) == column.type:
        return None
    wider = promotable(checked, column.type) or storable(widen(checked, column.type)) == column.type
    return checked if wider else None


NOT_PLAIN: Final = (Refused, _LooksUnavailable, msgspec.MsgspecError, UnicodeDecodeError)


def _without_metadata(column: Column) -> Column:
    """The column as a flattened row carries it."""
    if FLAT_METADATA.isdisjoint(names_of(column)):
        return column
    earlier = tuple(name for name in column.earlier if name not in FLAT_METADATA)
    return replace(column, silent=column.silent or column.name in FLAT_METADATA, earlier=earlier)
