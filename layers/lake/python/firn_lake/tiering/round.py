"""One round of tiering over everything: each table that has a policy, and the rules of its buckets.

Where no table has one this is two requests: what rules the buckets have.
"""

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from firn.config.maintenance import Tiering
from firn.config.model import Config
from firn.config.names import TableName
from firn.config.storage_classes import S3
from firn.config.warehouses import known_warehouses
from firn.errors import FirnError
from firn.log import layout, table_health, tiering_state
from firn.log.store import Store, paths
from firn.maintenance.bucket_lifecycle import LIVE_STAGING, Rule, cold_rules, staging_rules
from firn.maintenance.launcher import health_streams
from firn_lake.tables import table_identifiers
from firn_lake.tiering.lifecycle import Applied, apply_own
from firn_lake.tiering.objects import place, told
from firn_lake.tiering.tagging import Tiered, tier

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Wanted:
    """What Firn wants of one bucket."""

    rules: tuple[Rule, ...] = ()
    prefixes: tuple[str, ...] = ()
    live: tuple[str, ...] = ()


def policies(config: Config) -> list[Tiering]:
    """The tiering of all tables and of each rule, as far as it is on."""
    found = [config.care.tiering]
    found += [rule.care.tiering for stream in config.streams.values() for rule in stream.targets]
    return [one for one in found if one.on]


def classes(config: Config) -> set[str]:
    """S3's storage classes that the configuration names. Raises ConfigError for another storage's."""
    return {S3.chosen(one.storage_class) for one in policies(config)}


def tier_all(
    config: Config, catalog: "Callable[[], Catalog]", s3: Any, store: Store, now: datetime
) -> Iterator[dict[str, Any]]:
    """Tier each table that has a policy; `s3` as in `tier`. -> a log line each; one table's failure doesn't keep the
    others. The catalog is opened only where a policy is on."""
    if not policies(config):
        return
    opened = catalog()
    tiered = frozenset(paths(store, layout.tiers_prefix()))
    for identifier in table_identifiers(opened):
        try:
            name = TableName(".".join(identifier[:-1]), identifier[-1])
            policy = config.care_of(name).tiering
            if not health_streams(config, str(name)):
                policy = replace(policy, cold_seconds=None, predictive=False)  # it is somebody else's
            if not policy.on and not _left_over(store, name, tiered):
                continue
            table = opened.load_table(identifier)
            if table.properties.get("firn.mode") == "deletes":
                continue  # what a table remembers of deletes is gone before it is cold
            done = tier(table, policy, s3, store, now)
            _remember(store, config, name, done, now)
            yield done.line()
        except FirnError as error:
            yield {"table": ".".join(identifier), "error": str(error)}
        except Exception as error:  # noqa: BLE001 - a table that PyIceberg can't read is none of the others' matter
            _log.warning("the table %s can't be tiered", ".".join(identifier), exc_info=True)
            yield {"table": ".".join(identifier), "error": f"{type(error).__name__}: {error}"}


def _left_over(store: Store, name: TableName, tiered: Collection[str]) -> bool:
    """Whether files of a table without a policy are still on their way, by a rule that is there for other tables."""
    return layout.tier_path(name.slug) in tiered and bool(tiering_state.read(store, str(name), name.slug).tagged)


def apply_all(config: Config, warehouse: str, staging: str, s3: Any, *, dry_run: bool = False) -> list[Applied]:
    """Make the rules of the warehouse's and the staging area's bucket what the configuration asks for; what does not
    lie on S3 has none. The warehouses of shards, which the environment names, are the warehouse's equals. Raises
    TransientError, TerminalError, TooManyRules."""
    wanted: dict[str, _Wanted] = {}
    beside = [(one.address, True) for one in known_warehouses(os.environ).values()]
    for url, tables in ((warehouse, True), (staging, False), *beside):
        where = place(url)
        if where is None:
            continue
        prefix = f"{where.key.strip('/')}/" if where.key.strip("/") else ""
        rules = cold_rules(classes(config), prefix) if tables else staging_rules(prefix=prefix)
        live = [prefix] if tables else [prefix + one for one in LIVE_STAGING]
        before = wanted.get(where.bucket, _Wanted())
        wanted[where.bucket] = _Wanted((*before.rules, *rules), (*before.prefixes, prefix), (*before.live, *live))
    return [_apply(s3, bucket, one, dry_run) for bucket, one in sorted(wanted.items())]


def lines(applied: Sequence[Applied]) -> Iterable[dict[str, Any]]:
    """A log line for each bucket whose rules changed, and for each warning."""
    for one in applied:
        if one.changed:
            yield {"bucket": one.bucket, "rules": list(one.changed)}
        yield from ({"bucket": one.bucket, "warning": text} for text in one.warnings)


def _apply(s3: Any, bucket: str, wanted: _Wanted, dry_run: bool) -> Applied:
    with told(f"apply the lifecycle rules of the bucket {bucket}"):
        return apply_own(s3, bucket, wanted.rules, wanted.prefixes, wanted.live, dry_run=dry_run)


def _remember(store: Store, config: Config, name: TableName, done: Tiered, now: datetime) -> None:
    """Note the cold files where `firn status` and the scheduled functions look for how a table is."""
    for stream in health_streams(config, str(name)):
        if done.same:
            continue
        known = table_health.read(store, stream).get(str(name))
        if known is not None:
            new = msgspec.structs.replace(
                known, cold_files=done.cold_files, cold_bytes=done.cold_bytes, tiered_at=layout.instant(now)
            )
            table_health.write(store, stream, [new])
