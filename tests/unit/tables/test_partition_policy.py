"""When a table's partitioning follows firn.yaml."""

from firn.config.partitions import parse
from firn.tables.partition_policy import asked, differs

DAY, BUCKET = (parse("day(at)"),), (parse("bucket(4, id)"),)


def test_a_changed_line_is_followed_once() -> None:
    assert differs(BUCKET, asked(DAY), lambda: ["day(at)"])
    assert differs((), asked(DAY), lambda: ["day(at)"])
    assert not differs(BUCKET, asked(BUCKET), lambda: ["bucket(4, id)"])


def test_what_someone_did_by_hand_stays_until_the_line_changes() -> None:
    assert not differs(DAY, asked(DAY), lambda: ["hour(at)"])
    assert differs(BUCKET, asked(DAY), lambda: ["hour(at)"])


def test_a_table_without_memory_is_partitioned_as_the_file_says_and_never_unpartitioned() -> None:
    assert differs(DAY, {}, lambda: [])
    assert not differs(DAY, {}, lambda: ["day(at)"])
    assert not differs((), {}, lambda: ["day(at)"])
