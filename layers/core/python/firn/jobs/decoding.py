"""How the changes of one target become rows: the table's key and mode, its columns, and the decoding. Pure."""

from dataclasses import dataclass
from typing import Literal

from firn.changes.rows import Decoding
from firn.jobs.planning import ColumnPlan, lacking_key, plan_columns, plan_key
from firn.jobs.progress import TableState
from firn.jobs.targets import Target
from firn.streams.config import StreamConfig


@dataclass(frozen=True)
class Planned:
    """`key`: the names of the key's columns, () without one; `mode`: what the rules make of the table."""

    key: tuple[str, ...]
    mode: Literal["mirror", "append"]
    columns: ColumnPlan
    decoding: Decoding


def planned(target: Target, settings: StreamConfig, state: TableState | None) -> Planned:
    """`state`: the table as it is; None if there is none yet. Raises KeyChanged."""
    key = plan_key(target.rule.key, state.key() if state else None, target.record_key())
    mode: Literal["mirror", "append"] = "mirror" if key and target.rule.mode == "mirror" else "append"
    required = key if mode == "mirror" else ()
    existing, unwritable = state.columns() if state else ((), frozenset[str]())
    fixed = state.fixed() if state else frozenset[str]()
    plan = plan_columns(existing, target.declared(settings), target.seen(), required, unwritable, fixed)
    ordinals = {column.name: i for i, column in enumerate(plan.columns)}
    decoding = Decoding(
        columns=plan.columns,
        key=tuple(ordinals[name] for name in key if name in ordinals),
        settings=settings.settings,
        schemas=target.schemas(),
        bad_schemas=target.bad_schemas(),
        snapshot_reads=target.rule.snapshot_reads == "upsert",
        no_key=lacking_key(plan, required, made=state is not None),
    )
    return Planned(key, mode, plan, decoding)
