"""Cold tiering on a real S3 endpoint: tags, lifecycle rules, a runner that does what they say, and back."""

import hashlib
import json
import os
import re
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.s3.models import s3_backends
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType, TimestamptzType

from firn.cli.main import main
from firn.errors import ConfigError
from firn.jobs.tiering import TAG
from firn.staging import configs, reads, tiers
from firn.staging.store import Store, open_store, paths
from firn.streams import config as configuration
from firn.streams.care import Tiering
from firn_lake import cold_cache, tiering
from firn_lake.catalog import open_catalog
from firn_lake.lifecycle import current_rules
from firn_lake.live import NotOnS3
from firn_lake.objects import Place, to_standard
from firn_lake.tier_round import apply_all, lines, tier_all
from firn_lake.tiering import NoSuchPartition, Tiered, explain, tier, warm
from firn_local.aws import ACCOUNT, AwsEndpoint
from firn_local.stack import Options, Stack

pytestmark = pytest.mark.stack
any_client: Any = boto3.session.Session().client

POLICY = Tiering(cold_seconds=40 * 86_400, storage_class="GLACIER_IR")
LATER = timedelta(days=60)
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "at", TimestamptzType(), required=False),
    NestedField(3, "text", StringType(), required=False),
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "day"))
COLD_ROWS = 6_000  # of texts that do not compress: more than 128 KB


def texts(rows: int, seed: int) -> list[str]:
    return [hashlib.sha256(f"{seed} {n}".encode()).hexdigest() for n in range(rows)]


class Ground:
    """A warehouse and a staging bucket of their own, and a table of three days in it."""

    def __init__(self, endpoint: AwsEndpoint, folder: Path, name: str) -> None:
        self.endpoint = endpoint
        known = endpoint.credentials
        self.s3 = any_client(
            "s3", endpoint_url=endpoint.url, region_name="us-east-1",
            aws_access_key_id=known["AWS_ACCESS_KEY_ID"], aws_secret_access_key=known["AWS_SECRET_ACCESS_KEY"],
        )  # fmt: skip
        self.lake, self.staged = f"lake-{name}", f"staging-{name}"
        for bucket in (self.lake, self.staged):
            self.s3.create_bucket(Bucket=bucket)
        self.warehouse, self.staging = f"s3://{self.lake}/warehouse", f"s3://{self.staged}"
        self.catalog: Catalog = open_catalog(f"sqlite:///{folder}/catalog.db", self.warehouse, known)
        self.catalog.create_namespace("shop")
        self.store: Store = open_store(self.staging)
        self.today = datetime.now(UTC)

    def table(self, name: str = "shop.events", spec: PartitionSpec = BY_DAY) -> Table:
        return self.catalog.create_table(name, SCHEMA, partition_spec=spec)

    def fill(self, table: Table, *days: int, rows: int = COLD_ROWS) -> None:
        """A file of rows for each of the days (from today on), and a commit. PyIceberg alone writes no days."""
        for day in days:
            at = self.today + timedelta(days=day)
            data = pa.table(
                {"id": range(rows), "at": [at] * rows, "text": texts(rows, day)}, schema=table.schema().as_arrow()
            )
            path = f"{table.location()}/data/{self.day(day)}/{uuid.uuid4()}.parquet"
            with table.io.new_output(path).create() as opened:
                pq.write_table(data, opened)
            table.add_files([path])

    def classes(self, below: str) -> dict[str, str]:
        """Storage class by key."""
        listed = self.s3.list_objects_v2(Bucket=self.lake, Prefix=f"warehouse/shop/{below}").get("Contents", [])
        return {one["Key"]: one["StorageClass"] for one in listed}

    def cold(self, below: str = "") -> set[str]:
        """The days (or names) of data files that are in a cold class."""
        return {
            key.split("/data/")[-1].partition("/")[0] for key, kind in self.classes(below).items() if kind != "STANDARD"
        }

    def day(self, day: int) -> str:
        return f"day={self.today + timedelta(days=day):%Y-%m-%d}"

    def rules(self) -> None:
        found = configuration.parse(CONFIG)
        apply_all(found, self.warehouse, self.staging, self.s3)

    def tags(self, key: str) -> dict[str, str]:
        return {tag["Key"]: tag["Value"] for tag in self.s3.get_object_tagging(Bucket=self.lake, Key=key)["TagSet"]}


