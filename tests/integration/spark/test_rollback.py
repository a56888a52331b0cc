"""A rollback beside real jobs: one that looked before it looks again, and care finds all files where they are."""

from typing import Any

import pytest

from firn.maintenance import expiry as rules
from firn_lake.lake import Lake as Read
from firn_spark.maintenance.expiry import expire_all
from firn_spark.tables import fence
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import config, event
from tests.integration.spark.test_expiry import FEW, Make, rows, soon, table_of, values, whole
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark

FIRST = [event("c", 10 + n, {"id": n, "v": f"a{n}"}) for n in range(6)]
SECOND = [
    event("u", 30, {"id": 0, "v": "b0"}),
    event("d", 31, None, before={"id": 5}),
    event("c", 32, {"id": 9, "v": "b9"}),
]
# A row that the rollback brings back is recreated, one that it takes away is updated, one of each side is changed.
THIRD = [
    event("c", 50, {"id": 5, "v": "c5"}),
    event("u", 51, {"id": 9, "v": "c9"}),
    event("u", 52, {"id": 0, "v": "c0"}),
    event("d", 53, None, before={"id": 1}),
]
AFTER = {0: "c0", 2: "a2", 3: "a3", 4: "a4", 5: "c5", 9: "c9"}


@few_cases(1)
@pytest.mark.parametrize(
    "how", ["", ", partition_by: ['bucket(3, id)']", pytest.param(", write: copy-on-write", marks=long_only)]
)
def test_a_job_that_looked_before_a_rollback_looks_again(lake: Make, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(rules, "FEWEST_SNAPSHOTS", 3)
    one = lake(config(f"key: [id]{how}"))
    one.land(FIRST)
    one.land(SECOND)
    table = Read(one.catalog).table("lake.t")
    first = table.snapshots()[0].id
    before = rows(one, first)
    real, tries = fence.commit, []

    def commit(spark: Any, committed: Any, *rest: Any) -> None:
        if str(committed.name) == "lake.t":
            tries.append(1)
            if len(tries) == 1:
                table.rollback(first, then="skip")
                assert rows(one) == before
        real(spark, committed, *rest)

    with monkeypatch.context() as between:
        between.setattr(fence, "commit", commit)
        one.land(THIRD)
    assert len(tries) == 2
    assert values(one) == AFTER
    assert len(one.rows("lake.t")) == len(AFTER)
    assert table_of(one).state.progress("spec") == 3
    assert audited(one).differences == []
    expire_all(one.spark, one.store, table_of(one), FEW, soon())
    assert values(one) == AFTER
    whole(one)
