"""`care:` in firn.yaml: who expires."""

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
