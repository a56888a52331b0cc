"""A planned evolution as ALTER statements of Spark or Trino: for those who let nothing but their engine change tables.

Pure. The statements run one by one, where `evolve` makes one commit of them.
"""

from collections.abc import Sequence
from typing import Final

from pyiceberg.types import IcebergType

from firn_lake.schemas.ddl import writer
from firn_lake.schemas.ddl_writer import Described, Writer
from firn_lake.schemas.evolution_steps import Step

# Columns go by their names of before in all steps: renames come last.
_ORDER: Final = ("drop", "widen", "make optional", "describe", "add", "move", "rename")


def alter_statements(table: Described, steps: Sequence[Step], dialect: str = "spark") -> list[str]:
    """The statements that change `table` as the steps say, in order. What the dialect has no words for is a comment.

    Raises NoSuchDialect, NotInDialect.
    """
    words = writer(table, dialect)
    ordered = sorted(steps, key=lambda one: _ORDER.index(one.action))  # stable: moves stay in their order
    return [words.noted(_statement(words, one)) for one in ordered]


def _statement(words: Writer, step: Step) -> str:
    words.notes.clear()
    column = ".".join(map(words.quoted, _path(words, step)))
    spark, alter = words.dialect == "spark", f"ALTER TABLE {words.name}"
    kind = ""
    if step.new is not None and isinstance(step.new.type, IcebergType) and step.action in ("add", "widen"):
        kind = words.type(step.new.type, step.column)
    doc = words.text(step.new.doc or "") if step.new is not None else "''"
    match step.action:
        case "drop":
            return f"{alter} DROP COLUMN {column}"
        case "rename":
            return f"{alter} RENAME COLUMN {column} TO {words.quoted(step.to)}"
        case "add":
            comment = f" COMMENT {doc}" if step.new is not None and step.new.doc else ""
            return f"{alter} ADD COLUMN {column} {kind}{comment}"
        case "widen":
            return f"{alter} ALTER COLUMN {column} {'TYPE' if spark else 'SET DATA TYPE'} {kind}"
        case "make optional":
            return f"{alter} ALTER COLUMN {column} DROP NOT NULL"
        case "describe":
            if not spark:
                return f"COMMENT ON COLUMN {words.name}.{column} IS {doc}"
            return f"{alter} ALTER COLUMN {column} COMMENT {doc}"
        case "move":
            after = step.to.rpartition(".")[2]
            if not spark:
                return f"-- {step}: trino can't move columns"
            return f"{alter} ALTER COLUMN {column} {f'AFTER {words.quoted(after)}' if step.to else 'FIRST'}"


def _path(words: Writer, step: Step) -> list[str]:
    """The names that lead to the column: a name may hold dots itself, where it is not in a list or a map."""
    found = words.path(step.field_id) if step.field_id is not None else []
    if found:
        return found
    if step.parent:
        return [*step.parent.split("."), step.column.removeprefix(f"{step.parent}.")]
    return [step.column] if step.action == "add" else step.column.split(".")
