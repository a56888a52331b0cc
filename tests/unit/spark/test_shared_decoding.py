"""Changes decoded once for several tables: the same rows as each table would decode for itself, and when they go."""

from typing import Any

import pyarrow as pa
import pytest

from firn.changes.decode.codec import DecodeSettings, declared_column
from firn.changes.decode.declared_types import parse_declared
from firn.changes.decode.row_decoder import Decoding
from firn_spark.merge import shared_decoding
from firn_spark.merge.shared_decoding import ID, PLACE, DecodedOnce, Shared, beside, found_in
from firn_spark.staged.packed import CHANGES, bytes_of, rows_in


def decoding(kind: str = "long", **more: Any) -> Decoding:
    column = declared_column("v", *parse_declared(kind), DecodeSettings())
    return Decoding((column,), (), DecodeSettings(), **more)


def changes(*images: str, op: str = "c") -> pa.Table:
    rows = [
        {"epoch": 1, "batch": "b", "index": n, "table": "t", "op": op if n % 2 else "c", "connector": "rows",
         "flat": False, "after": image, "pos": bytes([n]), "ord": bytes([1, n]), "occurrence": 0}
        for n, image in enumerate(images)
    ]  # fmt: skip
    return pa.Table.from_pylist([{name: one.get(name) for name in CHANGES.names} for one in rows], CHANGES)


IMAGES = ['{"v": 1}', '{"v": 1e2}', '{"v": "bad"}', "{}", '{"v": 5}', "no json"]


@pytest.mark.parametrize("reads", [True, False])
def test_what_travels_beside_changes_is_what_they_are_decoded_to(reads: bool) -> None:
    """Some are not plain, and so are decoded behind the others; some are rejected; some are left out."""
    how = Shared(decoding(snapshot_reads=reads), "web", 2)
    staged = changes(*IMAGES, op="r")
    alone = found_in(staged, how.decoding, "web")
    wide = pa.Table.from_batches([rows_in(bytes_of(beside(staged, how).combine_chunks().to_batches()[0]))])
    assert found_in(wide, how.decoding, "web").to_pylist() == alone.to_pylist()
    assert alone[PLACE].to_pylist() == ([0, 1, 2, 3, 4, 5] if reads else [0, 2, 4])
    assert alone["c0"].to_pylist() == ([1, 100, None, None, 5, None] if reads else [1, None, 5])
    assert [one is None for one in alone[ID].to_pylist()] == [one is not None for one in alone["_code"].to_pylist()]


def test_a_part_of_the_changes_has_its_own_rows_beside_it() -> None:
    how = Shared(decoding(snapshot_reads=False), "web", 2)
    wide = beside(changes(*IMAGES, op="r"), how)
    for some in (wide.slice(1), wide.take([4, 0]), pa.concat_tables([wide.slice(3), wide.slice(0, 2)])):
        alone = found_in(shared_decoding.as_staged(some), how.decoding, "web")
        assert found_in(some, how.decoding, "web").to_pylist() == alone.to_pylist()
    assert found_in(wide.slice(0, 0), how.decoding, "web").num_rows == 0


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []

    def counting(staged: pa.Table, by: Shared) -> pa.Table:
        found.append(len(staged))
        return beside(staged, by)

    monkeypatch.setattr(shared_decoding, "beside", counting)
    return found


def taken(once: DecodedOnce, by: Shared, which: str = "t") -> list[Any]:
    return [row for part in once.parts(which, [changes(*IMAGES)], by) for row in part.to_pylist()]


def test_tables_that_decode_alike_decode_once_and_nothing_is_kept_after_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, once, by = counted(monkeypatch), DecodedOnce(), Shared(decoding(), "web", 3)
    assert taken(once, by) == taken(once, by) == taken(once, by)
    assert (seen, once.bytes) == ([6], 0)
    taken(once, by)  # a table that is tried again
    assert seen == [6, 6]


def test_tables_that_decode_otherwise_or_other_changes_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, once = counted(monkeypatch), DecodedOnce()
    assert taken(once, Shared(decoding(), "web", 2)) != taken(once, Shared(decoding("string"), "web", 2))
    taken(once, Shared(decoding(), "web", 2), "others")
    assert seen == [6, 6, 6]


def test_of_too_much_each_table_decodes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, once, by = counted(monkeypatch), DecodedOnce(most=1), Shared(decoding(), "web", 2)
    assert taken(once, by) == taken(once, by)
    assert (seen, once.bytes) == ([6, 6], 0)
