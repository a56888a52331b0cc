"""Columns that the source has renamed: which names mean one column, and what it is called now. Pure.

firn.yaml says `renames: {new: old}`; the table remembers what it was told (property RENAMES), because an epoch that was
sealed under an older configuration may be committed after a newer one, and must not bring the old name back.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from firn.changes.decode.types import Column
from firn.config.model import TableRule
from firn.tables.planning import ColumnPlan, KeyChanged

RENAMES: Final = "firn.renames"  # table property: Renames.earlier as JSON


@dataclass(frozen=True)
class Renames:
    """`earlier`: a column's name -> the other names that changes may carry it under, the newest first."""

    earlier: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.earlier)

    def column(self, name: str) -> str:
        """The column that a change's field of this name is of."""
        return next((column for column, others in self.earlier.items() if name in others), name)

    def named(self, columns: Iterable[Column]) -> tuple[Column, ...]:
        """Columns that changes show or firn.yaml declares, under the names that the table has for them."""
        return tuple(replace(column, name=self.column(column.name)) for column in columns)

    def told(self, plan: ColumnPlan) -> ColumnPlan:
        """The plan, whose columns say under which names changes carry them too."""
        taken = {name for others in self.earlier.values() for name in others}
        columns = (replace(c, earlier=self.earlier.get(c.name, ()), silent=c.name in taken) for c in plan.columns)
        return replace(plan, columns=tuple(columns)) if self else plan

    def rule(self, rule: TableRule) -> TableRule:
        """The rule, which may be older than a rename, with the columns under the names that the table has for them."""
        if not self:
            return rule
        partition_by = tuple(replace(one, column=self.column(one.column)) for one in rule.partition_by)
        bloom = rule.bloom if isinstance(rule.bloom, str) else tuple(self.column(name) for name in rule.bloom)
        return replace(rule, partition_by=partition_by, bloom=bloom)

    def due(self, there: Iterable[str]) -> dict[str, str]:
        """Which columns of a table are to be renamed: old name -> new name. None where the new name is there too."""
        names = set(there)
        due = {}
        for column, others in self.earlier.items():
            found = next((name for name in others if name in names), None)
            if column not in names and found is not None:
                due[found] = column
        return due

    def check_key(self, key: Sequence[str]) -> None:
        """Raises KeyChanged if a column of the key is among the renamed: rows would stand under two keys."""
        for column, others in self.earlier.items():
            if wrong := {column, *others} & set(key):
                raise KeyChanged(
                    f"renames names {min(wrong)}, which is in the key [{', '.join(key)}]: take it out of renames in "
                    "firn.yaml, and rebuild the table under the new key (firn rebuild TABLE --in-place)"
                )

    def properties(self) -> dict[str, str]:
        """What the table remembers of it; nothing where there is nothing."""
        return {RENAMES: json.dumps(self.earlier, ensure_ascii=False, sort_keys=True)} if self else {}


def renames_of(declared: Mapping[str, str], properties: Mapping[str, str]) -> Renames:
    """What firn.yaml says (new name -> old name, without circles) and what the table remembers, together.

    Names that either of them links are one column. It is called as firn.yaml says, else as the table remembers.
    Raises KeyChanged if firn.yaml tells two columns apart that are one in the table.
    """
    remembered: Mapping[str, Sequence[str]] = json.loads(properties.get(RENAMES, "{}"))
    steps = [*declared.items(), *((column, name) for column, names in remembered.items() for name in names)]
    earlier: dict[str, tuple[str, ...]] = {}
    for names in _linked(steps):
        last = sorted(name for name in names if name in declared and name not in declared.values())
        if len(last) > 1:
            raise KeyChanged(
                f"renames in firn.yaml makes {' and '.join(last)} of one column of the table, which has had the names "
                f"{', '.join(sorted(names))}; write one line for each step, new: old, so that one name is the last"
            )
        column = last[0] if last else next(name for name in remembered if name in names)
        chain = [*_back(column, declared), *remembered.get(column, ()), *sorted(names)]
        earlier[column] = tuple(name for name in dict.fromkeys(chain) if name != column)
    return Renames(earlier)


def _linked(steps: Iterable[tuple[str, str]]) -> list[set[str]]:
    """The names of each column: those that steps lead from one to another."""
    groups: list[set[str]] = []
    for step in steps:
        touching = [group for group in groups if group & set(step)]
        groups = [group for group in groups if group not in touching] + [set(step).union(*touching)]
    return groups


def _back(name: str, declared: Mapping[str, str]) -> list[str]:
    """The names before this one, the newest first."""
    found: list[str] = []
    while (before := declared.get(name)) is not None:
        found.append(before)
        name = before
    return found
