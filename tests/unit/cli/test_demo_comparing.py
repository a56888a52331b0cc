import gzip
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from firn_demo.comparing import compare

CSV = "id,amount,day,at,flag,note\n1,1.50,2026-01-31,2026-01-31 12:00:00.5+00,t,a\n2,\\N,\\N,\\N,f,\\N\n"
TABLE = pa.table(
    {
        "id": [1, 2],
        "note": ["a", None],
        "amount": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "day": [date(2026, 1, 31), None],
        "at": pa.array([datetime(2026, 1, 31, 12, 0, 0, 500000, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        "flag": [True, False],
        "_firn_pos": [b"", b""],
    }
)


@pytest.fixture(params=["final.csv", "final.csv.gz"])
def final(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file = tmp_path / request.param
    file.write_bytes(gzip.compress(CSV.encode()) if file.suffix == ".gz" else CSV.encode())
    return file


def test_equal_rows_are_equal_by_type_whatever_the_order_of_columns(final: Path) -> None:
    comparison = compare("orders", TABLE, final)
    assert comparison.ok
    assert comparison.line() == "orders 2/2 rows equal"


def test_a_changed_a_missing_and_a_doubled_row_are_seen(final: Path) -> None:
    assert not compare("orders", TABLE.slice(0, 1), final).ok
    doubled = compare("orders", pa.concat_tables([TABLE, TABLE]), final)
    assert (doubled.equal, doubled.extra, doubled.ok) == (2, 2, False)
    assert "2 rows too many" in doubled.line()
    changed = TABLE.set_column(TABLE.schema.get_field_index("note"), "note", pa.array(["a", "x"]))
    assert compare("orders", changed, final).equal == 1


def test_a_missing_column_makes_every_row_differ(final: Path) -> None:
    assert compare("orders", TABLE.drop_columns(["note"]), final).equal == 0
