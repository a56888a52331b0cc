"""A pipeline's mirror in memory: what firn_spark.following does, all of it made again each time."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from firn.changes.decode.types import storable
from firn.changes.merge.fold import Key, Row
from firn.config.names import TableName
from firn.config.pipelines import Pipeline
from firn.tables.outcome import COUNTS, Outcome
from firn.tables.table_state import EPOCH
from firn_sql.bound_sql import bound, rows_for
from firn_sql.source_types import arrow_type, source_schema

if TYPE_CHECKING:
    from tests.model.memory_lake import Catalog, Table

BASE, PIPELINE = "firn.base", "firn.pipeline"


def follow(catalog: "Catalog", stream: str, pipeline: Pipeline, base_name: TableName) -> Outcome | None:
    """As Lake.follow says, in one try, which raises."""
    base, name = catalog.load(base_name), TableName.parse(str(pipeline.target))
    table = catalog.load(name)
    if base is None or base.current is None:
        return None
    told = next((one.summary for one in (table.ancestry() if table else ()) if BASE in one.summary), {})
    if (told.get(BASE), told.get(PIPELINE)) == (str(base.current), pipeline.sha):
        return None
    sql = bound(pipeline.name, pipeline.sql, source_schema(base.columns))
    new = _selected(pipeline, base)
    if table is None:
        properties = {"firn.key": base.properties["firn.key"], "firn.mode": "mirror", "firn.stream": stream}
        catalog.create(name, sql.columns, properties)
        table = catalog.load(name)
        assert table is not None
    there = table.snapshots[table.current].rows if table.current is not None else {}
    rows: dict[Key, Row | None] = {key: None for key in there if key not in new}
    rows |= {key: row for key, row in new.items() if there.get(key) != row}
    progress = base.progress(stream)
    summary = {f"{EPOCH}{stream}": str(progress), BASE: str(base.current), PIPELINE: pipeline.sha}
    catalog.commit(table, stream, table.progress(stream), rows, summary | {f"firn.{one}": "0" for one in COUNTS})
    now = catalog.load(name)
    return Outcome(str(name), (pipeline.source,), mode="mirror", snapshot_id=now.current if now else None)


def _selected(pipeline: Pipeline, base: "Table") -> Mapping[Key, Row]:
    """The SQL over the base's rows, by the base's key."""
    assert base.current is not None
    held = base.snapshots[base.current].rows
    values = base.by_key()
    columns = [
        pa.array([values[key][one.name] for key in held], arrow_type(storable(one.type))) for one in base.columns
    ]
    sql = bound(pipeline.name, pipeline.sql, source_schema(base.columns))
    made = sql.transform.run(rows_for(sql, pa.table(columns, names=[one.name for one in base.columns])))
    keys = list(held)
    origin = made.origin.to_pylist()
    return {keys[at]: Row(row, held[keys[at]].order) for at, row in zip(origin, made.rows.to_pylist(), strict=True)}
