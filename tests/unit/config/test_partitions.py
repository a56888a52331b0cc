import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.config.partitions import Partition, in_words, parse


@pytest.mark.parametrize(
    ("text", "partition", "sql"),
    [
        ("region", Partition("identity", "region"), "`region`"),
        ("identity(region)", Partition("identity", "region"), "`region`"),
        ("bucket(16, customer_id)", Partition("bucket", "customer_id", 16), "bucket(16, `customer_id`)"),
        ("truncate( 8,name )", Partition("truncate", "name", 8), "truncate(8, `name`)"),
        ("year(at)", Partition("year", "at"), "years(`at`)"),
        ("month(at)", Partition("month", "at"), "months(`at`)"),
        ("DAY(at)", Partition("day", "at"), "days(`at`)"),
        ("days(at)", Partition("day", "at"), "days(`at`)"),
        ("hour(at)", Partition("hour", "at"), "hours(`at`)"),
        ("day(`dot.ted`)", Partition("day", "dot.ted"), "days(`dot.ted`)"),
        ("'a (b)'", Partition("identity", "a (b)"), "`a (b)`"),
        ("with space", Partition("identity", "with space"), "`with space`"),
        ("bucket(4, a, b)", Partition("bucket", "a, b", 4), "bucket(4, `a, b`)"),
    ],
)
def test_partitions_are_read_and_written_for_spark(text: str, partition: Partition, sql: str) -> None:
    assert parse(text) == partition
    assert parse(text).sql == sql


@pytest.mark.parametrize(
    "text",
    [
        "",
        "day()",
        "bucket(x)",
        "bucket(0, x)",
        "bucket(-1, x)",
        "bucket(16)",
        "week(x)",
        "day(x",
        "bucket(9999999999, x)",
    ],
)
def test_what_is_no_partition_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        parse(text)


@given(st.text(max_size=30))
def test_any_text_is_a_partition_or_a_value_error(text: str) -> None:
    try:
        parse(text)
    except ValueError:
        return


@pytest.mark.parametrize("text", ["id", "bucket(16, id)", "truncate(8, a b)", "day(at)", "hour(at)", "dot.ted"])
def test_icebergs_spelling_of_a_transform_becomes_the_entry_it_was_made_of(text: str) -> None:
    one = parse(text)
    iceberg = one.transform if one.size is None else f"{one.transform}[{one.size}]"
    assert in_words(iceberg, one.column) == str(one) == text
