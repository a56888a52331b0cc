"""Cold tiering on a real S3 endpoint: tags, rules that move what is tagged, and back."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, NestedField, StringType

from firn.config import reader as configuration
from firn.config.maintenance import Tiering
from firn.errors import ArchivedObject
from firn.log import read_records, tiering_state
from firn.maintenance.tiering import TAG
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.reading.files import Source, read_file
from firn_lake.tiering import tagging as tiering
from firn_lake.tiering.class_port import NoClasses
from firn_lake.tiering.lifecycle import current_rules
from firn_lake.tiering.objects import place, to_standard
from firn_lake.tiering.round import apply_all, lines, tier_all
from firn_lake.tiering.tagging import NoSuchPartition, Tiered, tier, warm
from firn_lake.tiering.views import explain
from tests.integration.stack.cold_ground import COLD_ROWS, CONFIG, LATER, POLICY, SCHEMA, Ground, count, texts

pytestmark = pytest.mark.stack


def test_cold_days_are_in_the_cold_class_after_sixty_days_and_everything_answers(ground: Ground) -> None:
    table = ground.table()
    ground.fill(table, -30, -1, 55)
    rows = table.scan().to_arrow().num_rows
    now = ground.today + LATER
    done = tier(table, POLICY, ground.s3, ground.store, now)
    assert (done.tagged, done.on_their_way, done.files) == (2, 2, 3)
    ground.rules()
    moved = ground.endpoint.run_lifecycle(now)
    assert {one.became for one in moved if one.bucket == ground.lake} == {"GLACIER_IR"}
    assert ground.cold() == {ground.day(-30), ground.day(-1)}
    metadata = {kind for key, kind in ground.classes("").items() if "/metadata/" in key}
    assert metadata == {"STANDARD"}
    assert table.scan().to_arrow().num_rows == rows
    assert table.scan(row_filter="id = 17").to_arrow().num_rows == 3


def test_a_second_time_changes_nothing_and_asks_next_to_nothing(ground: Ground) -> None:
    table = ground.table()
    ground.fill(table, -30, -1)
    now = ground.today + LATER
    tier(table, POLICY, ground.s3, ground.store, now)
    ground.endpoint.run_lifecycle(now)
    asked = count(ground.s3)
    again = tier(table, POLICY, ground.s3, ground.store, now + timedelta(hours=1))
    assert (again.same, again.tagged, again.cold_files, asked) == (True, 0, 2, [])
    forced = tier(table, POLICY, ground.s3, ground.store, now, force=True)
    assert (forced.tagged, forced.on_their_way, forced.cold_files) == (0, 2, 2)
    assert set(asked) == {"ListObjectsV2"}, "what has its tag is remembered"


def test_what_the_memory_lost_is_tagged_once_and_other_tags_stay(ground: Ground) -> None:
    table = ground.table()
    ground.fill(table, -30)
    (key,) = list(ground.classes("events/data"))
    ground.s3.put_object_tagging(Bucket=ground.lake, Key=key, Tagging={"TagSet": [{"Key": "team", "Value": "a b=c+d"}]})
    now = ground.today + LATER
    tier(table, POLICY, ground.s3, ground.store, now)
    assert ground.tags(key) == {"team": "a b=c+d", TAG: "GLACIER_IR"}
    ground.store.delete("tier/shop/events.json")
    asked = count(ground.s3)
    assert tier(table, POLICY, ground.s3, ground.store, now).tagged == 1
    assert sorted(set(asked)) == ["GetObjectTagging", "ListObjectsV2"]
    warm(table, "all", ground.s3, ground.store)
    assert ground.tags(key) == {"team": "a b=c+d"}


def test_a_dry_run_says_it_and_does_nothing(ground: Ground) -> None:
    table = ground.table()
    ground.fill(table, -30)
    done = tier(table, POLICY, ground.s3, ground.store, ground.today + LATER, dry_run=True)
    assert (done.tagged, done.dry_run) == (1, True)
    assert [ground.tags(key) for key in ground.classes("events/data")] == [{}]
    assert tiering_state.read(ground.store, "shop.events", "shop/events").looked_at == ""


def test_rows_that_change_before_the_move_take_the_tag_away(ground: Ground) -> None:
    table = ground.table()
    ground.fill(table, -30, -1)
    tier(table, POLICY, ground.s3, ground.store, ground.today + LATER)
    table = ground.catalog.load_table("shop.events")
    ground.fill(table, -30)
    done = tier(table, POLICY, ground.s3, ground.store, ground.today + timedelta(days=30))
    assert (done.released, done.on_their_way, done.tagged) == (2, 0, 0)
    assert {tuple(ground.tags(key)) for key in ground.classes("events/data")} == {()}


def test_another_class_takes_what_is_on_its_way_along(ground: Ground) -> None:
    table = ground.table()
    ground.fill(table, -30, 55)
    now = ground.today + LATER
    tier(table, POLICY, ground.s3, ground.store, now)
    other = replace(POLICY, storage_class="STANDARD_IA")
    done = tier(table, other, ground.s3, ground.store, now)
    assert (done.tagged, done.released, done.on_their_way) == (1, 0, 1)
    assert {tuple(ground.tags(key).items()) for key in ground.classes("events/data")} == {(), ((TAG, "STANDARD_IA"),)}
    off = CONFIG.replace("cold_after: 40d, class: GLACIER_IR", "cold_after: never")
    config = configuration.parse(off + "  other: {tables: {t: {to: other.t, care: {tier: {cold_after: 40d}}}}}\n")
    (line,) = tier_all(config, lambda: ground.catalog, ground.s3, ground.store, now)
    assert (line["released"], line["on_their_way"]) == (1, 0)
    assert {tuple(ground.tags(key)) for key in ground.classes("events/data")} == {()}
    assert list(tier_all(config, lambda: ground.catalog, ground.s3, ground.store, now)) == []


def test_tables_that_nobody_named_are_not_tiered(ground: Ground) -> None:
    table = ground.table("shop.unfed")
    ground.fill(table, -30)
    now = ground.today + LATER
    assert list(tier_all(configuration.parse(CONFIG), lambda: ground.catalog, ground.s3, ground.store, now)) == []
    named = configuration.parse(CONFIG.replace("care: {", "care: {also: [shop.unfed], "))
    (line,) = tier_all(named, lambda: ground.catalog, ground.s3, ground.store, now)
    assert (line["table"], line["tagged"]) == ("shop.unfed", 1)


def test_what_one_run_can_not_tag_the_next_one_does(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiering, "MOST_AT_ONCE", 2)
    table = ground.table()
    ground.fill(table, -30, -29, -28)
    now = ground.today + LATER
    done = [tier(table, POLICY, ground.s3, ground.store, now) for _ in range(3)]
    assert [(one.tagged, one.on_their_way, one.same) for one in done] == [(2, 2, False), (1, 3, False), (0, 3, True)]


def test_small_files_and_young_files_are_left(ground: Ground) -> None:
    table = ground.table(spec=PartitionSpec())
    ground.fill(table, -30, rows=10)
    ground.fill(table, -30)
    assert tier(table, POLICY, ground.s3, ground.store, ground.today + timedelta(days=39)).tagged == 0
    assert tier(table, POLICY, ground.s3, ground.store, ground.today + timedelta(days=41)).tagged == 1


def test_warm_brings_a_partition_back(ground: Ground) -> None:
    table = ground.table()
    ground.fill(table, -30, -1)
    now = ground.today + LATER
    tier(table, POLICY, ground.s3, ground.store, now)
    ground.rules()
    ground.endpoint.run_lifecycle(now)
    rows = table.scan().to_arrow().num_rows
    with pytest.raises(NoSuchPartition, match=ground.day(-30)):
        warm(table, "day=1999-01-01", ground.s3, ground.store)
    done = warm(table, ground.day(-30), ground.s3, ground.store)
    assert (done.files, done.bytes > 131_072) == (1, True)
    assert ground.cold() == {ground.day(-1)}
    assert table.scan().to_arrow().num_rows == rows
    assert warm(table, ground.day(-30), ground.s3, ground.store).files == 0
    ground.endpoint.run_lifecycle(now)
    assert ground.cold() == {ground.day(-1)}, "the tag is gone with it"
    assert tiering_state.read(ground.store, "shop.events", "shop/events").cold.keys() == {ground.day(-1)}


def test_warm_takes_tags_that_the_memory_lost(ground: Ground) -> None:
    table = ground.table()
    ground.fill(table, -30)
    now = ground.today + LATER
    tier(table, POLICY, ground.s3, ground.store, now)
    ground.store.delete("tier/shop/events.json")
    assert warm(table, "all", ground.s3, ground.store).files == 1
    ground.rules()
    ground.endpoint.run_lifecycle(now)
    assert ground.cold() == set()


@pytest.mark.parametrize("most", [10_000_000, 20_000_000], ids=["in-parts", "at-once"])
@pytest.mark.parametrize("kind", ["STANDARD_IA", "STANDARD"])
def test_a_copy_back_keeps_all_that_an_object_carries(ground: Ground, most: int, kind: str) -> None:
    key, data = "warehouse/large", bytes(range(256)) * 65_536  # 16 MB
    ground.s3.put_object(
        Bucket=ground.lake, Key=key, Body=data, StorageClass=kind, Tagging=f"{TAG}=STANDARD_IA&a=b",
        Metadata={"kept": "yes"}, ContentType="application/vnd.apache.parquet",
    )  # fmt: skip
    where = place(f"s3://{ground.lake}/{key}")
    assert where is not None
    assert to_standard(ground.s3, where, TAG, most=most, part=6_000_000) == len(data)
    found = ground.s3.get_object(Bucket=ground.lake, Key=key)
    assert found["Body"].read() == data
    assert (found.get("StorageClass"), found["ContentType"]) == (None, "application/vnd.apache.parquet")
    assert {name.lower(): value for name, value in found["Metadata"].items()} == {"kept": "yes"}
    assert ground.tags(key) == {"a": "b"}
    assert ground.s3.list_multipart_uploads(Bucket=ground.lake).get("Uploads", []) == []
    assert to_standard(ground.s3, where, TAG, most=most) is None, "it is where it should be"


def test_an_archived_file_is_named_and_asked_for(ground: Ground) -> None:
    table = ground.table()
    ground.fill(table, -30, -29)
    key = sorted(ground.classes("events/data"))[0]
    address = {"Bucket": ground.lake, "Key": key}
    ground.s3.copy_object(**address, CopySource=address, StorageClass="GLACIER")  # as another's rule would
    source = Source(table.io, table.metadata, "shop.events", 7)
    (file,) = [task.file for task in table.scan().plan_files() if task.file.file_path.endswith(key)]
    with pytest.raises(ArchivedObject, match=r"firn tier shop\.events --warm all"):
        list(read_file(source, file, table.schema()))
    assert tier(table, POLICY, ground.s3, ground.store, ground.today).archived == 1
    asked = warm(table, "all", ground.s3, ground.store)
    assert (asked.files, asked.asked) == (1, 1)
    assert "Restore" in ground.s3.head_object(**address)
    # moto restores at once: the next call copies.
    assert warm(table, "all", ground.s3, ground.store).asked == 0
    assert set(ground.classes("events/data").values()) == {"STANDARD"}


def test_explain_says_each_partition_and_why(ground: Ground) -> None:
    table = ground.table()
    ground.fill(table, -30, 55)
    found = explain(table, POLICY, ground.s3, ground.store, ground.today + LATER)
    assert [(one.partition, one.decision, one.cold) for one in found] == [
        (ground.day(-30), "cold", 1), (ground.day(55), "hot", 0),
    ]  # fmt: skip
    assert found[0].reason.startswith("not touched for ")
    assert found[1].reason == "touched 4 days ago"
    assert found[0].saving > 0
    assert found[0].classes == {"STANDARD": 1}
    assert found[0].break_even is not None
    off = explain(table, Tiering(), ground.s3, ground.store, ground.today + LATER)
    assert {one.reason for one in off} == {"tiering is off for this table"}


def test_recorded_reads_keep_what_is_read(ground: Ground) -> None:
    table = ground.table()
    ground.fill(table, -30, -29)
    policy = Tiering(predictive=True)
    for day in range(1, 60):
        when = ground.today + timedelta(days=day)
        read_records.record(ground.store, "shop.events", "shop/events", [ground.day(-29)], when)
    now = ground.today + LATER
    done = tier(table, policy, ground.s3, ground.store, now)
    assert done.tagged == 1, explain(table, policy, ground.s3, ground.store, now)
    (view, busy) = explain(table, policy, ground.s3, ground.store, now)
    assert (view.partition, view.on_their_way, busy.cold) == (ground.day(-30), 1, 0)
    assert busy.reads_a_month == pytest.approx(26, rel=0.1)
    state = tiering_state.read(ground.store, "shop.events", "shop/events")
    assert set(state.reads) == {ground.day(-29)}
    assert state.reads_after.startswith("reads/shop/events/")


def test_tables_by_identity_of_a_date_and_of_odd_names_are_read(ground: Ground) -> None:
    schema = Schema(NestedField(1, "on", DateType(), required=False), NestedField(2, "text", StringType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "on"))
    table = ground.catalog.create_table(("shop", "Odd Name+1"), schema, partition_spec=spec)
    for day in (date(2020, 1, 1), None):
        table.append(pa.table({"on": [day] * COLD_ROWS, "text": texts(COLD_ROWS, 1)}, schema=table.schema().as_arrow()))
    done = tier(table, POLICY, ground.s3, ground.store, ground.today + LATER)
    assert done.tagged == 2
    found = explain(table, POLICY, ground.s3, ground.store, datetime(2020, 1, 20, tzinfo=UTC))
    assert {one.partition for one in found} == {"on=2020-01-01", "on=null"}


def test_a_warehouse_of_files_has_no_classes_and_says_so(ground: Ground, tmp_path: Path) -> None:
    local = open_catalog(f"sqlite:///{tmp_path}/local.db", f"file://{tmp_path}/warehouse", {})
    local.create_namespace("shop")
    table = local.create_table("shop.events", SCHEMA)
    with pytest.raises(NoClasses, match="in no storage with classes"):
        tier(table, POLICY, ground.s3, ground.store, ground.today)
    local.close()


def test_rules_of_others_stay_and_ours_come_and_go(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = [
        {"ID": "logs", "Status": "Enabled", "Filter": {"And": {"Prefix": "logs/", "ObjectSizeGreaterThan": 5_000}},
         "Expiration": {"Days": 7}},
        {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""},
         "NoncurrentVersionExpiration": {"NoncurrentDays": 3, "NewerNoncurrentVersions": 2}},
        {"ID": "wrong", "Status": "Enabled", "Filter": {"Prefix": "warehouse/shop/"}, "Expiration": {"Days": 9}},
    ]  # fmt: skip
    ground.s3.put_bucket_lifecycle_configuration(
        Bucket=ground.lake, LifecycleConfiguration={"Rules": theirs},
        TransitionDefaultMinimumObjectSize="varies_by_storage_class",
    )  # fmt: skip
    before = current_rules(ground.s3, ground.lake)
    assert before == theirs
    config = configuration.parse(CONFIG)
    first = apply_all(config, ground.warehouse, ground.staging, ground.s3)
    told = list(lines(first))
    assert {"bucket": ground.lake, "rules": ["firn-cold-GLACIER_IR warehouse/"]} in told
    (warning,) = [one["warning"] for one in told if "warning" in one]
    assert "rule wrong removes objects below warehouse/" in warning
    after = current_rules(ground.s3, ground.lake)
    assert after[:3] == theirs
    assert [rule["ID"] for rule in after[3:]] == ["firn-cold-GLACIER_IR warehouse/"]
    answer = ground.s3.get_bucket_lifecycle_configuration(Bucket=ground.lake)
    assert answer["TransitionDefaultMinimumObjectSize"] == "varies_by_storage_class"
    asked = count(ground.s3)
    again = apply_all(config, ground.warehouse, ground.staging, ground.s3)
    assert [one.changed for one in again] == [(), ()]
    assert set(asked) == {"GetBucketLifecycleConfiguration"}
    apply_all(
        configuration.parse(CONFIG.replace("GLACIER_IR", "STANDARD_IA")), ground.warehouse, ground.staging, ground.s3
    )
    assert [rule["ID"] for rule in current_rules(ground.s3, ground.lake)[3:]] == ["firn-cold-STANDARD_IA warehouse/"]
    off = CONFIG.replace("care: {tier: {cold_after: 40d, class: GLACIER_IR}}", "")
    apply_all(configuration.parse(off), ground.warehouse, ground.staging, ground.s3)
    assert current_rules(ground.s3, ground.lake) == theirs
    ground.s3.create_bucket(Bucket="acme-eu")
    monkeypatch.setenv("FIRN_WAREHOUSES", "eu=s3://acme-eu/lake")
    assert len(apply_all(config, ground.warehouse, ground.staging, ground.s3)) == 3
    assert [rule["ID"] for rule in current_rules(ground.s3, "acme-eu")] == ["firn-cold-GLACIER_IR lake/"]


def test_a_round_tiers_what_has_a_policy_and_opens_no_catalog_without_one(ground: Ground) -> None:
    table = ground.table()
    ground.fill(table, -30)
    text = CONFIG.replace("care: {tier: {cold_after: 40d, class: GLACIER_IR}}", "")
    text = text.replace("key: [id]", "key: [id], care: {tier: {cold_after: 40d}}")
    done = list(
        tier_all(configuration.parse(text), lambda: ground.catalog, ground.s3, ground.store, ground.today + LATER)
    )
    assert [(one["table"], one["tagged"], one["tier"]) for one in done] == [("shop.events", 1, "STANDARD_IA")]
    off = configuration.parse(text.replace(", care: {tier: {cold_after: 40d}}", ""))

    def nobody() -> Catalog:
        raise AssertionError("the catalog is not needed")

    assert list(tier_all(off, nobody, ground.s3, ground.store, ground.today)) == []


def test_a_table_that_fails_keeps_no_other(ground: Ground) -> None:
    for name in ("shop.broken", "shop.events"):
        ground.fill(ground.table(name), -30)
    broken = ground.catalog.load_table("shop.broken")
    snapshot = broken.current_snapshot()
    assert snapshot is not None
    key = snapshot.manifest_list.removeprefix(f"s3://{ground.lake}/")
    ground.s3.delete_object(Bucket=ground.lake, Key=key)
    config = configuration.parse(CONFIG.replace("care: {", "care: {also: [shop.broken], "))
    done = list(tier_all(config, lambda: ground.catalog, ground.s3, ground.store, ground.today + LATER))
    assert "error" in done[0]
    assert done[1]["tagged"] == 1


def test_lines_are_for_a_log() -> None:
    line = Tiered("a.b", "STANDARD_IA", tagged=1, tagged_bytes=5).line()
    assert (line["table"], line["tagged"], line["tagged_bytes"]) == ("a.b", 1, 5)
