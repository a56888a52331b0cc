"""S3's server access logs: which objects were read, and when."""

from datetime import UTC, datetime, timedelta

import pytest

from firn.maintenance.access_log import Access, parse_line

# After the examples of the S3 User Guide, "Amazon S3 server access log format".
OWNER = "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be"
REST = (
    f'{OWNER} my-lake [06/Feb/2026:00:00:38 +0000] 192.0.2.3 {OWNER} 3E57427F3EXAMPLE {{operation}} {{key}} "{{uri}}" '
    '{status} - 113 - 7 - "-" "S3Console/0.4 (a b)" - s9lzHYrFp76ZVxRcpX9+5cjAnEH2ROuNkd2BHfIa6UkFVdtjf5mKR3/eTPFvsiP/'
    "XV/VLi31234= SigV4 ECDHE-RSA-AES128-GCM-SHA256 AuthHeader my-lake.s3.us-west-1.amazonaws.com TLSV1.2 - -"
)


def line(
    operation: str = "REST.GET.OBJECT",
    key: str = "warehouse/shop/orders/data/day%3D2026-01-31/a.parquet",
    uri: str = "GET /warehouse/shop/orders/data/day%3D2026-01-31/a.parquet HTTP/1.1",
    status: str = "206",
) -> str:
    return REST.format(operation=operation, key=key, uri=uri, status=status)


def test_a_read_is_a_bucket_a_key_and_a_time() -> None:
    assert parse_line(line()) == Access(
        "my-lake", "warehouse/shop/orders/data/day=2026-01-31/a.parquet", datetime(2026, 2, 6, 0, 0, 38, tzinfo=UTC)
    )


def test_another_zone_is_the_same_moment() -> None:
    found = parse_line(line().replace("+0000", "-0130"))
    assert found is not None
    assert found.at == datetime(2026, 2, 6, 1, 30, 38, tzinfo=UTC)
    assert found.at.utcoffset() == -timedelta(hours=1, minutes=30)


def test_quotes_and_brackets_in_a_request_do_not_move_its_fields() -> None:
    odd = line(uri='GET /a?x="y"&z=[1] HTTP/1.1')
    assert parse_line(odd) == parse_line(line())


@pytest.mark.parametrize(
    "text",
    [
        line(operation="REST.PUT.OBJECT"),
        line(operation="REST.HEAD.OBJECT"),
        line(operation="REST.GET.BUCKET", key="-"),
        line(status="404"),
        line(status="-"),
        line().replace("Feb", "Fbe"),
        line().replace("06/Feb/2026", "36/Feb/2026"),
        line()[:120],
        "",
        "no log at all",
    ],
)
def test_everything_else_is_passed_over(text: str) -> None:
    assert parse_line(text) is None
