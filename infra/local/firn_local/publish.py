"""Publish firn.yaml to the staging store: `python -m firn_local.publish STAGING_URL FIRN_YAML`.

The SNS topics that its alerts name are made, under the same names, in the stack's own SNS. What of the file counts
for deployments alone is said on standard output, a line each.

A process of its own: it needs the AWS environment of the functions, and what it loads must not stay in the stack.
Exit code 2, and the reason on standard error, when the file is wrong or can't be stored.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from firn.config.alerts import Topic
from firn.config.catalogs import shown
from firn.config.model import Config
from firn.deployment.config_text import config_text
from firn.errors import FirnError
from firn.log.published_configs import publish
from firn.log.store import open_store
from firn_sql.configured import check_sql


def make_topics(config: Config) -> None:
    """Those that are there stay. Raises FirnError."""
    topics = [one for one in config.alerts.targets.values() if isinstance(one, Topic)] if config.alerts else []
    if not topics:
        return
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client = boto3.client("sns")
        for topic in topics:
            kind = {"FifoTopic": "true"} if topic.is_ordered else {}
            client.create_topic(Name=topic.arn.rpartition(":")[2], Attributes=kind)
    except (BotoCoreError, ClientError) as error:
        raise FirnError(f"the topics of alerts can't be made in the embedded SNS: {error}") from error


def passed_over(config: Config, environment: Mapping[str, str]) -> Iterator[str]:
    """What the stack, whose functions have this environment, does not go by."""
    catalog, warehouse = environment.get("FIRN_CATALOG_URI", ""), environment.get("FIRN_WAREHOUSE", "")
    if config.catalog.address not in ("", catalog):
        yield (
            f"`catalog:` of firn.yaml ({config.catalog.type}, {config.catalog.uri or 'its default address'}) is for "
            f"deployments; this stack's tables are in the catalog at {shown(catalog)}: `firn up --catalog ADDRESS` "
            "takes another (docs/catalogs.md)"
        )
    if config.warehouse.rstrip("/") not in ("", warehouse.rstrip("/")):
        yield (
            f"`warehouse:` of firn.yaml is for deployments, this stack's tables are at {warehouse}: "
            "`firn up --warehouse` takes gs://, abfss:// and file://, `--s3-endpoint` an S3 (docs/storages.md)"
        )
    sharded = (rule.shard for stream in config.streams.values() for rule in stream.tables if rule.shard is not None)
    if names := sorted({name for one in sharded for name in one.warehouses.values()}):
        yield f"the warehouses {', '.join(names)} of shards are folders beside this stack's own: it writes to no other"


def main(staging: str, path: str) -> int:
    """Check the file, store it by its hash and point to it. Returns the exit code."""
    try:
        config = publish(open_store(staging), config_text(Path(path)), path, check_sql)
        make_topics(config)
    except FirnError as error:
        print(error, file=sys.stderr)
        return 2
    for line in passed_over(config, os.environ):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
