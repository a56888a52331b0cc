"""`renames:` of a table rule: columns that the source calls differently now, as new name: old name."""

from collections.abc import Mapping, Sequence

from firn.config.model import TableRule
from firn.config.names import OWN, is_left_out
from firn.config.partitions import Partition
from firn.config.problems import Section, shown


def read_renames(
    section: Section, key: Sequence[str] | None, columns: Mapping[str, object], partition_by: Sequence[Partition]
) -> dict[str, str]:
    """New name -> old name; every problem is noted. `key`, `columns`, `partition_by`: the rule's own."""
    renames: dict[str, str] = {}
    for new in section.names:
        old = section.text(new, "the column's old name")
        if old is not None and _is_good(section, new, old, renames, key):
            renames[new] = old
    for new, old in renames.items():
        if _leads_back(new, renames):
            section.note(new, f"goes round in a circle with {shown(old)}; write only the last new name of the column")
        elif old in columns:
            section.note(new, f"{shown(old)} is declared under columns: by its old name; write {new} there")
        elif any(one.column == old for one in partition_by):
            section.note(new, f"partition_by names {shown(old)}; write {new} there")
    return {} if any(_leads_back(new, renames) for new in renames) else renames


def check_order(section: Section, order_by: Sequence[str], tables: Sequence[TableRule]) -> None:
    """Notes an `order_by` that a table renames: changes under the other name would have no place in the order."""
    for rule in tables:
        for field in sorted({*order_by} & {*rule.renames, *rule.renames.values()}):
            section.note(
                "order_by",
                f"{shown(field)} is renamed in {shown(rule.source)}, and changes under its other name would have no "
                "order; take it out of renames there, and let the source go on sending it",
            )


def _is_good(section: Section, new: str, old: str, renames: Mapping[str, str], key: Sequence[str] | None) -> bool:
    if new == old:
        section.note(new, "is the old name too; write new name: old name, or leave the line out")
    elif any(name.startswith(OWN) for name in (new, old)):
        section.note(new, f"names that begin with {OWN} are Firn's own; leave the line out")
    elif is_left_out(new) and not section.problems.published:
        section.note(new, "is a name that Firn or Iceberg keeps for itself; write another one")
    elif old in renames.values():
        other = next(name for name, before in renames.items() if before == old)
        section.note(new, f"{shown(old)} became {shown(other)} above, and can't have become two columns; keep one line")
    elif both := {new, old} & set(key or ()):
        section.note(new, f"{shown(min(both))} is in the key, which can't be renamed: rows would stand under two keys")
    else:
        return True
    return False


def _leads_back(name: str, renames: Mapping[str, str]) -> bool:
    seen = {name}
    before = renames.get(name)
    while before is not None and before not in seen:
        seen.add(before)
        before = renames.get(before)
    return before is not None
