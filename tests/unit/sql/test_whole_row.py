"""The name of a table stands for its whole row in DuckDB, with the hidden number of the row in it."""

import pyarrow as pa
import pytest

from firn.config.sql_text import SqlRefused
from firn_sql.check import check
from firn_sql.transform import Transform

CLICKS = pa.schema({"id": pa.int64(), "name": pa.string()})


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO web.c SELECT id, to_json(clicks) AS j FROM clicks",
        "INSERT INTO web.c SELECT id, md5(CAST(clicks AS VARCHAR)) AS j FROM clicks",
        "INSERT INTO web.c SELECT id, c AS j FROM clicks AS c",
        "INSERT INTO web.c WITH w AS (SELECT * FROM clicks) SELECT id, to_json(W) AS j FROM w",
        "INSERT INTO web.c SELECT id FROM clicks WHERE CAST(clicks AS VARCHAR) LIKE '%_firn_row%: 0%'",
    ],
)
def test_what_a_row_gives_does_not_depend_on_its_place_in_a_batch(sql: str) -> None:
    rows = pa.Table.from_pylist([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], CLICKS)
    try:
        transform = Transform(check(sql), CLICKS)
    except SqlRefused:
        return
    alone = [row for i in range(2) for row in transform.run(rows.slice(i, 1)).rows.to_pylist()]
    assert transform.run(rows).rows.to_pylist() == alone


def test_a_column_called_as_its_table_is_read_with_the_table_before_it() -> None:
    schema = pa.schema({"clicks": pa.int64()})
    transform = Transform(check("SELECT clicks.clicks AS n FROM clicks"), schema)
    assert transform.run(pa.Table.from_pylist([{"clicks": 7}], schema)).rows.to_pylist() == [{"n": 7}]
