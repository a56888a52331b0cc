"""A warehouse on a real S3 endpoint, with a table of days: what tiering is tried on."""

import hashlib
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from firn.config import reader as configuration
from firn.config.maintenance import Tiering
from firn.log.store import Store, open_store
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.tiering.round import apply_all
from firn_local.aws import AwsEndpoint

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


CONFIG = """
care: {tier: {cold_after: 40d, class: GLACIER_IR}}
streams:
  shop: {tables: {public.events: {to: shop.events, key: [id]}}}
"""


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


def count(s3: Any) -> list[str]:
    """The names of the calls from here on."""
    found: list[str] = []
    s3.meta.events.register("before-call.s3", lambda model, **_: found.append(model.name))
    return found
