"""Whether a table that others made can become a stream's mirror: its key, columns and writers. Nothing is changed."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from firn.config.names import is_left_out
from firn.errors import TerminalError
from firn.maintenance.unfed import WRITERS
from firn.tables.table_state import TableState
from firn_lake.fresh.pending_table import state_of
from firn_lake.lake import Lake
from firn_lake.writing.stream_ownership import is_firns, streams_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

_FORMATS: Final = (1, 2, 3)
_NAMED: Final = 10  # columns that a line names
_PLAIN: Final = re.compile(r"\w[\w.-]*")  # texts that YAML takes as they are


@dataclass(frozen=True)
class Adoption:
    """What was found of one table.

    rows       that it has; None where they can't be read
    against    why it can't become a mirror as it is, each with what to do
    beware     what holds no one up and should be known
    rule       the line of firn.yaml, under `tables:` of a stream
    """

    table: str
    rows: int | None
    against: tuple[str, ...]
    beware: tuple[str, ...]
    rule: str

    @property
    def fits(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.against


def adoption(lake: Lake, name: str, key: Sequence[str], source: str) -> Adoption:
    """What makes of the table `name` the mirror of the source table `source` with this key, or hinders it. Reads the
    key's columns of all rows.

    Raises TableNotFound, StorageUnavailable, and what the catalog raises.
    """
    table = lake.table(name).iceberg
    full = lake.table(name).name
    state = state_of(table)
    against = [*_owned(table, full), *_key(state, key)]
    rows: int | None = None
    if not against:
        try:
            rows, *counts = _counted(lake, table.name(), key)
            against += _rows(key, *counts)
        except TerminalError as error:
            against.append(f"its rows can't be read: {error}")
    form = ", format: 2" if table.metadata.format_version == 1 else ""  # format 1 has no deletes
    to, columns = _in_yaml(".".join(table.name())), ", ".join(map(_in_yaml, key))
    rule = f"{_in_yaml(source)}: {{to: {to}, key: [{columns}]{form}}}"
    return Adoption(full, rows, tuple(against), tuple(_beware(table, state)), rule)


def _owned(table: "Table", name: str) -> Iterator[str]:
    if is_firns(table.metadata):
        fed = ", ".join(streams_of(table.metadata)) or "a deployment of Firn"
        yield f"it is fed by {fed} already: leave it there, or drop it and let this stream make its own"
    own = ".".join(table.name())
    if own.count(".") != 1 or "{" in own:
        yield f"no rule can name {name}: it has more than one dot, or a brace; rename it, or copy its rows"
    if table.metadata.format_version not in _FORMATS:
        yield f"{name} is of format {table.metadata.format_version}, which is not adopted: copy its rows"


def _key(state: TableState, key: Sequence[str]) -> Iterator[str]:
    columns, unknown = state.columns
    kinds = {column.name: column.type for column in columns}
    for one in key:
        if one in unknown or (one in kinds and kinds[one].nested):
            yield f"its column {one} has a type that no key of Firn's has: name others with --key"
        elif one in kinds and kinds[one].name == "float":
            yield (
                f"its column {one} is a float, which changes meet as a double: 0.1 of theirs is no 0.1 of its rows "
                "and would stand beside it. Copy its rows into a table with another key"
            )
        elif one not in kinds:
            yield f"it has no column {one}: name those of its key with --key ({', '.join(list(kinds)[:_NAMED])}, …)"


def _counted(lake: Lake, path: Sequence[str], key: Sequence[str]) -> tuple[int, int, int]:
    """(rows, those with a null in the key, keys that more than one row has). Raises as Lake.sql."""
    *namespace, table = path
    names = [f"k{place}" for place in range(len(key))]
    columns = ", ".join(f"{_in_sql(one)} AS {name}" for one, name in zip(key, names, strict=True))
    null = " OR ".join(f"{name} IS NULL" for name in names)
    sql = (
        f"SELECT coalesce(sum(n), 0)::BIGINT AS rows, coalesce(sum(n) FILTER ({null}), 0)::BIGINT AS nulls, "  # noqa: S608
        f"count(*) FILTER (n > 1) AS doubled FROM (SELECT {columns}, count(*) AS n "
        f"FROM {_in_sql('.'.join(namespace))}.{_in_sql(table)} GROUP BY ALL)"
    )
    (found,) = lake.sql(sql).pylist()
    return found["rows"], found["nulls"], found["doubled"]


def _in_sql(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _in_yaml(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and text.lower() != "null" else "'" + text.replace("'", "''") + "'"


def _rows(key: Sequence[str], nulls: int, doubled: int) -> Iterator[str]:
    of = ", ".join(key)
    if nulls:
        yield f"{nulls:,} rows have a null in the key ({of}): no change would meet them; fill or delete them"
    if doubled:
        yield (
            f"{doubled:,} keys ({of}) have several rows: reads show all until the key's next change leaves one; "
            "remove those that do not count"
        )


def _beware(table: "Table", state: TableState) -> Iterator[str]:
    _, unknown = state.columns
    kept = sorted(unknown)[:_NAMED]
    if kept:
        yield f"columns that no change can fill: {', '.join(kept)}; old rows keep theirs, new ones have null"
    left_out = [str(field["name"]) for field in state.fields if is_left_out(str(field["name"]))][:_NAMED]
    if left_out:
        yield f"columns under names that Firn or Iceberg keeps: {', '.join(left_out)}; no change fills them"
    writers = sorted({name for one in state.ancestry for name in one if name.startswith(WRITERS)})[:_NAMED]
    if writers:
        yield f"another writer has left its place in the table ({', '.join(writers)}): end it before the stream begins"
    if table.metadata.format_version == 1:
        yield "it is of format 1: the rule's `format: 2` has the first commit upgrade it in place, for good"
    if table.properties.get("write.wap.enabled") == "true":
        yield "write.wap.enabled is set: other writers may stage rows that main has not"
    yield "a rebuild in place is refused: its first rows are in no log. Take a tag of it now: firn refs tag"
