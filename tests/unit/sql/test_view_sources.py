"""Tables of the lake as views read them."""

import duckdb
import pytest

from firn.changes.decode import types
from firn.changes.decode.types import Column
from firn.changes.metadata_columns import APPEND_METADATA, HELD_METADATA, MIRROR_METADATA, VIEW_METADATA
from firn.config.sql_text import SqlRefused
from firn_sql.views.algebra import quoted
from firn_sql.views.planner import plan
from firn_sql.views.source_tables import source_table

EVERY = [
    *("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string", "uuid"),
    *("binary", "wkb", "timestamp_ns", "timestamptz_ns", "decimal(38,10)", "fixed[3]"),
    *("list<map<string, decimal(5,2)>>", "struct<a b: int, x: list<timestamptz>>", "variant"),
]


def test_each_type_of_iceberg_is_one_of_duckdb() -> None:
    columns = [Column(f"c{i}", types.parse(one)) for i, one in enumerate(EVERY)]
    table = source_table([*columns, *MIRROR_METADATA, HELD_METADATA], ["c1"])
    assert table.columns["c14"] == "TIMESTAMPTZ_NS"
    assert table.columns["c15"] == "DECIMAL(38,10)"
    assert table.columns["c18"] == 'STRUCT("a b" INTEGER, x TIMESTAMP WITH TIME ZONE[])'
    kinds = ", ".join(f"{quoted(name)} {kind}" for name, kind in table.columns.items())
    duckdb.connect().execute(f"CREATE TABLE t ({kinds})")


def test_sql_sees_no_columns_of_firn() -> None:
    columns = [Column("id", types.LONG), *APPEND_METADATA]
    table = source_table(columns, ["_firn_id"])
    assert table.seen == ("id",)
    assert plan("SELECT * FROM web.clicks", {"web.clicks": table}).names == ("id",)


def test_a_view_is_told_by_its_own_id() -> None:
    assert source_table([Column("n", types.LONG), *VIEW_METADATA], ["_firn_id"]).columns["_firn_id"] == "BLOB"


def test_a_key_that_is_not_there_is_none() -> None:
    assert source_table([Column("id", types.LONG)], ["gone"]).key == ()


def test_columns_that_sql_cannot_tell_apart_are_refused() -> None:
    with pytest.raises(SqlRefused, match="'id' and 'ID', which SQL can't tell apart"):
        source_table([Column("id", types.LONG), Column("ID", types.LONG)], ["id"])
