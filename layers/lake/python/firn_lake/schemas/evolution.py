"""Which changes of a table's columns may be made, and why: a pure plan over its schema. `evolving` carries it out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from firn.changes.decode.types import parse, storable
from firn.config.names import ICEBERGS, OWN, RETYPED, is_own_column
from firn.errors import TerminalError
from firn_lake.schemas.evolution_steps import NewColumn, Step, Subject, Wishes
from firn_lake.schemas.field_tree import FieldTree
from firn_lake.schemas.type_text import BadType, text_of, type_of
from firn_lake.schemas.widening import choices, widens

_MOST: Final = 3
"""The newest format whose columns are changed here."""


class EvolutionRefused(TerminalError):
    """Nothing was changed: the text says of each wish that can't be met why, and what to do instead."""


def plan(subject: Subject, wishes: Wishes, *, despite_stream: bool = False) -> tuple[Step, ...]:
    """The steps that meet the wishes, in the order to do them; none for what is so already.

    despite_stream  drop a column although a stream feeds the table

    Raises EvolutionRefused with all that can't be done.
    """
    if subject.format_version > _MOST:
        raise EvolutionRefused(
            f"{subject.name} is of format {subject.format_version}; here formats up to {_MOST} are changed"
        )
    planning = _Planning(subject, despite_stream)
    steps = [
        *planning.dropped(wishes.drop),
        *planning.renamed(wishes.rename),
        *planning.widened(wishes.widen),
        *planning.relaxed(wishes.make_optional),
        *planning.described(wishes.docs),
        *planning.added(wishes.add),
        *planning.moved(wishes.reorder),
    ]
    planning.check_together(steps)
    if planning.problems:
        raise EvolutionRefused(f"{subject.name} stays as it is:\n" + "\n".join(f"  {one}" for one in planning.problems))
    return tuple(steps)


