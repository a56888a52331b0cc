"""What Iceberg says of a new file is what it would find in the file itself."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from firn_spark.tables.java import java_class
from firn_spark.tables.parquet_metrics import FooterMetrics, footer_of

MODES = {
    "write.metadata.metrics.column.c0": "none", "write.metadata.metrics.column.c5": "counts",
    "write.metadata.metrics.column.c6": "full",
}  # fmt: skip
COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [3, None, -1]),
    (pa.int32(), [7, 8, 9]),
    (pa.float64(), [float("nan"), 1.5, -0.0]),
    (pa.decimal128(38, 4), [Decimal("-1.5"), None, Decimal("99999.0001")]),
    (pa.bool_(), [True, None, False]),
    (pa.string(), ["a" * 100, "ÿ" * 40, ""]),
    (pa.binary(), [b"\xff" * 30, b"", None]),
    (pa.date32(), [date(1969, 12, 31), None, date(2026, 1, 1)]),
    (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, tzinfo=UTC), None, None]),
    (pa.list_(pa.field("element", pa.string(), metadata={"PARQUET:field_id": "101"})), [["x"], None, []]),
    (pa.struct([pa.field("p", pa.int64(), metadata={"PARQUET:field_id": "102"})]), [{"p": 1}, None, {"p": None}]),
    (pa.string(), [None, None, None]),
]


def test_a_footer_tells_what_the_file_does(spark: SparkSession, tmp_path: Path) -> None:
    fields = [
        pa.field(f"c{place}", kind, metadata={"PARQUET:field_id": str(place + 1)})
        for place, (kind, _) in enumerate(COLUMNS)
    ]
    rows = pa.table([pa.array(values, kind) for kind, values in COLUMNS], schema=pa.schema(fields))
    body = pa.BufferOutputStream()
    pq.write_table(rows, body, row_group_size=2, store_schema=False)
    path = tmp_path / "a.parquet"
    path.write_bytes(body.getvalue().to_pybytes())
    classes = "org.apache.iceberg"
    properties = java_class(spark, "java.util.HashMap")()
    for name, value in MODES.items():
        properties.put(name, value)
    config = java_class(spark, f"{classes}.MetricsConfig").fromProperties(properties)
    spec = java_class(spark, f"{classes}.PartitionSpec").unpartitioned()
    files = java_class(spark, f"{classes}.hadoop.HadoopFileIO")(spark._jsc.hadoopConfiguration())

    def said(metrics: Any) -> dict[str, Any]:
        builder = java_class(spark, f"{classes}.DataFiles").builder(spec).withPath(str(path)).withFormat("parquet")
        file = builder.withFileSizeInBytes(path.stat().st_size).withMetrics(metrics).build()
        found: dict[str, Any] = json.loads(java_class(spark, f"{classes}.ContentFileParser").toJson(file, spec))
        return found

    of_file = java_class(spark, f"{classes}.parquet.ParquetUtil").fileMetrics(files.newInputFile(str(path)), config)
    of_footer = FooterMetrics(spark, config).of(footer_of(body.getvalue()))
    assert said(of_footer) == said(of_file)
    assert said(of_footer)["record-count"] == 3
    assert {2, 4, 6, 8} <= set(said(of_footer)["value-counts"]["keys"])
    assert 6 not in said(of_footer)["lower-bounds"]["keys"]
