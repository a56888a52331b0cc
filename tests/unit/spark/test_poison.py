"""By columns and one by one, the same event is the dead letter."""

from typing import Any

import pyarrow as pa
import pytest

from firn.changes.decode.row_decoder import READ, MirrorDecoder
from firn_spark.staged.columnar import Columnar
from firn_spark.staged.decode import decoded_schema
from firn_spark.staged.packed import CHANGES
from tests.unit.changes.test_poison import DECODING, Fails, raw

IMAGES = ['{"id": 1, "v": "a"}', '{"id": 2, "v": "poison"}', '{"id": 3, "v": "c"}']


def rows() -> list[dict[str, Any]]:
    schema = pa.schema([CHANGES.field(name) for name in READ])
    changes = [{name: one[name] for name in READ} for one in (raw(n, image) for n, image in enumerate(IMAGES))]
    columnar = Columnar(MirrorDecoder(DECODING), decoded_schema(DECODING))
    batches = columnar.batches(pa.RecordBatch.from_pylist(changes, schema))
    return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["_index"])


@pytest.mark.parametrize("step", ["cells", "rows", "arrays"])
def test_a_mistake_in_any_step_costs_the_event_that_meets_it(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    usual = rows()
    real: Any = MirrorDecoder._rows

    def broken(self: MirrorDecoder, change: dict[str, Any]) -> Any:
        for row in real(self, change):
            if "poison" in change["after"]:
                if step == "rows":
                    raise Fails
                row[-1] = 5  # no text: Arrow refuses it
            yield row

    def columns(*_: Any) -> Any:
        raise Fails

    monkeypatch.setattr(Columnar, "_plain", columns)
    if step == "cells":
        assert rows() == usual
        return
    monkeypatch.setattr(MirrorDecoder, "_rows", broken)
    found = rows()
    assert [row["_code"] for row in found] == [None, "internal", None]
    assert [found[0], found[2]] == [usual[0], usual[2]]


def test_want_of_memory_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def columns(*_: Any) -> Any:
        raise pa.ArrowMemoryError("full")

    monkeypatch.setattr(Columnar, "_plain", columns)
    with pytest.raises(MemoryError):
        rows()
