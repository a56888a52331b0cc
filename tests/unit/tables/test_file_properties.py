"""What firn.yaml asks of a table's files becomes properties, and is as it was once firn.yaml no longer asks for it."""

import math

from firn.changes.decode.types import LONG, Column
from firn.config.file_writing import CODEC, MANIFEST, ROW_GROUP, BloomSize, FileWriting
from firn.tables import bloom_filters
from firn.tables.file_properties import ASKED, OWN, first, properties


def test_what_is_asked_for_and_no_longer_asked_for() -> None:
    assert properties(FileWriting(), {"write.parquet.page-size-bytes": "5"}) == {}, "set by someone else: it stays"
    asked = first(FileWriting({CODEC: "gzip", ROW_GROUP: "1000000"}))
    assert asked == {CODEC: "gzip", ROW_GROUP: "1000000", ASKED: f'["{CODEC}", "{ROW_GROUP}"]'}
    assert properties(FileWriting({CODEC: "snappy"}), asked) == {
        CODEC: "snappy", ROW_GROUP: OWN[ROW_GROUP], ASKED: f'["{CODEC}"]'
    }  # fmt: skip
    assert properties(FileWriting(), {CODEC: "snappy", ASKED: f'["{CODEC}"]'}) == {CODEC: None, ASKED: "[]"}


def test_a_bloom_filter_is_as_large_as_it_may_be() -> None:
    sizes = [BloomSize(), BloomSize(0.001), BloomSize(0.01, 64_000), BloomSize(0.5, 1_000)]
    assert [bloom_filters.values_for(100, one) for one in sizes] == [100, 100, 100, 100]
    for size in sizes:
        values = bloom_filters.values_for(10**6, size)
        made = -8 * values / math.log(1 - size.wrong ** (1 / 8)) / 8  # bytes, before a writer makes them a power of two
        assert size.most_bytes / 2 - 1 < made <= size.most_bytes
    column = [Column("id", LONG)]
    small = bloom_filters.properties("key", ["id"], column, {}, BloomSize(0.1, 64_000))
    assert bloom_filters.size_of("id", small) == BloomSize(0.1, 64_000)
    again = bloom_filters.properties("key", ["id"], column, small)
    assert bloom_filters.size_of("id", again) == BloomSize(), "said no longer"
    assert bloom_filters.size_of("id", {f"{bloom_filters.WRONG}id": "x"}) == BloomSize()


def test_manifests_have_a_size_that_readers_can_keep() -> None:
    from firn_lake.reading.manifests import MOST_BYTES

    assert int(OWN[MANIFEST]) * 2 <= MOST_BYTES
    assert properties(FileWriting(), {MANIFEST: "5000000", ASKED: f'["{MANIFEST}"]'})[MANIFEST] == OWN[MANIFEST]
