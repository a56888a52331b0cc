"""What a stream of plain rows says of them: `table_by`, `op_field`, `delete_when`; and what its tables must say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from firn.config.model import TableRule
from firn.config.problems import Section
from firn.config.sql_text import SqlRefused

if TYPE_CHECKING:
    from firn.changes.row_condition import RowCondition

_DELETES: Final = frozenset({"d", "D", "delete", "DELETE"})
_WORDS: Final = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}  # YAML's, as JSON has them
_SETTINGS: Final = ("table_by", "op_field", "delete_when")


@dataclass(frozen=True)
class Rows:
    """As StreamConfig has them."""

    table_by: str | None = None
    op_field: str | None = None
    delete_when: frozenset[str] = frozenset()
    delete_if: "RowCondition | None" = None


def read_rows(section: Section, tables: Sequence[TableRule], *, bare: bool) -> Rows:
    """The settings of a stream; every problem is noted. `bare`: its events are plain rows."""
    if not bare:
        for name in _SETTINGS:
            if section.has(name) and not section.is_missing:
                section.note(name, "is for plain rows, and these events say it themselves; write envelope: rows too")
        for rule in tables:
            if rule.schema is not None:
                section.section("tables").note(
                    rule.source,
                    "has a schema, which plain rows are held to, and these events bring or imply their own types; "
                    "declare types under columns: instead, or write envelope: rows",
                )
    _check_updates(section, tables, bare=bare)
    if not bare:
        return Rows()
    for rule in tables:
        if rule.keyed and rule.key is None and not rule.ignore:
            below = section.section("tables")
            below.note(
                rule.source,
                "mirrors rows, which do not say what their key is; write key: [id], or mode: append to keep each row",
            )
    field = section.text("op_field", "the name of the field that tells deletes, op for example")
    told = section.texts("delete_when", "delete_when: [D, delete]")
    values = frozenset(one.text if one.quoted else _WORDS.get(one.text, one.text) for one in told)
    condition = None
    if values and field is None and not section.has("op_field"):
        if section.is_list("delete_when"):
            section.note(
                "delete_when",
                "says which values make a delete, and op_field is missing; write op_field: op, or a condition: "
                "delete_when: \"status = 'gone'\"",
            )
        else:
            condition = _condition(section, told[0].text)
    return Rows(
        section.text("table_by", "the name of the field that says the table, type for example"),
        field,
        (values or _DELETES) if field is not None else frozenset(),
        condition,
    )


def _condition(section: Section, text: str) -> "RowCondition | None":
    from firn.config.condition_text import parse  # few streams have one

    try:
        return parse(text)
    except SqlRefused as refused:
        section.note("delete_when", f"is a condition without op_field: {refused}")
        return None


def _check_updates(section: Section, tables: Sequence[TableRule], *, bare: bool) -> None:
    why = "is for plain rows, and these events say it themselves; write envelope: rows too, or leave it out"
    for rule in tables:
        if rule.update != "patch":
            continue
        below = section.section("tables").section(rule.source)
        if not (bare and rule.keyed):
            if bare:
                why = f"changes rows, and with mode: {rule.mode} none is changed; write mode: mirror, or leave it out"
            below.note("update", why)
        fields = rule.schema.fields if rule.schema is not None else ()
        for field in fields:
            if field.name not in (rule.key or ()) and (field.written.required or field.written.default is not None):
                text = f"says what {field.name[:60]!r} is where a row leaves it out, and a patch keeps what was there"
                below.note(
                    "schema", f"{text}; take required and default out, but for the key, or write update: replace"
                )
                break
