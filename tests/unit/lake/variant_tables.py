"""Tables of Iceberg's format 3 with columns of variants, as Spark makes them, without Spark."""

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema

from firn.changes.decode.variant_bytes import variant_of
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.writing.commit import land_files

BINARIES = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])


def numbered(name: str, kind: pa.DataType, number: int) -> pa.Field:
    """A column of a file with the id that Iceberg has for it."""
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def group(text: str | None) -> dict[str, bytes] | None:
    """A JSON text as the two binaries of a variant; None for None, which is no variant at all."""
    return None if text is None else dict(zip(("metadata", "value"), variant_of(text), strict=True))


def make_table(catalog: Catalog, name: str, fields: Sequence[Mapping[str, Any]]) -> LakeTable:
    """`fields`: after `id`, as Iceberg's JSON has them."""
    told = [{"id": 1, "name": "id", "required": False, "type": "long"}, *fields]
    schema = Schema.model_validate_json(json.dumps({"type": "struct", "schema-id": 0, "fields": told}))
    catalog.create_namespace_if_not_exists(name.split(".")[0])
    catalog.create_table(name, schema, properties={"format-version": "3"})
    return Lake(catalog).table(name)


def add_file(table: LakeTable, rows: pa.Table) -> str:
    """Commits a data file of these rows, as it is. -> its path."""
    iceberg = table.iceberg
    path = f"{iceberg.location()}/data/{uuid.uuid4()}.parquet"
    with iceberg.io.new_output(path).create() as stream:
        pq.write_table(rows, stream, store_schema=False)
    told: dict[str, Any] = {
        "content": DataFileContent.DATA, "file_path": path, "file_format": FileFormat.PARQUET, "partition": (),
        "record_count": len(rows), "file_size_in_bytes": len(iceberg.io.new_input(path)),
    }  # fmt: skip
    file = DataFile.from_args(_table_format_version=3, **told)
    file.spec_id = 0
    land_files(iceberg, [], [file], {})
    return path
