"""Defaults of timestamps with nanoseconds, which PyIceberg 0.12 by itself takes for what nobody can read."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.schema import Schema

from firn_lake.catalogs import nano_defaults  # noqa: F401 (as it is imported)

NANOS = 1_709_168_523_123_456_789
TEXT = "2024-02-29T01:02:03.123456789"


def schema(kind: str, text: str) -> str:
    return (
        '{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"n","required":false,'
        f'"type":"{kind}","initial-default":"{text}","write-default":"{text}"}}]}}'
    )


@pytest.mark.parametrize(("kind", "text"), [("timestamp_ns", TEXT), ("timestamptz_ns", TEXT + "+00:00")])
def test_a_default_is_read_and_written_as_it_was(kind: str, text: str) -> None:
    found = Schema.model_validate_json(schema(kind, text))
    assert (found.fields[0].initial_default, found.fields[0].write_default) == (NANOS, NANOS)
    assert Schema.model_validate_json(found.model_dump_json()) == found
    assert text in found.model_dump_json()


def test_one_before_1970_too() -> None:
    text = "1969-12-31T23:59:59.000000001"
    found = Schema.model_validate_json(schema("timestamp_ns", text))
    assert found.fields[0].initial_default == -999_999_999
    assert text in found.model_dump_json()


def test_pyiceberg_by_itself_still_does_not() -> None:
    """Once this fails, nano_defaults can go."""
    code = f"from pyiceberg.schema import Schema; Schema.model_validate_json({schema('timestamp_ns', TEXT)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=Path("/"))
    assert "timestamp_ns not supported" in done.stderr
