"""How a table is looked after: `care:` in firn.yaml, for all tables and, key by key, for the tables of one rule.

    care:
      compact: {target: 128MB, budget: 2GB, sort_by: [customer_id]}
      expire: {by: firn, keep: 5d, at_least: 100, at_most: 1000, orphans_after: 3d}
      tier: {cold_after: 90d, class: STANDARD_IA}
      statistics: {columns: [customer_id], every: 1d}

Read by maintenance_reader.py. docs/configuration.md is the reference for users.
"""

from dataclasses import dataclass, field
from typing import Final, Literal

from firn.config.unfed_tables import UnfedTables

Expirer = Literal["firn", "catalog"]

# Every sixteenth snapshot has small files merged (maintenance/compaction_trigger.py).
FEWEST_SNAPSHOTS: Final = 20
MOST_SNAPSHOTS: Final = 100_000
# A job lingers for up to six hours (commit/warm_job.py), and a file may be written long before its commit.
LEAST_ORPHAN_SECONDS: Final = 86_400
LEAST_COLD_SECONDS: Final = 86_400
LEAST_STATISTICS_SECONDS: Final = 3_600  # each time all values of the columns are read


@dataclass(frozen=True)
class Compaction:
    """Files of about `target_bytes`, of which an hour may take `budget_bytes` to rewrite. Rows in the order of
    `sort_by`, or by a curve through `zorder_by`; neither: as the files are. `on` false: never."""

    on: bool = True
    target_bytes: int = 128_000_000
    budget_bytes: int = 2_000_000_000
    sort_by: tuple[str, ...] = ()
    zorder_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Expiry:
    """Which snapshots stay: those younger than `keep_seconds`, at least `at_least` and at most `at_most` of them
    (`at_most` wins over the age). `orphan_seconds`: how old a file that no snapshot knows must be to be removed.
    `by`: who lets them go; None: a REST catalog does so itself, and of all others Firn."""

    keep_seconds: int = 5 * 86_400
    at_least: int = 100
    at_most: int = 1_000
    orphan_seconds: int = 3 * 86_400
    by: Expirer | None = None


@dataclass(frozen=True)
class Tiering:
    """When live data files become cold: not written for `cold_seconds`, or by `predictive` from recorded reads. Both
    off: never. `storage_class`: where they go (config/storage_classes.py); "": to the first cold one of the storage."""

    cold_seconds: int | None = None
    predictive: bool = False
    storage_class: str = ""

    @property
    def on(self) -> bool:
        """Whether any file may become cold."""
        return self.cold_seconds is not None or self.predictive


@dataclass(frozen=True)
class Statistics:
    """What optimizers are told of a table beside its manifests, at most every `every_seconds`: how many distinct values
    `columns` have, and with `partitions` what each partition holds. Neither: never."""

    columns: tuple[str, ...] = ()
    partitions: bool = False
    every_seconds: int = 86_400

    @property
    def on(self) -> bool:
        """Whether anything is computed."""
        return bool(self.columns) or self.partitions


@dataclass(frozen=True)
class Care:
    """All of it for one table. `also`: the tables that are looked after though no stream feeds them."""

    compaction: Compaction = field(default_factory=Compaction)
    expiry: Expiry = field(default_factory=Expiry)
    tiering: Tiering = field(default_factory=Tiering)
    statistics: Statistics = field(default_factory=Statistics)
    also: UnfedTables = field(default_factory=UnfedTables)
