"""What an evolution of a table's columns is made of: what is wished, what is known, and the steps that come of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType

Action = Literal["drop", "rename", "widen", "make optional", "describe", "add", "move"]


@dataclass(frozen=True)
class NewColumn:
    """A column to add, with its text."""

    type: str | IcebergType
    doc: str | None = None


@dataclass(frozen=True)
class Wishes:
    """What shall be changed. Columns go by their names of before, nested ones by dotted paths (`address.city`,
    `items.element.price`).

    add      path -> type
    rename   path -> the new last name
    widen    path -> type
    reorder  paths that come first among the fields of their struct, in this order; added columns may be among them
    docs     path -> text
    """

    add: Mapping[str, str | IcebergType | NewColumn] = field(default_factory=dict)
    drop: Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    widen: Mapping[str, str | IcebergType] = field(default_factory=dict)
    reorder: Sequence[str] = ()
    make_optional: Sequence[str] = ()
    docs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """What is known of the table.

    key      the columns that tell rows apart
    laid_by  field id -> how the table's files are laid out by it, now or before: "partitioned by day(at)"
    stream   the stream that feeds it, None if none does
    former   name -> the column that it is a former name of (`renames` in firn.yaml)
    """

    name: str
    schema: Schema
    format_version: int = 2
    key: tuple[str, ...] = ()
    laid_by: Mapping[int, str] = field(default_factory=dict)
    stream: str | None = None
    former: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One change. `column`: its full name before (of an added one: its name), `field_id`: its id, which stays; None if
    the table gives it one. `to`: the new name, type or text, or the column that it comes after ("" for the first).
    `parent`: what an added or renamed column is in, "" for the table."""

    action: Action
    column: str
    field_id: int | None
    to: str
    why: str
    new: NewColumn | None = None
    parent: str = ""

    @property
    def name(self) -> str:
        """The column's full name afterwards."""
        last = self.to if self.action == "rename" else ""
        return ".".join(part for part in (self.parent, last) if part) if last else self.column

    def __str__(self) -> str:
        if self.action == "move":
            to = f"after {self.to}" if self.to else "to the front"
        else:
            to = f"to {self.to}" if self.action in ("rename", "widen") else self.to
        shown = " ".join(part for part in (self.action, self.column, to) if part)
        return f"{shown}: {self.why}" if self.why else shown
