"""A real Spark session and the real ingest code, in one process: what is posted is staged, sealed and committed."""

import gzip
import json
import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from firn.auth.catalog_secret import catalog_environment
from firn.config.names import TableName
from firn.ingest import accept
from firn.log import cuts, epochs, published_configs, shard_maps
from firn.log.store import open_store
from firn_lake.catalogs.catalog import open_catalog
from firn_local.environment import CLOUD_JARS
from firn_local.spark_submit import jars, java_options
from firn_spark import commit, session
from firn_spark.catalog_failover import answering

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT / "tests" / "data" / "corpus"
LAKES: list["Lake"] = []  # those that are open
START = datetime(2026, 11, 21, tzinfo=UTC)


def jvm_settings(of: str) -> dict[str, str]:
    """Spark's settings of jars and options for the JVM `of` a driver or an executor: it starts as jobs do."""
    return {
        # Those of the clouds where `make setup-servers` has fetched them, last: the archive is for the others.
        f"spark.{of}.extraClassPath": os.pathsep.join([*jars(), *map(str, sorted(CLOUD_JARS.glob("*.jar")))]),
        f"spark.{of}.extraJavaOptions": java_options(),
    }


def records(path: Path) -> list[dict[str, Any]]:
    """The lines of a corpus file: {destination, key, value, headers}."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def values(path: Path) -> list[dict[str, Any]]:
    """Only the values, as Debezium Server's HTTP sink posts them: no keys, no tombstones."""
    return [record["value"] for record in records(path) if record["value"] is not None]


def ndjson(events: list[dict[str, Any]]) -> bytes:
    """Events as NDJSON."""
    return "\n".join(json.dumps(event, ensure_ascii=False) for event in events).encode()


class Lake:
    """One stream from request to table, in a folder of its own. The clock moves a second with each request."""

    deployment = ""  # tells the epochs of two deployments apart

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        config: str,
        stream: str = "spec",
        catalog_uri: str = "",
        storage: str = "",
    ) -> None:
        """`storage`: where it is kept, if not in the folder, whose is the catalog then."""
        self.folder = folder
        self.stream = stream
        self.staging = f"{storage or f'file://{folder}'}/staging"
        self.warehouse = f"{storage or f'file://{folder}'}/warehouse"
        self.catalog_uri = catalog_uri or f"sqlite:///{folder}/catalog.db"
        self.store = open_store(self.staging)
        self.config = published_configs.publish(self.store, config)
        self.now = START
        self.lines: list[dict[str, Any]] = []
        # A session of its own: the catalog `firn` is bound to a folder when it is first used.
        self.spark = spark.newSession()
        secrets = catalog_environment(self.catalog_uri, os.environ)
        for name, value in session.catalog_settings(answering(self.catalog_uri), self.warehouse, secrets).items():
            if name.startswith("spark.sql.catalog."):
                self.spark.conf.set(name, value)
        self.catalog: Catalog = (
            open_catalog(self.catalog_uri, self.warehouse, {})
            if catalog_uri or storage
            else SqlCatalog("firn", uri=self.catalog_uri, warehouse=self.warehouse)
        )
        LAKES.append(self)

    def close(self) -> None:
        """Closes Spark's connections to a catalog in SQLite, which it can not use any more; what a test broke stays."""
        if self.catalog_uri.startswith("sqlite:"):
            with suppress(Py4JError):
                manager: Any = self.spark._jsparkSession.sessionState().catalogManager()
                manager.catalog(session.CATALOG).icebergCatalog().close()

    def post(self, events: list[dict[str, Any]], *, at_once: int = 1_000) -> list[accept.Accepted]:
        """Sends events through ingest, `at_once` a request."""
        answers = []
        for first in range(0, len(events), at_once):
            self.now += timedelta(seconds=1)
            body = ndjson(events[first : first + at_once])
            answers.append(accept.accept(self.store, self.config, self.stream, body, now=self.now))
        return answers

    def seal(self) -> int:
        """Seals what is staged. -> the epoch's number."""
        self.now += timedelta(seconds=1)
        found = epochs.candidates(self.store, self.stream, self.now, above=cuts.newest(self.store, self.stream))
        nonce = f"{self.deployment}{found.next_n}"  # dispatch draws them by chance
        shards = shard_maps.newest(self.store, self.config.streams[self.stream])
        config = self.config.sha
        epoch = epochs.seal(self.store, self.stream, found, now=self.now, config=config, nonce=nonce, shards=shards)
        assert epoch is not None
        return epoch.n

    def commit(self, first: int, last: int | None = None) -> int:
        """Runs the commit job in this process. -> its exit code; its log lines are in `lines`."""
        self.lines = []
        return commit.run(
            self.stream,
            self.staging,
            self.warehouse,
            self.catalog_uri,
            first,
            last or first,
            spark=self.spark,
            log=self.lines.append,
        )

    def land(self, events: list[dict[str, Any]], **how: Any) -> None:
        """Posts, seals and commits in one epoch; fails if the job does."""
        self.post(events, **how)
        assert self.commit(self.seal()) == 0, self.lines

    def line(self, table: str) -> dict[str, Any]:
        """What the job logged about a table."""
        return next(line for line in self.lines if line.get("table") == table)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The table's rows as PyIceberg reads them: another engine than the one that wrote them."""
        loaded = self.catalog.load_table(TableName.parse(table).identifier)
        return loaded.scan().to_arrow().to_pylist()  # type: ignore[no-any-return]

    def by_key(self, table: str, *key: str) -> dict[Any, dict[str, Any]]:
        """The rows by key (a bare value, or a tuple for several columns)."""
        return {row[key[0]] if len(key) == 1 else tuple(row[k] for k in key): row for row in self.rows(table)}

    def snapshots(self, table: str) -> list[dict[str, str]]:
        """The summaries of the table's snapshots, oldest first."""
        loaded = self.catalog.load_table(TableName.parse(table).identifier)
        return [
            dict(snapshot.summary.additional_properties) for snapshot in loaded.metadata.snapshots if snapshot.summary
        ]