CONFIG = """
care: {tier: {cold_after: 40d, class: GLACIER_IR}}
streams:
  shop: {tables: {public.events: {to: shop.events, key: [id]}}}
"""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[AwsEndpoint]:
    started = AwsEndpoint()
    started.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("AWS_PROFILE", raising=False)
        patch.delenv("AWS_SESSION_TOKEN", raising=False)
        for name, value in started.credentials.items():
            patch.setenv(name, value)
        yield started
    started.stop()


@pytest.fixture
def ground(endpoint: AwsEndpoint, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Ground]:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")[:45].strip("-")
    made = Ground(endpoint, tmp_path, name)
    yield made
    made.catalog.close()
    made.s3.close()


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
    asked = _count(ground.s3)
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
    asked = _count(ground.s3)
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
    assert tiers.read(ground.store, "shop.events", "shop/events").looked_at == ""


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
    assert tiers.read(ground.store, "shop.events", "shop/events").cold.keys() == {ground.day(-1)}


def test_objects_above_what_a_copy_takes_are_copied_in_parts(ground: Ground) -> None:
    key, data = "warehouse/large", bytes(range(256)) * 65_536  # 16 MB
    ground.s3.put_object(
        Bucket=ground.lake, Key=key, Body=data, StorageClass="STANDARD_IA", Tagging=f"{TAG}=STANDARD_IA&a=b",
        Metadata={"kept": "yes"},
    )  # fmt: skip
    where = tiering.place(f"s3://{ground.lake}/{key}")
    assert where is not None
    assert to_standard(ground.s3, where, TAG, most=10_000_000, part=6_000_000) == len(data)
    found = ground.s3.get_object(Bucket=ground.lake, Key=key)
    assert found["Body"].read() == data
    assert found.get("StorageClass") is None
    assert {name.lower(): value for name, value in found["Metadata"].items()} == {"kept": "yes"}
    assert ground.tags(key) == {"a": "b"}
    assert ground.s3.list_multipart_uploads(Bucket=ground.lake).get("Uploads", []) == []


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
        reads.record(ground.store, "shop.events", "shop/events", [ground.day(-29)], when)
    now = ground.today + LATER
    done = tier(table, policy, ground.s3, ground.store, now)
    assert done.tagged == 1, explain(table, policy, ground.s3, ground.store, now)
    (view, busy) = explain(table, policy, ground.s3, ground.store, now)
    assert (view.partition, view.on_their_way, busy.cold) == (ground.day(-30), 1, 0)
    assert busy.reads_a_month == pytest.approx(26, rel=0.1)
    state = tiers.read(ground.store, "shop.events", "shop/events")
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
    with pytest.raises(NotOnS3, match="file:// storage"):
        tier(table, POLICY, ground.s3, ground.store, ground.today)
    local.close()


def test_rules_of_others_stay_and_ours_come_and_go(ground: Ground) -> None:
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
    asked = _count(ground.s3)
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


