"""What Iceberg says of a Parquet file that was just written: out of its footer, which the writer has in its hands.

Iceberg's own `ParquetUtil.fileMetrics` opens the file again, two or three requests in a row, and reads Hadoop's
settings out of their XML each time: 15 ms of CPU a file.
"""

from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from firn_spark.tables.java import java_class

_MAGIC: Final = b"PAR1"
_TAIL: Final = 4 + len(_MAGIC)  # the footer's length, and the magic
_PARQUET: Final = "org.apache.iceberg.shaded.org.apache.parquet"


def footer_of(body: pa.Buffer) -> bytes:
    """The footer of a whole Parquet file that is not encrypted."""
    tail = body.slice(body.size - _TAIL).to_pybytes()
    if not tail.endswith(_MAGIC):
        raise ValueError(f"no Parquet file: it ends with {tail!r}")
    length = int.from_bytes(tail[:4], "little")
    return bytes(body.slice(body.size - _TAIL - length, length).to_pybytes())


class FooterMetrics:
    """Metrics of new files, as an org.apache.iceberg.MetricsConfig wants them. Safe in threads."""

    def __init__(self, spark: SparkSession, config: Any) -> None:
        gateway: Any = spark.sparkContext._gateway
        self._config = config
        self._converter, self._filter = _reading(gateway._gateway_client)
        self._iceberg = java_class(spark, "org.apache.iceberg.parquet.ParquetUtil")
        self._stream = java_class(spark, "java.util.stream.Stream")
        self._bytes = java_class(spark, "java.io.ByteArrayInputStream")

    def of(self, footer: bytes) -> Any:
        """The org.apache.iceberg.Metrics of the file with this footer: those that `fileMetrics` finds."""
        read = self._converter.readParquetMetadata(self._bytes(footer), self._filter)
        return self._iceberg.footerMetrics(read, self._stream.empty(), self._config)


@lru_cache(maxsize=1)
def _reading(client: Any) -> tuple[Any, Any]:
    """What reads footers in the JVM that `client` talks to, by Parquet's defaults; and which row groups: all."""
    settings = JavaClass(f"{_PARQUET}.conf.PlainParquetConfiguration", client)()
    options = JavaClass(f"{_PARQUET}.ParquetReadOptions", client).builder(settings).build()
    converter = JavaClass(f"{_PARQUET}.format.converter.ParquetMetadataConverter", client)
    return converter(options), converter.NO_FILTER
