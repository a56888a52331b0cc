"""docs/joins.md is executed: its configuration parses and passes the check, and its join gives what the page says."""

import re
from pathlib import Path

import pyarrow as pa

from firn.config.reader import parse
from firn_sql.check import check
from firn_sql.configured import check_pipelines
from firn_sql.transform import Transform

PAGE = (Path(__file__).parents[3] / "docs" / "joins.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_passes_the_check_and_a_row_says_what_the_table_said() -> None:
    config = parse(EXAMPLE)
    check_pipelines(config)
    (pipeline,) = config.streams["web"].pipelines
    assert [str(one) for one in pipeline.joins] == ["shop.customers"]
    ada = pa.table({"id": [7], "name": ["Ada"], "plan": ["free"]})
    clicks = pa.table({"id": [1, 2, 3], "page": ["/", "/", "/health"], "customer_id": [7, None, 7]})
    transform = Transform(check(pipeline.sql), clicks.schema, joined={"shop.customers": ada.schema})
    made = transform.run(clicks, lambda _, columns, *__: ada.select(list(columns)))
    assert made.rows.to_pylist() == [
        {"id": 1, "page": "/", "name": "Ada", "plan": "free"},
        {"id": 2, "page": "/", "name": None, "plan": None},
    ]
