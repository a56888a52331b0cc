"""What `firn compact`, `firn expire` and `firn remove-orphans` print of a table."""

from firn_cli.commands.care import told


def test_numbers_are_told_in_words_and_why_snapshots_stay_below() -> None:
    line = {"kept": 1_021, "snapshots": 3, "carried": False, "stay": {"one of the newest": 1_020, "tag month-end": 1}}
    assert told(line) == "kept 1,021, snapshots 3\nstay: 1,020 one of the newest, 1 tag month-end"
    assert told({"freed_bytes": 2_000_000}) == "freed bytes 2.0 MB"
    assert told({}) == "nothing to do"
    assert told({"why": "it is not in the catalog", "kept": 1}) == "it is not in the catalog"
