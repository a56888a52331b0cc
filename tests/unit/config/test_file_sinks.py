"""`files:` of a pipeline: each error names its line and what to write instead."""

import pytest

from firn.config.file_sinks import FileSink, Roll, overlap, refused_place
from firn.config.reader import parse
from firn.errors import ConfigError

TEXT = """warehouse: s3://acme-lake/warehouse
streams:
  web:
    envelope: rows
    tables: {clicks: {to: web.clicks, mode: append}}
    pipelines:
      raw:
        sql: SELECT * FROM clicks
        files: {%s}
"""


def read(files: str) -> FileSink:
    found = parse(TEXT % files).streams["web"].pipelines[0].files
    assert found is not None
    return found


def test_what_is_not_written_has_a_default() -> None:
    found = read("to: s3://acme-lake/files")
    assert found == FileSink("s3://acme-lake/files")
    assert (found.format, found.compression, found.roll, found.ending) == (
        "parquet",
        "zstd",
        Roll(300, 10**8),
        ".parquet",
    )


def test_all_of_it_is_read() -> None:
    found = read("to: file:///data/web/, format: json, compression: gzip, path: 'dt=%Y-%m-%d/r={region}', time: at, "
                 "roll: {every: 1h, size: 20MB}")  # fmt: skip
    assert (found.to, found.time, found.roll, found.ending) == (
        "file:///data/web",
        "at",
        Roll(3600, 2 * 10**7),
        ".json.gz",
    )
    assert (found.path.codes, found.path.columns) == (("Y", "m", "d"), ("region",))


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ("format: json", "files.to: is missing; write to: s3://bucket/prefix, or file:///path for a folder"),
        ("to: gs://Acme/x", "files.to: 'Acme' is not a bucket's name; write gs://bucket/prefix"),
        ("to: abfss://acme/x", "files.to: 'acme' names no container of an account; write abfss://container@account"),
        ("to: acme/x", "files.to: 'acme/x' is not an address"),
        ("to: 's3://a/../b'", "files.to: 's3://a/../b' holds an empty folder, . or ..; write the folders' own names"),
        ("to: s3://a//b", "holds an empty folder"),
        ("to: 's3://a/b c'", "holds ' '; write letters, digits, slashes"),
        ("to: 's3://a/%2e%2e'", "holds '%'"),
        ("to: s3://" + "a" * 300, "has 300 characters; at most 250 are taken"),
        ("to: s3://key:secret@a/b", "holds a password"),
        ("to: s3://acme-lake/warehouse/x", "files.to: s3://acme-lake/warehouse/x lies in the warehouse "
         "(s3://acme-lake/warehouse), or holds it; files need a place of their own: write s3://acme-lake/files"),
        ("to: s3://acme-lake", "lies in the warehouse"),
        ("to: s3://a/b, format: csv", "files.format: 'csv' is not a format; write parquet or json"),
        ("to: s3://a/b, compression: brotli", "files.compression: 'brotli' is not a compression; write zstd"),
        ("to: s3://a/b, format: json, compression: snappy", "'snappy' is not for json; write zstd, gzip or none"),
        ("to: s3://a/b, format: json, compression: lz4", "'lz4' is not for json"),
        ("to: s3://a/b, path: /x", "files.path: '/x' begins with a slash"),
        ("to: s3://a/b, time: at", "files.time: gives the %-codes of path their time, and there are none"),
        ("to: s3://a/b, roll: {every: 5}", "files.roll.every: '5' is not a duration; write 5s"),
        ("to: s3://a/b, roll: {size: 2GB}", "files.roll.size: '2GB' is more than 1GB"),
        ("to: s3://a/b, roll: {bytes: 2}", "files.roll.bytes: is not a setting; write one of every or size"),
        ("to: s3://a/b, partition: x", "files.partition: is not a setting"),
    ],
)  # fmt: skip
def test_what_can_not_be_says_what_to_write(files: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(files)
    assert f"firn.yaml:9: streams.web.pipelines.raw.{error}" in str(raised.value) or error in str(raised.value)
    assert "firn.yaml:9: streams.web.pipelines.raw.files" in str(raised.value)


def test_places_that_hold_one_another_meet() -> None:
    assert overlap("s3://a/b", "s3://a/b/")
    assert overlap("s3://a/b/c", "s3://a/b")
    assert overlap("s3://a", "s3://a/b")
    assert not overlap("s3://a/bc", "s3://a/b")
    assert not overlap("s3://ab", "s3://a")
    assert not overlap("s3://a/b", "")
    assert refused_place("s3://a/files", {"warehouse": "s3://a/warehouse", "staging area": "s3://s"}) is None
    assert "staging area" in str(refused_place("s3://s/files", {"staging area": "s3://s"}))
