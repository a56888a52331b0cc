"""How much of a mirror's base is read to find the keys that changed."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from firn_spark.pipelines import base_delta
from firn_spark.pipelines.base_delta import NoDelta


@dataclass
class Snapshot:
    """As org.apache.iceberg.Snapshot answers."""

    number: int
    told: dict[str, str]
    kind: str = "overwrite"

    def snapshotId(self) -> int:
        return self.number

    def parentId(self) -> int | None:
        return self.number - 1 or None

    def operation(self) -> str:
        return self.kind

    def summary(self) -> dict[str, str]:
        return self.told


def between(*told: dict[str, str]) -> list[Any]:
    """Those of such snapshots, the oldest first, that are read behind another one."""
    known = [Snapshot(1, {}), *(Snapshot(n, one) for n, one in enumerate(told, 2))]
    java = SimpleNamespace(snapshot=lambda n: known[n - 1])
    base: Any = SimpleNamespace(java=java)
    return base_delta.snapshots_between(base, 1, known[-1])


def test_a_vector_that_holds_the_rows_of_the_one_before_counts_for_its_new_rows() -> None:
    vector = {"added-position-deletes": "5000001", "removed-position-deletes": "5000000"}
    assert len(between(vector, vector)) == 2


def test_vectors_that_leave_with_their_files_hide_no_rows_that_came() -> None:
    came = {"added-records": str(base_delta.MOST_ROWS + 1)}
    with pytest.raises(NoDelta, match="rows changed"):
        between(came, {"added-records": "1", "removed-position-deletes": "8000000"})
    with pytest.raises(NoDelta, match="rows changed"):
        between(came | {"removed-position-deletes": "8000000"})
