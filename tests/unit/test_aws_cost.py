"""The costs in docs/deploy-aws.md are those that benchmarks/aws_cost.py computes."""

from pathlib import Path

import pytest

from benchmarks.aws_cost import SIZES, Size, parts, table, worker_seconds

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_what_is_computed() -> None:
    assert table() in (ROOT / "docs" / "deploy-aws.md").read_text(), "run `python -m benchmarks.aws_cost`, and paste"


def test_a_small_sum_by_hand() -> None:
    size = Size("s", requests=1_000, changes=0, tables=1, commits=0, always=False, cpu=0)
    found = parts(size)
    assert found["API Gateway"] == pytest.approx(30_000 * 3.5e-6)
    # 30,000 requests of 40 ms with 1 GB, and a dispatch of 0.6 s with half a GB each minute.
    seconds = 30_000 * 0.040 + 43_200 * 0.5 * 0.6
    assert found["Lambda"] == pytest.approx(73_200 * 0.2e-6 + seconds * 16.6667e-6)
    assert found["EMR Serverless"] == 0
    assert found["S3 requests"] == pytest.approx((60_000 + 43_200 * 8) * 5e-6 + 60_000 * 0.4e-6)


def test_work_that_no_standing_worker_could_do_is_paid_too() -> None:
    busy = Size("s", 1, 100_000_000_000, 1, 1, always=True, cpu=60)
    assert worker_seconds(busy) == pytest.approx(100_000 * 30 * 60 / 2)
    assert all(worker_seconds(size) > 0 for size in SIZES)
