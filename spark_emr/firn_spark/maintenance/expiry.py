"""Old snapshots go, with the files that only they needed: firn.maintenance.expiry decides, Iceberg's own code does it.

Iceberg commits first and removes files then. A commit whose answer is not known is not cleaned up after: what it may
have left without a snapshot is found later as orphans (care.orphans).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from firn.changes.decode.types import STRING, TIMESTAMPTZ, Column
from firn.changes.metadata_columns import AT, LOOKED, OP
from firn.config.maintenance import FEWEST_SNAPSHOTS, Expiry
from firn.config.names import TableName
from firn.log.layout import instant
from firn.log.store import Store
from firn.maintenance import cut_coverage
from firn.maintenance.cut_coverage import Counted
from firn.maintenance.expiry import LEAST, Plan, Snapshots, plan, read
from firn.tables.shard_names import SHARD_OF
from firn.tables.table_state import CREATES, HELD_IDS
from firn_spark.files import row_lookup
from firn_spark.maintenance.delete_memory_expiry import Forgotten, forget
from firn_spark.merge.facts_table import KEEP, facts_beside
from firn_spark.tables import fence
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.java import java_class

_ERRORS: Final = "org.apache.iceberg.exceptions"
# Commits always came first. (A tag or a branch that was made meanwhile and holds a snapshot: IllegalArgumentException.)
_OVERTAKEN: Final = f"{_ERRORS}.CommitFailedException"
# Such a commit says which snapshots go, and not which refs it knew (docs/adr/0076-expiry-on-rest-catalogs.md).
_REST: Final = "RESTTableOperations"
_MOST_REASONS: Final = 20  # tags have one each
_AT_ONCE: Final = 8  # files removed at a time


@dataclass(frozen=True)
class Expired:
    """What became of one table's snapshots.

    snapshots  how many went, or would go (dry run); `kept`: how many stay
    waiting    how many could go, and wait until they are worth it (a busy job's turn)
    carried    whether a snapshot of nothing was added, so that more can go the next times (firn.maintenance.expiry)
    refs       tags and branches whose own age was over, and that went
    oldest     when the oldest snapshot that stays was made (RFC 3339)
    refused    why nothing is ever done here; "" where it is
    plan       the whole decision
    """

    table: str
    snapshots: int = 0
    kept: int = 0
    waiting: int = 0
    carried: bool = False
    refs: tuple[str, ...] = ()
    oldest: str | None = None
    refused: str = ""
    plan: Plan = field(default_factory=Plan)

    def line(self) -> dict[str, Any]:
        """The numbers for a log line."""
        said = {"snapshots": self.snapshots, "kept": self.kept, "waiting": self.waiting, "carried": self.carried}
        more = {"refs": list(self.refs), "oldest": self.oldest, "refused": self.refused}
        return said | {name: value for name, value in more.items() if value}

    def reasons(self) -> dict[str, Any]:
        """Why how many of the others stay, for whoever asked: the commonest reasons."""
        return {"stay": dict(Counter(self.plan.kept.values()).most_common(_MOST_REASONS))} if self.plan.kept else {}


def expire_all(
    spark: SparkSession,
    store: Store,
    table: Table,
    expiry: Expiry,
    now: datetime,
    *,
    busy: bool = False,
    dry_run: bool = False,
) -> Iterator[Expired | Forgotten]:
    """Lets go of old snapshots of a table and of its facts, and of old facts, one after the other.

    store  the staging area, whose cuts tell what is still to be counted
    Raises what `expire` and `delete_memory_expiry.forget` raise, and StorageUnavailable.
    """
    tables = Tables(spark)
    facts = facts_beside(tables, table)
    if not _is_early(table, expiry, busy):
        told = _counted(store, tables, table)
        if told is None:
            why = f"the table {table.state.properties[SHARD_OF]}, whose shard it is, can't be loaded"
            yield Expired(str(table.name), refused=why)
            return
        stay = told.snapshots
        look = expire(spark, table, expiry, now, must_stay=stay, counted=told.epochs, busy=busy, dry_run=True)
        if facts is not None and look.plan.expired and (look.plan.worth or not busy):
            stay |= looked_at(spark, table, facts, expiry, now)
        yield expire(spark, table, expiry, now, must_stay=stay, counted=told.epochs, busy=busy, dry_run=dry_run)
    if facts is None:
        return
    if not busy:
        yield forget(spark, tables, facts, now, dry_run=dry_run)
        facts = tables.look_again(facts)
    if not _is_early(facts, expiry, busy):
        yield expire(spark, facts, expiry, now, busy=busy, dry_run=dry_run)


def _counted(store: Store, tables: Tables, table: Table) -> Counted | None:
    """What has to stay for cuts' sake; None of a shard whose rest is not there."""
    told = cut_coverage.counted(store, table.name, sorted(table.state.streams))
    if SHARD_OF not in table.state.properties:
        return told
    rest = tables.load(TableName.parse(table.state.properties[SHARD_OF]))
    if rest is None:
        return None
    mine = read(tables.metadata(table))
    found = cut_coverage.of_shard(read(tables.metadata(rest)), mine, table.state.streams)
    return replace(found, snapshots=found.snapshots | told.snapshots)


def looked_at(spark: SparkSession, table: Table, facts: Table, expiry: Expiry, now: datetime) -> set[int]:
    """The snapshots before the deletes that the facts know, the newest `expiry.at_most`: there are the rows that those
    deletes removed (docs/adr/0011-memory.md).

    A row that moves to another key, and whose event leaves values out, takes them from there if the halves of the move
    come far apart. So none where no event has ever left values out. One Spark job.
    """
    leaves_out = table.state.properties.get(HELD_IDS) or any(CREATES in one for one in facts.state.ancestry)
    if not leaves_out or LOOKED not in {field["name"] for field in facts.state.fields}:
        return set()
    if facts.unreadable:
        return _looked_at_by(row_lookup.every(spark, facts, _LOOKED_BY), now - KEEP, expiry.at_most)
    since = (now - KEEP).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    found = (
        spark.table(facts.sql)
        .where(f"{OP} = 'd' AND {LOOKED} IS NOT NULL AND {AT} >= TIMESTAMP '{since} UTC'")
        .groupBy(LOOKED)
        .agg(f.max(AT).alias("at"))
        .orderBy(f.desc("at"))
        .limit(expiry.at_most)
        .collect()
    )
    return {int(row[LOOKED]) for row in found}


_LOOKED_BY: Final = (Column(OP, STRING), Column(LOOKED, STRING), Column(AT, TIMESTAMPTZ))


def _looked_at_by(facts: row_lookup.Rows, since: datetime, most: int) -> set[int]:
    """What `looked_at` says, of facts that Spark does not open."""
    least, newest = int(since.timestamp() * 1_000_000), dict[str, int]()
    for op, looked, at in zip(*(facts.columns[one.name] for one in _LOOKED_BY), strict=True):
        if op == "d" and looked is not None and at is not None and at >= least:
            newest[looked] = max(at, newest.get(looked, at))
    return {int(one) for one in sorted(newest, key=lambda one: newest[one], reverse=True)[:most]}


def expire(
    spark: SparkSession,
    table: Table,
    expiry: Expiry,
    now: datetime,
    *,
    must_stay: Collection[int] = (),
    counted: Mapping[str, int] | None = None,
    busy: bool = False,
    dry_run: bool = False,
) -> Expired:
    """Lets go of the snapshots of main that `expiry` does not keep, with all files that no other snapshot needs.

    must_stay, counted  as for firn.maintenance.expiry.plan
    busy                between the commits of a job: only when so many can go that it is worth it (Plan.worth). A table
                        that has not enough is known by the metadata that the job has anyway
    Raises fence.LostRace (another writer came between: nothing was let go), fence.CommitUnknown (perhaps: nothing is
    cleaned up), or what the catalog says.
    """
    name = str(table.name)
    if table.branch is not None or _is_early(table, expiry, busy):
        return Expired(name, kept=len(table.state.ancestry))
    if table.state.properties.get("gc.enabled", "true").lower() == "false":
        return Expired(name, refused="the table's property gc.enabled is false: its files are another table's too")
    rest = str(table.java.operations().getClass().getSimpleName()) == _REST
    if (why := _left_to_others(expiry, rest=rest)) is not None:
        return Expired(name, refused=why)
    snapshots = read(Tables(spark).metadata(table))
    now_ms = int(now.timestamp() * 1_000)
    found = plan(snapshots, expiry, now_ms, must_stay=must_stay, counted=counted)
    told = Expired(
        name,
        len(found.expired),
        len(found.kept),
        carried=bool(found.carry),
        refs=found.refs,
        oldest=_oldest(snapshots, found),
        refused=found.refused,
        plan=found,
    )
    if dry_run or found.refused:
        return told
    lets_go = bool(found.expired or found.refs) and (found.worth or not busy)
    if found.carry and not (rest and lets_go):  # over REST what lets go carries it, too
        fence.carry(spark, table, found.carry)
    if not (found.expired or found.refs):
        return told
    if not lets_go:
        return Expired(name, 0, told.kept, told.snapshots, told.carried, oldest=told.oldest, plan=found)
    if rest:
        _let_go_over_rest(spark, table, snapshots, found)
    else:
        _let_go(spark, table, snapshots, found)
    return told


def _left_to_others(expiry: Expiry, *, rest: bool) -> str | None:
    """Why Firn lets nothing go here; None if it does."""
    if expiry.by == "catalog":
        return "firn.yaml leaves it to the catalog (care.expire.by: catalog)"
    if not rest:
        return None
    if expiry.by is None:
        return (
            "a REST catalog lets old snapshots go itself, or is left alone: if this one does not, write "
            "care.expire.by: firn in firn.yaml (docs/care.md says what it asks of those who set tags)"
        )
    return None


def _is_early(table: Table, expiry: Expiry, busy: bool) -> bool:
    """Whether a busy job need not even look: so few snapshots always stay."""
    return busy and len(table.state.ancestry) < max(expiry.at_least, FEWEST_SNAPSHOTS) + LEAST


def _let_go(spark: SparkSession, table: Table, snapshots: Snapshots, found: Plan) -> None:
    update = table.java.expireSnapshots().cleanExpiredFiles(True)
    if found.plain:
        # By age: then Iceberg's clean-up reads the manifests with deleted files only, not all that are left. The ages
        # are those of snapshots, not of this clock, so that it takes what the plan takes or less. (Where a tag comes
        # later, and the other way is taken, the few files that the oldest snapshot had deleted are left as orphans.)
        update = update.expireOlderThan(min(snapshots.all[one].ms for one in found.kept)).retainLast(len(found.kept))
    else:
        update = update.expireOlderThan(0)  # nothing by its age but what a ref's own settings say
        for one in found.expired:
            update = update.expireSnapshotId(one)
    pool = java_class(spark, "java.util.concurrent.Executors").newFixedThreadPool(_AT_ONCE)
    try:
        update.executeDeleteWith(pool).commit()
    except IllegalArgumentException as error:  # so pyspark gives Java's
        raise fence.LostRace(f"{table.name}: {str(error).splitlines()[0]}") from error
    except Py4JJavaError as error:
        kind, text = error.java_exception.getClass().getName(), str(error.java_exception.getMessage()).splitlines()[0]
        if kind == _OVERTAKEN:
            raise fence.LostRace(f"{table.name}: {text}") from error
        if kind == f"{_ERRORS}.CommitStateUnknownException":
            raise fence.CommitUnknown(f"{table.name}: {text}") from error
        raise
    finally:
        pool.shutdown()


def _let_go_over_rest(spark: SparkSession, table: Table, snapshots: Snapshots, found: Plan) -> None:
    """In one commit that moves main by a snapshot of nothing: the catalog refuses it where main moved since, which each
    tag of Firn's does too. The files of what goes are left to the next look for orphans: Iceberg's clean-up in a
    transaction would take them where the commit is refused as well."""
    gone = [ref.name for ref in snapshots.refs if ref.name in found.refs and ref.kind == "branch"]
    if gone:  # it would go with what is committed to it in this moment
        raise fence.LostRace(f"{table.name}: the age of branch {gone[0]} is over: drop it, and expire again")
    both = table.java.newTransaction()
    update = both.expireSnapshots().cleanExpiredFiles(False).expireOlderThan(0)
    for one in found.expired:
        update = update.expireSnapshotId(one)
    try:
        update.commit()
        fence.beside(spark, table, both, found.carry)
    except IllegalArgumentException as error:  # so pyspark gives Java's: a ref holds one of them by now
        raise fence.LostRace(f"{table.name}: {str(error).splitlines()[0]}") from error


def _oldest(snapshots: Snapshots, found: Plan) -> str | None:
    kept = [snapshots.all[one].ms for one in found.kept]
    return instant(datetime.fromtimestamp(min(kept) / 1_000).astimezone()) if kept else None
