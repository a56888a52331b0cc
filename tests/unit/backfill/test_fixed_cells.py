"""Columns of bytes of one length are backfilled from a source's bytes of any."""

import pytest

from firn.backfill.mysql_cells import MysqlColumn, mysql_form
from firn.backfill.postgres_cells import goes_into
from firn.changes.decode.source_encodings import DecodeSettings
from firn.changes.decode.types import parse


@pytest.mark.parametrize(
    ("kind", "there", "goes"),
    [
        ("binary", "fixed[16]", True),
        ("fixed[16]", "fixed[16]", True),
        ("string", "fixed[16]", False),
        ("fixed[8]", "fixed[16]", False),
        ("int", "long", True),
        ("long", "int", False),
        ("binary", "string", True),
        ("string", "map<string, int>", False),
    ],
)
def test_what_goes_into_a_column(kind: str, there: str, goes: bool) -> None:
    assert goes_into(parse(kind), parse(there)) is goes


@pytest.mark.parametrize("kind", ["point", "geometry", "multipolygon"])
def test_geometries_of_mysql_go_into_bytes_as_wkb(kind: str) -> None:
    column = MysqlColumn("g", kind)
    assert str(mysql_form(column, DecodeSettings(), parse("string")).type) == "string"
    form = mysql_form(column, DecodeSettings(binary="hex"), parse("binary"))
    assert (str(form.type), "ST_AsBinary({})" in form.sql, "BASE64" in form.sql) == ("binary", True, True)
