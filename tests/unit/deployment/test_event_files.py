import gzip
from pathlib import Path

import pytest

from firn.deployment.event_files import UnreadableFile, messages, read_batches


def write(path: Path, lines: list[str]) -> Path:
    text = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def test_a_file_is_cut_at_line_ends_below_the_byte_limit(tmp_path: Path) -> None:
    file = write(tmp_path / "a.ndjson", ["x" * 9] * 10)
    batches = list(read_batches(file, max_bytes=35))
    assert [batch.events for batch in batches] == [3, 3, 3, 1]
    assert b"".join(batch.body for batch in batches) == file.read_bytes()
    assert [batch.number for batch in batches] == [1, 2, 3, 4]
    assert batches[-1].read == file.stat().st_size


def test_a_line_above_the_limit_goes_alone(tmp_path: Path) -> None:
    file = write(tmp_path / "a.ndjson", ["x" * 100, "y"])
    assert [batch.events for batch in read_batches(file, max_bytes=35)] == [1, 1]


@pytest.mark.parametrize("name", ["a.ndjson", "a.ndjson.gz", "gzipped-without-its-suffix"])
def test_gzip_is_known_by_content(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, ["1", "2"])
    if "suffix" in name:
        file.write_bytes(gzip.compress(b"1\n2\n"))
    assert [batch.body for batch in read_batches(file)] == [b"1\n2\n"]


def test_split_makes_that_many_batches(tmp_path: Path) -> None:
    file = write(tmp_path / "a", [str(number) for number in range(100)])
    assert [batch.events for batch in read_batches(file, split=4)] == [25] * 4
    assert sum(batch.events for batch in read_batches(file, split=7)) == 100
    assert len(list(read_batches(file, split=7))) == 7


def test_empty_lines_are_left_out_and_the_last_line_needs_no_newline(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"1\n\n  \n2")
    assert [batch.body for batch in read_batches(file)] == [b"1\n2\n"]


def test_the_same_lines_at_the_same_place_have_the_same_key(tmp_path: Path) -> None:
    file = write(tmp_path / "a", ["1", "1"])
    first, second = read_batches(file, max_events=1)
    assert first.body == second.body
    assert first.key("s") != second.key("s")  # two equal batches are both meant
    assert first.key("s") != first.key("t")
    assert first.key("s") == next(iter(read_batches(file, max_events=1))).key("s")


def test_a_truncated_gzip_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.gz"
    file.write_bytes(gzip.compress(b"1\n" * 1000)[:-10])
    with pytest.raises(UnreadableFile, match=r"a\.gz"):
        list(read_batches(file))
    with pytest.raises(UnreadableFile, match="No such file"):
        list(read_batches(tmp_path / "nothing"))


def test_messages_come_in_groups_that_sqs_takes() -> None:
    assert [len(group) for group in messages([b"x"] * 25)] == [10, 10, 5]
    assert [len(group) for group in messages([b"x" * 100_000] * 5)] == [2, 2, 1]
    with pytest.raises(UnreadableFile, match="too large for SQS"):
        list(messages([b"x" * 300_000]))
