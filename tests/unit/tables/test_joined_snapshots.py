"""What rows were joined with, as a table's own summaries tell it."""

from firn.tables.joined_snapshots import Joined, JoinedEpochs, recorded, summary

BY = {"rich": {"shop.customers": Joined("u", 7), "shop.gone": Joined("v", None)}, "none": {}}


def test_what_is_written_is_what_is_read() -> None:
    said = summary(3, BY)
    assert list(said) == ["firn.joined.rich"]
    told = [said | {"firn.epoch.web": "5"}, {"firn.epoch.web": "3"}, {"firn.epoch.shop": "9"} | said, {}]
    assert list(recorded("web", told)) == [JoinedEpochs(3, 5, {"rich": BY["rich"]})]


def test_nothing_is_written_where_nothing_is_joined() -> None:
    assert summary(3, {}) == {}
