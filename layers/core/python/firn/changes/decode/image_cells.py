"""The cells of a table's columns out of row images: which members of an image count, and what reads them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from firn.changes.decode.types import Column
from firn.changes.decode.values import unknown_member
from firn.errors import EventError

decode_row: Final = msgspec.json.Decoder(dict[str, Raw]).decode
"""The members of an image, as they are written."""


def names_of(column: Column) -> tuple[str, ...]:
    """The names under which images may carry a column: the first that is there counts."""
    return column.earlier if column.silent else (column.name, *column.earlier)


def fields_of(target: Sequence[Column], texts: Sequence[bool]) -> tuple[list[str], list[bool], list[list[int]] | None]:
    """The names of an image's fields that count, which of them are read as text, and the places of each column's among
    them; None if each has the one that bears its name."""
    if not any(column.earlier or column.silent for column in target):
        return [column.name for column in target], list(texts), None
    as_text: dict[str, bool] = {}
    for column, text in zip(target, texts, strict=True):
        as_text |= dict.fromkeys(names_of(column), text)
    places = {name: place for place, name in enumerate(as_text)}
    return list(as_text), list(as_text.values()), [[places[name] for name in names_of(column)] for column in target]


def chosen(row: Sequence[Any], renamed: Sequence[Sequence[int]]) -> tuple[Any, ...]:
    """The cells of the columns out of those of the fields."""
    return tuple(next((row[place] for place in places if row[place] is not UNSET), UNSET) for places in renamed)


def first_of(cells: Sequence[list[Any]], count: int) -> list[Any]:
    """One column's cells in `count` images out of those of its fields, the first that is there."""
    if not cells:
        return [UNSET] * count
    if len(cells) == 1:
        return cells[0]
    return [next((one for one in of_one if one is not UNSET), UNSET) for of_one in zip(*cells, strict=True)]


def with_absent(values: list[Any], row: Sequence[Any], absent: Mapping[int, Any]) -> list[Any]:
    """The values of a row, those of `absent` where the image does not name the column."""
    for i, value in absent.items():
        values[i] = value if row[i] is UNSET else values[i]
    return values


def odd_cells(names: Sequence[str], unnamed: Collection[str]) -> Callable[[bytes], tuple[Any, ...]]:
    """What reads the cells of these names as text, whatever they are called. It raises EventError bad_image for a value
    under a name of `unnamed`."""

    def cells(image: bytes) -> tuple[Any, ...]:
        row = decode_row(image)
        for name in unnamed:
            if bytes(row.get(name, b"null")) != b"null":
                raise EventError(
                    "bad_image", f"the row has a member {name!r}, and no column of the table can be called so"
                )
        return tuple(row.get(name, UNSET) for name in names)

    return cells


def image_decoder(
    names: Sequence[str], texts: Sequence[bool], closed: Collection[str] | None = None
) -> msgspec.json.Decoder[Any]:
    """A decoder to a struct with one field a column, in order: Raw where `texts` says so, any JSON value elsewhere.
    `closed`: the names that an object may have; those of the columns are among them."""
    others = sorted(set(closed or ()).difference(names))
    fields = [(f"c{i}", Raw if text else Any, UNSET) for i, text in enumerate([*texts, *(True for _ in others)])]
    rename = {f"c{i}": name for i, name in enumerate([*names, *others])}
    row = msgspec.defstruct("Row", fields, rename=rename, gc=False, forbid_unknown_fields=closed is not None)
    return msgspec.json.Decoder(row)


def are_odd(names: Iterable[str]) -> bool:
    """Whether msgspec's structs have no fields of these names."""
    return any(c in '"\\' or c < " " for name in names for c in name)


def check_names(image: bytes, known: Collection[str]) -> None:
    """Raises EventError unknown_field for a member of an image with another name than these."""
    for name in decode_row(image):
        if name not in known:
            raise EventError("unknown_field", f"the row: {unknown_member(name).reason}")
