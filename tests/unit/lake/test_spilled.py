"""Records that go through files come back whole, each name's together, a part at a time."""

from pathlib import Path

import pytest

from firn_lake.audit import spilled
from firn_lake.audit.spilled import Spilled


@pytest.mark.parametrize("records", [0, 100, 1_000])
def test_all_records_of_a_name_are_in_one_part(tmp_path: Path, records: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled, "PART", 100)
    monkeypatch.setattr(spilled, "_WAITING", 70)
    made = Spilled(tmp_path, "t", records)
    for number in range(1_000):
        made.put((number % 50,), number % 2, (number % 50, number))
    assert bool(list(tmp_path.iterdir())) == (records > 100)
    for _ in range(2):
        parts = list(made.parts())
        assert len(parts) == max(1, records // 100)
        names = [{name for side in part for name, _ in side} for part in parts]
        assert sum(map(len, names)) == len(set().union(*names)) == 50
        for side in (0, 1):
            assert sorted(n for part in parts for _, n in part[side]) == list(range(side, 1_000, 2))