class _Planning:
    """Collects the problems of all wishes, so that they are told at once."""

    def __init__(self, subject: Subject, despite_stream: bool) -> None:
        self.problems: list[str] = []
        self._subject = subject
        self._fields = FieldTree(subject.schema)
        self._despite = despite_stream
        self._added: dict[str, int | None] = {}
        found = (self._fields.find(name) for name in subject.key)
        self._keys = {one.field_id for one in found if one is not None}

    def dropped(self, paths: Sequence[str]) -> Iterator[Step]:
        for path, found in self._found(self._listed(paths, "drop")):
            if not self._is_free(path, found, "dropped"):
                continue
            if held := self._laid_by(found):
                self._refuse(f"{path} can't be dropped: the table is or was {held}, and its files are found by that")
            elif self._fields.is_part(found):
                self._refuse(f"{path} can't be dropped alone: its list or map is made of it; drop that")
            elif self._subject.stream and not self._despite:
                self._refuse(
                    f"{path} can't be dropped while stream {self._subject.stream} feeds the table: the next change "
                    "that has it would add it again, empty before. Drop it in the source, and when no change has it "
                    "any more say despite_stream=True"
                )
            else:
                yield Step("drop", self._fields.full(found), found.field_id, "", "earlier moments still have it")

    def renamed(self, names: Mapping[str, str]) -> Iterator[Step]:
        for path, found in self._found(names):
            name = names[path]
            if name == found.name or not self._is_free(path, found, "renamed") or not self._is_name(name):
                continue
            if self._fields.is_part(found):
                self._refuse(f"{path} can't be renamed: Iceberg calls it so in every list and map")
            elif self._subject.stream and self._fields.holder(found) is None:
                self._refuse(
                    f"{path} can't be renamed here while stream {self._subject.stream} feeds the table: the next "
                    f"change that has it would add it again, empty before. Write renames: {{{name}: {path}}} under the "
                    "table in firn.yaml, and the job renames the column"
                )
            else:
                holder = self._fields.prefix(self._fields.holder(found)).removesuffix(".")
                why = "the same column, by its id"
                yield Step("rename", self._fields.full(found), found.field_id, name, why, parent=holder)

    def widened(self, kinds: Mapping[str, str | IcebergType]) -> Iterator[Step]:
        for path, found in self._found(kinds):
            kind, old = self._type(path, kinds[path]), found.field_type
            if kind is None or not self._is_not_own(path, found, "widened"):
                continue
            if not widens(old, kind):
                self._refuse(
                    f"{path} is {text_of(old)} and can't be widened to {text_of(kind)}: {choices(old)}. For another "
                    "type add a column and fill it"
                )
            elif kind != old:
                why = f"was {text_of(old)}; files stay as they are, readers widen the values"
                yield Step("widen", self._fields.full(found), found.field_id, text_of(kind), why, NewColumn(kind))

    def relaxed(self, paths: Sequence[str]) -> Iterator[Step]:
        for path, found in self._found(self._listed(paths, "make_optional")):
            if not found.required or not self._is_free(path, found, "made optional"):
                continue
            if self._fields.is_part(found) and found.name == "key":
                self._refuse(f"{path} can't be made optional: the keys of a map are never null")
            else:
                yield Step("make optional", self._fields.full(found), found.field_id, "", "rows may have null in it")

    def described(self, docs: Mapping[str, str]) -> Iterator[Step]:
        for path, found in self._found(docs):
            text = docs[path]
            if self._fields.is_part(found):
                self._refuse(f"{path} can't have a text of its own: write it at its list or map")
            elif text != (found.doc or ""):
                new = NewColumn(found.field_type, text)
                yield Step("describe", self._fields.full(found), found.field_id, repr(text), "", new)

    def added(self, columns: Mapping[str, str | IcebergType | NewColumn]) -> Iterator[Step]:
        for path, wanted in columns.items():
            new = wanted if isinstance(wanted, NewColumn) else NewColumn(wanted)
            kind, (fits, holder) = self._type(path, new.type), self._struct_for(path)
            parent = "" if holder is None else self._fields.full(holder)
            name = path.rpartition(".")[2] if parent else path
            if kind is None or not fits or not self._is_name(name) or not self._may_add(path, kind):
                continue
            why = "rows before have null" + (f"; {_filled(kind)}" if self._subject.stream else "")
            full = f"{parent}.{name}" if parent else name
            self._added[full] = None if holder is None else holder.field_id
            yield Step("add", full, None, text_of(kind), why, NewColumn(kind, new.doc), parent)

    def moved(self, paths: Sequence[str]) -> Iterator[Step]:
        orders: dict[int | None, list[str]] = {}
        for path in dict.fromkeys(self._listed(paths, "reorder")):
            if path in self._added:
                holder = self._added[path]
                orders.setdefault(holder, []).append(path.removeprefix(self._fields.prefix(holder)))
                continue
            for _, found in self._found([path]):
                if self._fields.is_part(found):
                    self._refuse(f"{path} can't be moved: the parts of a list or a map have one order")
                else:
                    orders.setdefault(self._fields.holder(found), []).append(found.name)
        for holder, first in orders.items():
            prefix = self._fields.prefix(holder)
            now = self._fields.held_by(holder)
            now += [one.removeprefix(prefix) for one, its in self._added.items() if its == holder]
            if [*first, *(one for one in now if one not in first)] != now:
                for before, name in zip(["", *first], first, strict=False):
                    there = self._fields.find(prefix + name)
                    field_id = there.field_id if there else None
                    yield Step("move", prefix + name, field_id, prefix + before if before else "", "")

    def check_together(self, steps: Sequence[Step]) -> None:
        """What each wish allows and all together don't: a dropped column that is changed, two columns of one name."""
        dropped = {step.field_id for step in steps if step.action == "drop"}
        gone = {step.column for step in steps if step.action in ("drop", "rename")}
        names: set[str] = set()
        for step in steps:
            changed = self._fields.find(step.parent if step.action == "add" else step.column)
            if (
                step.action != "drop"
                and changed
                and {changed.field_id, *self._fields.above(changed.field_id)} & dropped
            ):
                self._refuse(f"{step.action} {step.column}: it shall be dropped too, or what it is in; leave out one")
            if step.action in ("add", "rename"):
                name = step.name
                if name in names or (self._fields.find(name) is not None and name not in gone):
                    self._refuse(f"{step.action} {step.column}: there is a column {name} already; take another name")
                names.add(name)

    def _found(self, paths: Sequence[str] | Mapping[str, Any]) -> Iterator[tuple[str, NestedField]]:
        for path in paths:
            found = self._fields.find(path)
            if found is None:
                self._refuse(self._fields.missing(path))
            else:
                yield path, found

    def _listed(self, paths: Sequence[str], name: str) -> Sequence[str]:
        if isinstance(paths, str):
            self._refuse(f"{name}={paths!r} is not a list: write {name}=[{paths!r}]")
            return ()
        return paths

    def _type(self, path: str, wanted: str | IcebergType) -> IcebergType | None:
        try:
            return type_of(wanted)
        except BadType as error:
            self._refuse(f"{path}: {_no_required(wanted) or error}")
            return None

    def _is_name(self, name: str) -> bool:
        if is_own_column(name):
            self._refuse(f"{name} can't be a name: those that begin with {OWN} or end in {RETYPED} are Firn's own")
        elif name in ICEBERGS:
            self._refuse(f"{name} can't be a name: Iceberg keeps it for itself")
        elif name in self._subject.former:
            column = self._subject.former[name]
            self._refuse(f"{name} can't be a name: {column} was called so, and changes that still have it fill that")
        elif not name:
            self._refuse("a column's name can't be empty")
        else:
            return True
        return False

    def _is_not_own(self, path: str, found: NestedField, done: str) -> bool:
        if self._fields.is_own(found):
            self._refuse(f"{path} can't be {done}: it is Firn's own, and tables converge by it")
            return False
        return True

    def _is_free(self, path: str, found: NestedField, done: str) -> bool:
        """Whether the column is neither Firn's own nor of the key."""
        if not self._is_not_own(path, found, done):
            return False
        if any(found.field_id in {one, *self._fields.above(one)} for one in self._keys):
            rebuild = "; firn rebuild makes a table under another key" if self._subject.stream else ""
            self._refuse(f"{path} can't be {done}: the key [{', '.join(self._subject.key)}] tells rows apart{rebuild}")
            return False
        return True

    def _may_add(self, path: str, kind: IcebergType) -> bool:
        version, needed = self._subject.format_version, kind.minimum_format_version()
        if needed > version:
            self._refuse(f"{path}: {text_of(kind)} comes with format {needed}, and the table is of format {version}")
        return needed <= version

    def _struct_for(self, path: str) -> tuple[bool, NestedField | None]:
        """Whether a new column may go where its path says, and the field with the struct; None: the table itself."""
        before, dot, _ = path.rpartition(".")
        holder = self._fields.find(before) if dot else None
        if holder is None:
            if dot and self._fields.find(path.partition(".")[0]) is not None:
                self._refuse(f"{path}: {self._fields.missing(before)}")
                return False, None
            return True, None  # a dot in the name of a column
        kind = holder.field_type
        if isinstance(kind, ListType | MapType):
            holder = kind.element_field if isinstance(kind, ListType) else kind.value_field
        if not isinstance(holder.field_type, StructType):
            self._refuse(f"{path} can't be added: {before} is {text_of(kind)}, and only a struct has columns in it")
            return False, None
        return self._is_not_own(path, holder, "added"), holder

    def _laid_by(self, found: NestedField) -> str | None:
        laid = self._subject.laid_by.items()
        return next((how for one, how in laid if found.field_id in {one, *self._fields.above(one)}), None)

    def _refuse(self, problem: str) -> None:
        self.problems.append(problem)


def _no_required(wanted: str | IcebergType) -> str | None:
    if isinstance(wanted, str) and wanted.split()[-1:] == ["required"]:
        return "a new column can't be required: the rows that are there have no value of it. Add it without `required`"
    return None


def _filled(kind: IcebergType) -> str:
    """What the job does with a new column of a table that a stream feeds."""
    try:
        known = parse(text_of(kind))
    except ValueError:
        known = None
    if known is not None and storable(known) == known:
        return "the job fills it once changes have it"
    return f"the job can't write {text_of(kind)}, so a row that changes has null in it again"
