"""Scheduled: tag the data files that are cold, and keep the lifecycle rules of both buckets that move them.

Event: `{}` from the schedule. Where no table has a policy and the rules are as they should be, it reads the
configuration and the rules, and that is all.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger

from firn.errors import FirnError
from firn.function_context import staging
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.tiering import objects
from firn_lake.tiering.round import apply_all, lines, tier_all

logger = Logger(service="tier")


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG001
    """Lambda's entry point -> what was done. Raises FirnError if a table could not be tiered, after all others were."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    settings, store, current, _ = staging()
    config = current()
    warehouse = settings.warehouse or config.warehouse
    catalog_uri = settings.catalog_uri or config.catalog.address
    s3 = objects.client_for(warehouse, settings.staging)
    rules = list(lines(apply_all(config, warehouse, settings.staging, s3)))
    for line in rules:
        (logger.error if "warning" in line else logger.info)("lifecycle rules", extra=line)
    tables = []
    for line in tier_all(
        config, lambda: open_catalog(catalog_uri, warehouse, read_only=True), s3, store, datetime.now(UTC)
    ):
        (logger.error if "error" in line else logger.info)("tier", extra=line)
        tables.append(line)
    failed = [f"{line['table']}: {line['error']}" for line in tables if "error" in line]
    if failed:
        raise FirnError(f"{len(failed)} tables could not be tiered: {'; '.join(failed[:5])}")
    return {"tables": tables, "rules": rules}
