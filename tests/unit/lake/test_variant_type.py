"""Iceberg's `variant`, which PyIceberg 0.12 by itself does not know."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import Schema, promote
from pyiceberg.types import NestedField, StringType

from firn_lake.variant_type import VariantType, variants_in, with_variants

TEXT = (
    '{"type":"struct","schema-id":3,"fields":[{"id":1,"name":"v","required":false,"type":"variant"},'
    '{"id":2,"name":"l","required":true,"type":{"type":"list","element-id":3,"element":"variant","element-required":true}},'
    '{"id":4,"name":"m","required":false,"type":{"type":"map","key-id":5,"key":"string","value-id":6,"value":"variant",'
    '"value-required":false}}]}'
)


def test_it_is_read_and_written_as_it_was() -> None:
    found = Schema.model_validate_json(TEXT)
    assert variants_in(found) == {1, 3, 6}
    assert Schema.model_validate_json(found.model_dump_json()) == found
    assert found.model_dump_json().count('"variant"') == 3
    assert found.fields[0].field_type != StringType()


def test_columns_of_text_become_variants_by_their_ids() -> None:
    text = Schema.model_validate_json(TEXT.replace('"variant"', '"string"'))
    assert with_variants(text, frozenset({1, 3, 6})) == Schema.model_validate_json(TEXT)
    assert with_variants(text, frozenset()) == text


def test_it_needs_format_3_and_becomes_nothing_else() -> None:
    schema = Schema(NestedField(1, "v", VariantType()))
    with pytest.raises(ValueError, match="variant is only supported in 3"):
        schema.check_format_version_compatibility(2)
    schema.check_format_version_compatibility(3)
    with pytest.raises(ResolveError, match="a variant"):
        promote(VariantType(), StringType())


def test_pyiceberg_by_itself_still_does_not() -> None:
    """Once this fails, variant_type can go."""
    code = f"from pyiceberg.schema import Schema; Schema.model_validate_json({TEXT!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=Path("/"))
    assert "'variant'" in done.stderr
