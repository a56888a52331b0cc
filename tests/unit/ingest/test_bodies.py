import gzip
import zlib

import pytest
import zstandard

from firn.errors import RequestError
from firn.ingest.bodies import Limits, content_of, read_body

LIMITS = Limits(sent=1_000_000, inflated=5_000_000)
BODY = b'{"op":"c"}\n' * 5_000


def status(raw: bytes, encoding: str | None, limits: Limits = LIMITS) -> int:
    with pytest.raises(RequestError) as caught:
        read_body(raw, encoding, limits)
    return caught.value.status


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        (BODY, None),
        (BODY, "identity"),
        (gzip.compress(BODY), "gzip"),
        (gzip.compress(BODY), " GZIP "),
        (zstandard.compress(BODY), "zstd"),
    ],
)
def test_a_body_is_read_in_every_encoding(raw: bytes, encoding: str | None) -> None:
    assert read_body(raw, encoding, LIMITS) == BODY


def test_several_gzip_members_are_one_body() -> None:
    assert read_body(gzip.compress(BODY) + gzip.compress(b"x") + b"\0" * 8, "gzip", LIMITS) == BODY + b"x"


def test_several_zstd_frames_are_one_body() -> None:
    frames = zstandard.compress(BODY) + zstandard.compress(b"") + zstandard.ZstdCompressor().compress(b"x" * 3_000)
    assert read_body(frames, "zstd", LIMITS) == BODY + b"x" * 3_000


@pytest.mark.parametrize("cut", [1, 5, 10])
def test_cut_off_compression_is_a_400(cut: int) -> None:
    assert status(gzip.compress(BODY)[:-cut], "gzip") == 400
    assert status(zstandard.compress(BODY)[:-cut], "zstd") == 400


@pytest.mark.parametrize("raw", [b"", b"no", b'{"op":"c"}', zlib.compress(BODY)])
def test_what_is_not_compressed_is_a_400(raw: bytes) -> None:
    assert status(raw, "gzip") == 400
    assert status(raw, "zstd") == 400


def test_rubbish_after_the_last_member_is_a_400() -> None:
    assert status(gzip.compress(BODY) + b"rubbish", "gzip") == 400
    assert status(zstandard.compress(BODY) + b"rubbish", "zstd") == 400


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor(level=3).compress])
def test_200_mb_out_of_200_kb_are_a_413_and_are_never_held(compress: object) -> None:
    bomb = compress(bytes(200_000_000))  # type: ignore[operator]
    assert len(bomb) < 300_000
    assert status(bomb, "gzip" if bomb[:2] == b"\x1f\x8b" else "zstd") == 413


def test_many_small_members_count_together() -> None:
    member = gzip.compress(bytes(100_000))
    assert status(member * 51, "gzip") == 413
    assert len(read_body(member * 50, "gzip", LIMITS)) == 5_000_000


def test_a_zstd_window_beyond_8_mb_is_a_400() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    assert status(compressor.compress(BODY * 100) + compressor.flush(), "zstd", Limits(10**7, 10**8)) == 400


def test_a_body_over_the_limit_is_a_413() -> None:
    assert status(bytes(1_000_001), None) == 413


def test_an_unknown_encoding_is_a_415() -> None:
    assert status(BODY, "br") == 415


@pytest.mark.parametrize(
    ("content_type", "content"),
    [
        (None, "auto"),
        ("application/json", "auto"),
        ("Application/JSON; charset=UTF-8", "auto"),
        ("application/x-ndjson", "ndjson"),
        ("application/ndjson", "ndjson"),
        ("application/cloudevents+json; charset=utf-8", "auto"),
        ("application/cloudevents-batch+json", "auto"),
    ],
)
def test_the_content_type_says_how_to_read(content_type: str | None, content: str) -> None:
    assert content_of(content_type) == content


@pytest.mark.parametrize(
    "content_type", ["text/csv", "application/x-www-form-urlencoded", "application/json; charset=utf-16"]
)
def test_other_content_types_are_a_415(content_type: str) -> None:
    with pytest.raises(RequestError) as caught:
        content_of(content_type)
    assert caught.value.status == 415