def test_staged_things_expire_and_the_log_stays(ground: Ground) -> None:
    for key in (
        "receipts/shop/a",
        "dead/shop/b",
        "staged/shop/c",
        "epochs/shop/d",
        "cuts/shop/e",
        "config/f",
        "reads/g",
    ):
        ground.s3.put_object(Bucket=ground.staged, Key=key, Body=b"x")
    ground.rules()
    gone = {
        days: {
            one.key
            for one in ground.endpoint.run_lifecycle(ground.today + timedelta(days=days))
            if one.bucket == ground.staged
        }
        for days in (13, 16, 60, 5_000)
    }
    assert gone == {13: set(), 16: {"receipts/shop/a"}, 60: {"reads/g"}, 5_000: {"dead/shop/b"}}
    left = ground.s3.list_objects_v2(Bucket=ground.staged)["Contents"]
    assert {one["Key"] for one in left} == {"staged/shop/c", "epochs/shop/d", "cuts/shop/e", "config/f"}


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
    config = configuration.parse(CONFIG)
    done = list(tier_all(config, lambda: ground.catalog, ground.s3, ground.store, ground.today + LATER))
    assert "error" in done[0]
    assert done[1]["tagged"] == 1


def test_lines_are_for_a_log() -> None:
    line = Tiered("a.b", "STANDARD_IA", tagged=1, tagged_bytes=5).line()
    assert (line["table"], line["tagged"], line["tagged_bytes"]) == ("a.b", 1, 5)


def _count(s3: Any) -> list[str]:
    """The names of the calls from here on."""
    found: list[str] = []
    s3.meta.events.register("before-call.s3", lambda model, **_: found.append(model.name))
    return found


@pytest.fixture
def stack(ground: Ground, tmp_path: Path) -> Path:
    """The folder by which the firn command finds the ground; its table has a day of a hundred days ago."""
    about = {
        "pid": os.getpid(), "url": "http://localhost:1", "staging": ground.staging, "warehouse": ground.warehouse,
        "catalog_uri": f"sqlite:///{tmp_path}/catalog.db", "env": ground.endpoint.credentials,
    }  # fmt: skip
    (tmp_path / "stack.json").write_text(json.dumps(about))
    configs.publish(ground.store, CONFIG)
    ground.fill(ground.table(), -100, 0)
    keys = s3_backends[ACCOUNT]["aws"].get_bucket(ground.lake).keys
    for key in [one for one in keys if "/data/" in one]:
        keys[key].last_modified -= timedelta(days=100)
    return tmp_path


def run(folder: Path, *arguments: str) -> int:
    return main(["tier", *arguments, "--dir", str(folder)])


