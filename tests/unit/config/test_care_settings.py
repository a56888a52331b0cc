"""`care:` in firn.yaml: who expires, and which tables are looked after though no stream feeds them."""

import pytest

from firn.config.names import TableName
from firn.config.reader import parse
from firn.errors import ConfigError

STREAMS = """
streams:
  shop:
    tables:
      a: {to: shop.a, key: [id]}
      b: {to: shop.b, key: [id], care: {expire: {by: catalog}}}
"""


def test_who_lets_snapshots_go_is_said_for_all_tables_and_for_some() -> None:
    plain = parse(STREAMS, "firn.yaml")
    assert plain.care_of(TableName("shop", "a")).expiry.by is None
    assert plain.care_of(TableName("shop", "b")).expiry.by == "catalog"
    said = parse("care: {expire: {by: firn, keep: 1d}}\n" + STREAMS, "firn.yaml")
    assert said.care_of(TableName("shop", "a")).expiry.by == "firn"
    assert said.care_of(TableName("shop", "b")).expiry.by == "catalog"
    with pytest.raises(ConfigError, match=r"care\.expire\.by: 'nobody' is not a side that expires snapshots; write"):
        parse("care: {expire: {by: nobody}}\n" + STREAMS, "firn.yaml")


def test_tables_that_no_stream_feeds_are_named_in_the_section_for_all_tables_alone() -> None:
    assert parse(STREAMS, "firn.yaml").care.also.patterns == ()
    said = parse("care: {also: [reports.*, reports.*, shop.x.y]}\n" + STREAMS, "firn.yaml")
    assert said.care.also.patterns == ("reports.*", "shop.x.y")
    with pytest.raises(ConfigError, match="also"):
        parse(STREAMS.replace("{expire: {by: catalog}}", "{also: [reports.*]}"), "firn.yaml")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[reports]", "'reports' names no table; write also: "),
        ("[reports..by_day]", "'reports..by_day' names no table; write also: "),
        ("['*.*']", "names tables of any namespace; write also: "),
        ("['rep*.x']", "names tables of any namespace; write also: "),
        ("[reports.x__deletes]", "is called as a table of Firn's own"),
        ("{a: b}", "needs texts; write also: "),
        ("[" + ", ".join(f"r.t{n}" for n in range(101)) + "]", "has 101 names, and 100 are read"),
    ],
)
def test_a_name_that_is_none_is_told(written: str, said: str) -> None:
    with pytest.raises(ConfigError) as found:
        parse(f"care: {{also: {written}}}\n" + STREAMS, "firn.yaml")
    assert said in str(found.value)
