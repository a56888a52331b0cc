"""Files say which of their columns are variants, as Parquet's specification wants it."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.changes.decode.types import VARIANT
from firn_spark.files import values
from firn_spark.files.values import file_field
from firn_spark.files.variant_footer import annotated
from firn_sql.source_types import arrow_type
from firn_sql.variant_columns import groups_in, groups_of, texts_of

FIELDS: list[dict[str, Any]] = [
    {"id": 1, "name": "metadata", "type": "binary", "required": True},
    {"id": 300, "name": "v", "type": "variant", "required": False},
    {"id": 2, "name": "value", "type": "string", "required": False},
    {"id": 3, "name": "s", "required": False, "type": {"type": "struct", "fields": [
        {"id": 4, "name": "v", "type": "int", "required": False}]}},
    {"id": 5, "name": "ünï", "type": "variant", "required": False},
    *({"id": 100 + n, "name": f"c{n}", "type": "double", "required": False} for n in range(20)),
]  # fmt: skip
TEXTS = ['{"a":1}', None, "null"]


def file_of(fields: list[dict[str, Any]], **options: Any) -> tuple[pa.Buffer, pa.Table]:
    schema = pa.schema([file_field(one) for one in fields])
    others = [pa.array([b"x"] * 3) if one["required"] else None for one in fields]
    arrays = [
        groups_of(TEXTS) if one["type"] == "variant" else other or pa.nulls(3, field.type)
        for one, other, field in zip(fields, others, schema, strict=True)
    ]
    rows = pa.Table.from_arrays(arrays, schema=schema)
    out = pa.BufferOutputStream()
    pq.write_table(rows, out, store_schema=False, **options)
    return out.getvalue(), rows


def shown(body: pa.Buffer) -> str:
    return str(pq.ParquetFile(pa.BufferReader(body)).schema).partition("\n")[2]


@pytest.mark.parametrize(
    "options", [{}, {"write_page_index": True, "bloom_filter_options": {"value": {"ndv": 10, "fpp": 0.1}}}]
)
def test_variants_are_told_and_nothing_else_changes(options: dict[str, Any]) -> None:
    body, rows = file_of(FIELDS, **options)
    told = annotated(body, rows.schema)
    schema = shown(told)
    assert schema.count("(Variant(1))") == 2
    assert "optional group field_id=300 v (Variant(1)) {" in schema
    assert "optional group field_id=5 ünï (Variant(1)) {" in schema
    assert schema.replace(" (Variant(1))", "") == shown(body)
    assert pq.read_table(pa.BufferReader(told)) == pq.read_table(pa.BufferReader(body))
    found = pq.read_table(pa.BufferReader(told))
    assert texts_of(found["v"].combine_chunks()) == TEXTS


def test_a_file_without_variants_stays_as_it_is() -> None:
    body, rows = file_of([one for one in FIELDS if one["type"] != "variant"])
    assert annotated(body, rows.schema) is body


def test_a_column_of_a_file_is_copied_to_the_byte_and_a_shredded_one_by_its_text() -> None:
    groups = groups_of(TEXTS)
    assert groups_in(groups) == groups
    typed = pa.struct(
        [pa.field("metadata", pa.binary()), pa.field("value", pa.binary()), pa.field("typed_value", pa.int64())]
    )
    shredded = pa.array([{"metadata": b"\x01\x00\x00", "typed_value": 5}, None], typed)
    assert texts_of(groups_in(shredded)) == ["5", None]
    with pytest.raises(pa.ArrowInvalid, match="is string"):
        texts_of(pa.array(["x"]))


def test_a_decoded_column_goes_into_a_file_and_comes_back() -> None:
    field = values.file_field(FIELDS[1])
    decoded = pa.chunked_array([pa.array(TEXTS, arrow_type(VARIANT))])
    written = values.written(values.decoded(decoded, VARIANT), VARIANT, field)
    assert written.type == field.type
    assert values.read(pa.chunked_array([written.slice(1)]), VARIANT) == TEXTS[1:]
    assert values.typed(TEXTS, VARIANT).to_pylist() == TEXTS
    rows = pa.table([written], schema=pa.schema([field]))
    assert values.now(rows, "v", field).to_pylist() == written.to_pylist()
    assert values.sealed(pa.chunked_array([written]), field).to_pylist() == written.to_pylist()
    assert values.lacking(2, field).to_pylist() == [None, None]
    out = pa.BufferOutputStream()
    pq.write_table(pa.table([values.sealed(values.lacking(2, field), field)], schema=pa.schema([field])), out)