def test_the_command_explains_tags_and_warms(ground: Ground, stack: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(stack, "events", "--explain") == 0
    told = capsys.readouterr()
    assert f"{ground.day(-100)} " in told.out
    assert "not touched for 9" in told.out
    assert "list prices of us-east-1, 2026-11-22" in told.err
    assert run(stack, "shop.events", "--dry-run") == 0
    told = capsys.readouterr()
    assert "1 file of" in told.out
    assert "would be tagged for GLACIER_IR" in told.out
    assert f"{ground.lake}: lifecycle rules would be changed: firn-cold-GLACIER_IR warehouse/" in told.out
    assert current_rules(ground.s3, ground.lake) == []
    assert run(stack, "shop.events", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["tiered"]["tagged"] == 1
    assert {one["bucket"]: len(one["changed"]) for one in answer["rules"]} == {ground.lake: 1, ground.staged: 6}
    ground.endpoint.run_lifecycle(datetime.now(UTC))
    assert ground.cold() == {ground.day(-100)}
    assert run(stack, "shop.events", "--explain", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["classes"] == {"GLACIER_IR": 1}
    assert run(stack, "shop.events", "--warm", ground.day(-100)) == 0
    assert "shop.events: 1 file of" in capsys.readouterr().out
    assert ground.cold() == set()


def test_the_command_says_what_is_wrong(stack: Path, ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(stack, "shop.events", "--warm", "yesterday") == 1
    assert f"it has {ground.day(-100)}, {ground.day(0)}, or write all" in capsys.readouterr().err
    assert run(stack, "shop.events", "--warm", "all", "--explain") == 2
    assert run(stack, "shop.nothing") == 1
    assert "tables: shop.events" in capsys.readouterr().err
    rule = {"ID": "all", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
    ground.s3.put_bucket_lifecycle_configuration(Bucket=ground.lake, LifecycleConfiguration={"Rules": [rule]})
    configs.publish(ground.store, CONFIG.replace("cold_after: 40d, ", ""))
    assert run(stack, "shop.events") == 0
    told = capsys.readouterr().err
    assert "tiering is off" in told
    assert f"bucket {ground.lake}: the lifecycle rule all removes objects below warehouse/" in told


def test_the_stack_runs_lifecycle_rules_on_request(tmp_path: Path) -> None:
    (tmp_path / "firn.yaml").write_text(CONFIG)
    options = Options(tmp_path / "stack", s3=True, port=0, config=tmp_path / "firn.yaml", schedules=False)
    with Stack(options, say=lambda _line: None) as stack:
        s3 = any_client(
            "s3", endpoint_url=stack.description["aws_endpoint"], region_name="us-east-1",
            aws_access_key_id="test", aws_secret_access_key="test",
        )  # fmt: skip
        bucket = stack.description["warehouse"].split("/")[2]
        s3.put_object(Bucket=bucket, Key="warehouse/a", Body=b"x" * 200_000, Tagging=f"{TAG}=GLACIER_IR")
        url = stack.description["url"] + "/_firn/"
        invoked = urllib.request.urlopen(urllib.request.Request(url + "invoke/tier", data=b"{}", method="POST"))
        assert {"bucket": bucket, "rules": ["firn-cold-GLACIER_IR warehouse/"]} in json.loads(invoked.read())["rules"]
        later = (datetime.now(UTC) + timedelta(days=60)).isoformat()
        done = json.loads(
            urllib.request.urlopen(urllib.request.Request(f"{url}lifecycle?now={later}", method="POST")).read()
        )
        mine = [one for one in done["objects"] if one["bucket"] == bucket]
        assert [(one["key"], one["became"]) for one in mine] == [("warehouse/a", "GLACIER_IR")]
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(urllib.request.Request(f"{url}lifecycle?now=soon", method="POST"))


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ([{"Days": 29, "StorageClass": "STANDARD_IA"}], "greater than or equal to 30"),
        ([{"Days": 30, "StorageClass": "STANDARD_IA"}], None),
        ([{"Days": 0, "StorageClass": "GLACIER_IR"}], None),
    ],
)
def test_the_endpoint_refuses_what_s3_refuses(ground: Ground, rules: list[dict[str, Any]], says: str | None) -> None:
    made = {"ID": "a", "Status": "Enabled", "Filter": {"Prefix": ""}, "Transitions": rules}

    def put(*all_rules: dict[str, Any]) -> None:
        ground.s3.put_bucket_lifecycle_configuration(
            Bucket=ground.lake, LifecycleConfiguration={"Rules": list(all_rules)}
        )

    if says is None:
        put(made)
        assert current_rules(ground.s3, ground.lake) == [made]
        with pytest.raises(ground.s3.exceptions.ClientError, match="must be unique"):
            put(made, made)
    else:
        with pytest.raises(ground.s3.exceptions.ClientError, match=says):
            put(made)
        assert current_rules(ground.s3, ground.lake) == []


def test_old_versions_go_by_the_time_since_they_are_old(ground: Ground) -> None:
    ground.s3.put_bucket_versioning(Bucket=ground.lake, VersioningConfiguration={"Status": "Enabled"})
    for body in (b"old", b"new"):
        ground.s3.put_object(Bucket=ground.lake, Key="warehouse/a", Body=body)
    rule = {
        "ID": "a",
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 7},
    }
    ground.s3.put_bucket_lifecycle_configuration(Bucket=ground.lake, LifecycleConfiguration={"Rules": [rule]})

    def versions(days: int) -> int:
        ground.endpoint.run_lifecycle(ground.today + timedelta(days=days))
        return len(ground.s3.list_object_versions(Bucket=ground.lake, Prefix="warehouse/a")["Versions"])

    assert (versions(6), versions(9)) == (2, 1)
    assert ground.s3.get_object(Bucket=ground.lake, Key="warehouse/a")["Body"].read() == b"new"


def test_queries_are_recorded_where_the_policy_asks_for_it(
    ground: Ground, stack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["query", "SELECT count(*) AS n FROM shop.events", "--dir", str(stack)]
    assert main(asked) == 0
    assert paths(ground.store, "reads") == []
    configs.publish(ground.store, CONFIG.replace("cold_after: 40d", "predictive: true"))
    assert main(asked) == 0
    (path,) = paths(ground.store, "reads")
    assert path.startswith("reads/shop/events/")
    found, _ = reads.settled(ground.store, "shop/events", "", datetime.now(UTC) + timedelta(hours=4))
    assert [one.partitions for one in found] == [("*",)]
    ground.s3.delete_object(Bucket=ground.staged, Key="config/current.json")
    assert main(asked) == 0, "a read never fails for its record"
    assert "12000" in capsys.readouterr().out


def test_cold_files_are_fetched_once_where_a_folder_is_named(
    ground: Ground, stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold_cache._s3.cache_clear()
    cold_cache._is_cold.cache_clear()
    assert run(stack, "shop.events") == 0
    ground.endpoint.run_lifecycle(datetime.now(UTC))
    folder = tmp_path / "cache"
    known = {**ground.endpoint.credentials, "FIRN_COLD_CACHE": str(folder)}
    catalog = open_catalog(f"sqlite:///{tmp_path}/catalog.db", ground.warehouse, known)
    table = catalog.load_table("shop.events")
    before = table.scan().to_arrow().sort_by("text")
    (kept,) = folder.iterdir()
    (cold,) = [key for key, kind in ground.classes("events/data").items() if kind != "STANDARD"]
    assert kept.read_bytes() == ground.s3.get_object(Bucket=ground.lake, Key=cold)["Body"].read()
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    # Now it comes from there alone.
    ground.s3.delete_object(Bucket=ground.lake, Key=cold)
    assert table.scan().to_arrow().sort_by("text") == before
    catalog.close()


def test_the_cache_is_bounded_and_what_was_read_last_stays(ground: Ground, tmp_path: Path) -> None:
    cold_cache._s3.cache_clear()
    cold_cache._is_cold.cache_clear()
    for name, size in (("a", 400), ("b", 400), ("c", 400), ("large", 1_001), ("hot", 10)):
        kind = "STANDARD" if name == "hot" else "STANDARD_IA"
        ground.s3.put_object(Bucket=ground.lake, Key=name, Body=name[:1].encode() * size, StorageClass=kind)
    cache = cold_cache.ColdCache(tmp_path / "cache", 1_000)

    def fetch(name: str) -> bytes | None:
        found = cache.fetch(Place(ground.lake, name))
        return None if found is None else found.read_bytes()

    assert (fetch("a"), fetch("b")) == (b"a" * 400, b"b" * 400)
    for path in (tmp_path / "cache").iterdir():
        os.utime(path, (1, 1))
    assert fetch("a") == b"a" * 400
    assert fetch("c") == b"c" * 400
    kept = {path.read_bytes()[:1] for path in (tmp_path / "cache").iterdir()}
    assert kept == {b"a", b"c"}
    assert [fetch(name) for name in ("large", "hot", "missing")] == [None, None, None]
    assert cold_cache.ColdCache(Path("/dev/null/nowhere"), 1_000).fetch(Place(ground.lake, "b")) is None


def test_a_size_of_the_cache_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="FIRN_COLD_CACHE_BYTES is '10GB'"):
        open_catalog("sqlite:///x.db", "s3://a", {"FIRN_COLD_CACHE": "x", "FIRN_COLD_CACHE_BYTES": "10GB"})
