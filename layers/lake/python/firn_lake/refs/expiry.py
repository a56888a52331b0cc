"""Letting old snapshots go outside Spark, by the rule of Firn's own care (firn/maintenance/expiry.py).

A table that Firn looks after is cared for by its jobs: they know the cuts, the facts and the files. Here it is any
other table, and only its metadata: the files of what went stay until an engine removes orphans.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyiceberg.table.update import AssertRefSnapshotId
from pyiceberg.table.update.snapshot import ExpireSnapshots, ManageSnapshots
from pyiceberg.typedef import IcebergBaseModel

from firn.config.maintenance import Expiry
from firn.errors import ConfigError
from firn.maintenance import expiry
from firn.maintenance.expiry import Plan
from firn_lake.refs.names import RefRefused
from firn_lake.tables import shown
from firn_lake.writing.commit import land
from firn_lake.writing.stream_ownership import is_firns

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction


def expire(table: "Table", keep: timedelta, at_least: int, now: datetime, *, dry_run: bool = False) -> Plan:
    """Lets the snapshots of main that are older than `keep` go, all but the newest `at_least` (20 or more), those of
    tags and branches, and those that tell what no newer one does. -> what went, and why the others stay.

    dry_run  only tell

    Raises RefRefused (a table that Firn looks after; retention settings of main's own), ConfigError, MovedOn,
    UnknownOutcome.
    """
    if is_firns(table.metadata):
        raise RefRefused(
            f"{shown(table)} is looked after by Firn, whose jobs know which snapshots cuts and deletes need: run "
            f"firn expire {shown(table)} (--dry-run tells what would go), or see care: in firn.yaml"
        )
    if keep < timedelta(0) or at_least < 1:
        raise ConfigError(f"keep={keep}, at_least={at_least}: write keep=timedelta(days=5), at_least=100, or more")
    rule = Expiry(keep_seconds=int(keep.total_seconds()), at_least=at_least, at_most=len(table.metadata.snapshots) + 1)
    plan = expiry.plan(expiry.read(IcebergBaseModel.model_dump_json(table.metadata)), rule, int(now.timestamp() * 1000))
    if plan.refused:
        raise RefRefused(f"{shown(table)}: {plan.refused}")
    if not dry_run and (plan.expired or plan.refs):
        land(table, lambda transaction: _stage(transaction, plan.refs, plan.expired))
    return plan


def _stage(transaction: "Transaction", refs: Sequence[str], expired: Sequence[int]) -> None:
    there = transaction.table_metadata.refs
    for name in refs:
        managed = ManageSnapshots(transaction).remove_tag(name)
        managed.commit()
    if expired:
        ExpireSnapshots(transaction).by_ids(list(expired)).commit()
    # PyIceberg's own commit would take no notice of a ref that moved meanwhile, to what goes here.
    looked = tuple(
        AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": ref.snapshot_id}) for name, ref in there.items()
    )
    kept = tuple(one for one in transaction._requirements if not isinstance(one, AssertRefSnapshotId))
    transaction._requirements = (*kept, *looked)
