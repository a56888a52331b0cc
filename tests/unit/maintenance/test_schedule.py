"""What care is due: nothing without a reason, and nothing that was just tried in vain."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from firn.config.maintenance import Care, Compaction, Expiry, Statistics
from firn.log import layout
from firn.log.table_health import Health
from firn.maintenance.health import left
from firn.maintenance.schedule import Kind, due, noted, tables_due

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
# Looked for orphans just now: of that nothing is due.
WELL = Health("shop.orders", layout.instant(NOW), files=10, bytes=10**9, snapshots=50, orphans_at=layout.instant(NOW))


def ago(**time: float) -> str:
    return layout.instant(NOW - timedelta(**time))


def told(health: Health, care: Care | None = None, now: datetime = NOW) -> set[Kind]:
    return set(due(health, care or Care(), now))


def with_(**changes: object) -> Health:
    return msgspec.structs.replace(WELL, **changes)


def test_nothing_is_due_of_a_table_that_is_well() -> None:
    assert told(WELL) == set()


@pytest.mark.parametrize(
    ("health", "kinds"),
    [
        (with_(rewrite_bytes=1, small=8), {"compact"}),
        (with_(rewrite_bytes=0, small=8), set()),
        (with_(rewrite_manifests=51, manifests=90), {"compact"}),
        (with_(manifests=90), set()),
        (with_(snapshots=1015), set()),
        (with_(snapshots=1016), {"expire"}),
        (with_(snapshots=116, oldest=ago(days=5.1)), {"expire"}),
        (with_(snapshots=115, oldest=ago(days=5.1)), set()),
        (with_(snapshots=116, oldest=ago(days=4.9)), set()),
        (with_(snapshots=2000, expired_at=ago(hours=5)), set()),
        (with_(snapshots=2000, expired_at=ago(hours=7)), {"expire"}),
        (with_(orphans_at=None), {"orphans"}),
        (with_(orphans_at=ago(days=6)), set()),
        (with_(orphans_at=ago(days=8)), {"orphans"}),
        (with_(orphans_at=ago(days=8), measured_at=ago(days=9)), set()),
    ],
)
def test_each_kind_is_due_by_its_own_numbers(health: Health, kinds: set[Kind]) -> None:
    assert told(health) == kinds


def test_the_reasons_are_for_people() -> None:
    said = due(with_(rewrite_bytes=12_300_000, small=1200, delete_files=7, deleted=5000, snapshots=3000), Care(), NOW)
    assert said["compact"] == "12.3 MB to rewrite: 1,200 small files, 5,000 deleted rows in 7 delete files"
    both = due(with_(rewrite_bytes=2_000_000, rewrite_manifests=1_200), Care(), NOW)["compact"]
    assert both == "2.0 MB to rewrite: files of odd sizes; 1,200 manifests to rewrite"
    assert due(with_(rewrite_manifests=60), Care(), NOW)["compact"] == "60 manifests to rewrite"
    assert said["expire"] == "3,000 snapshots, at most 1,000 are kept"


def test_compaction_that_is_off_is_never_due() -> None:
    owing = with_(rewrite_bytes=10**9, rewrite_manifests=99)
    assert told(owing, Care(compaction=Compaction(on=False))) == set()


def test_an_hours_budget_is_spent_and_comes_back() -> None:
    care = Care(compaction=Compaction(budget_bytes=100))
    health = noted(with_(rewrite_bytes=10**9), "shop.orders", "compact", 60, NOW)
    assert left(health, care.compaction, NOW) == 40
    half_past = NOW + timedelta(minutes=30)
    health = noted(health, "shop.orders", "compact", 60, half_past)
    assert left(health, care.compaction, half_past) == 0
    assert told(health, care, half_past) == set()
    # The hour is that of its first bytes.
    assert told(health, care, NOW + timedelta(minutes=61)) == {"compact"}
    assert noted(health, "shop.orders", "compact", 5, NOW + timedelta(minutes=61)).compacted_bytes == 5


def test_statistics_are_due_where_they_are_asked_for_and_rows_came_since() -> None:
    care = Care(statistics=Statistics(("customer",), every_seconds=3_600))
    assert told(WELL) == set()
    assert told(WELL, Care(statistics=Statistics(partitions=True))) == {"statistics"}
    assert due(WELL, care, NOW) == {"statistics": "never computed"}
    assert told(with_(statistics_at=ago(minutes=59)), care) == set()
    assert told(with_(statistics_at=ago(minutes=61)), care) == {"statistics"}
    assert told(with_(statistics_at=ago(hours=5), measured_at=ago(hours=5)), care) == set(), "no commit since"
    assert told(with_(table="shop.orders__deletes"), care) == set()
    for done in (0, None):
        assert told(noted(WELL, "shop.orders", "statistics", done, NOW), care) == set()


def test_what_was_done_is_not_due_again() -> None:
    health = with_(snapshots=5000, orphans_at=None)
    for kind in ("expire", "orphans"):
        health = noted(health, "shop.orders", kind, 0, NOW)
    assert told(health) == set()
    # What had an effect may be due again at once: other commits came.
    assert noted(health, "shop.orders", "expire", 40, NOW).expired_at is None
    assert noted(None, "shop.new", "orphans", 0, NOW).table == "shop.new"


def test_only_tables_with_a_policy_and_the_kinds_that_were_asked_for() -> None:
    tables = {
        "a.b": with_(table="a.b", snapshots=5000, rewrite_bytes=1),
        "gone.x": with_(table="gone.x", snapshots=5000),
    }
    found = tables_due(tables, {"a.b": Care(expiry=Expiry(at_most=200))}, ("expire",), NOW)
    assert {table: set(kinds) for table, kinds in found.items()} == {"a.b": {"expire"}}


def test_what_a_table_does_not_allow_is_not_tried_with_each_round() -> None:
    health = with_(rewrite_bytes=10**9, snapshots=5000, orphans=3, orphans_at=None)
    for kind in ("compact", "expire", "orphans"):
        health = noted(health, "shop.orders", kind, None, NOW)
    assert (told(health), health.orphans) == (set(), 3), "nobody looked: what was known stays known"
    assert told(health, now=NOW + timedelta(minutes=61)) == {"compact"}
    assert told(health, now=NOW + timedelta(hours=7)) == {"compact", "expire"}


def test_a_look_for_orphans_is_no_news_for_the_next_one() -> None:
    looked = noted(with_(orphans_at=None), "shop.orders", "orphans", 0, NOW)
    idle = msgspec.structs.replace(looked, measured_at=layout.instant(NOW))  # as the care job leaves it
    assert told(idle, now=NOW + timedelta(days=30)) == set()
    assert told(with_(orphans_at=ago(days=8), measured_at=ago(days=7))) == {"orphans"}
