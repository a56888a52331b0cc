"""Reads `care:` of firn.yaml (config/maintenance.py)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from firn.config import quantities
from firn.config.maintenance import (
    FEWEST_SNAPSHOTS,
    LEAST_COLD_SECONDS,
    LEAST_ORPHAN_SECONDS,
    LEAST_STATISTICS_SECONDS,
    MOST_SNAPSHOTS,
    Care,
    Compaction,
    Expirer,
    Expiry,
    Statistics,
    Tiering,
)
from firn.config.names import is_reserved
from firn.config.problems import Section, shown
from firn.config.storage_classes import classes_of, known_classes, refusal
from firn.config.unfed_tables import UnfedTables
from firn.config.yaml_tree import Scalar

KEYS: Final = {
    "compact": ("on", "target", "budget", "sort_by", "zorder_by"),
    "expire": ("by", "keep", "at_least", "at_most", "orphans_after"),
    "tier": ("cold_after", "predictive", "class"),
    "statistics": ("columns", "partitions", "every"),
}
_ALSO: Final = "also"
_NAMED: Final = "also: [reports.*, shop.by_day]"
_MOST_NAMED: Final = 100
_MOST_COLUMNS: Final = 32


def read_care(section: Section, default: Care) -> Care:
    """The settings of a `care:` section; what is not said is as in `default`. Notes every problem in the section."""
    if section.is_missing:
        return default
    section.allow_only(tuple(KEYS))
    return _care(section, default)


def read_common_care(section: Section) -> Care:
    """The same of the section for all tables, which also names those that no stream feeds."""
    if section.is_missing:
        return Care()
    section.allow_only((*KEYS, _ALSO))
    return replace(_care(section, Care()), also=_also(section))


def _care(section: Section, default: Care) -> Care:
    return Care(
        _compaction(section.section("compact"), default.compaction),
        _expiry(section.section("expire"), default.expiry),
        _tiering(section.section("tier"), default.tiering),
        _statistics(section.section("statistics"), default.statistics),
    )


def _also(section: Section) -> UnfedTables:
    found = []
    for one in section.texts(_ALSO, _NAMED) if section.has(_ALSO) else ():
        namespace, dot, table = one.text.strip().partition(".")
        if not (dot and all(f"{namespace}.{table}".split("."))):
            section.note(_ALSO, f"{shown(one.text)} names no table; write {_NAMED}")
        elif "*" in namespace:
            section.note(_ALSO, f"{shown(one.text)} names tables of any namespace; write {_NAMED}")
        elif is_reserved(table):
            section.note(_ALSO, f"{shown(one.text)} is called as a table of Firn's own, which goes with its table")
        else:
            found.append(f"{namespace}.{table}")
    if len(found) > _MOST_NAMED:
        section.note(_ALSO, f"has {len(found)} names, and {_MOST_NAMED} are read; write a pattern: {_NAMED}")
    return UnfedTables(tuple(dict.fromkeys(found)))


def _compaction(section: Section, default: Compaction) -> Compaction:
    section.allow_only(KEYS["compact"])
    target = section.parsed("target", quantities.size, default.target_bytes, "128MB")
    if section.has("target") and not 10**6 <= target <= 10**9:
        section.note("target", "is not from 1MB to 1GB; write 128MB")
    orders = {name: _columns(section, name) for name in ("sort_by", "zorder_by")}
    if all(orders.values()):
        section.note("zorder_by", "stands beside sort_by; rows have one order: leave one of them out")
    said = any(section.has(name) for name in orders)
    return Compaction(
        section.flag("on", default.on),
        target,
        section.parsed("budget", quantities.size, default.budget_bytes, "2GB"),
        orders["sort_by"] if said else default.sort_by,
        orders["zorder_by"] if said else default.zorder_by,
    )


def _columns(section: Section, name: str) -> tuple[str, ...]:
    if section.node(name) is None:
        return ()
    return tuple(item.text for item in section.texts(name, f"{name}: [customer_id]"))


def _expiry(section: Section, default: Expiry) -> Expiry:
    section.allow_only(KEYS["expire"])
    low, most = FEWEST_SNAPSHOTS, MOST_SNAPSHOTS
    found = Expiry(
        section.parsed("keep", quantities.days, default.keep_seconds, "5d"),
        section.integer("at_least", low, most, default.at_least),
        section.integer("at_most", low, most, default.at_most),
        section.parsed("orphans_after", quantities.days, default.orphan_seconds, "3d"),
        section.choice("by", Expirer, "side that expires snapshots", default.by) if section.has("by") else default.by,
    )
    if section.has("orphans_after") and found.orphan_seconds < LEAST_ORPHAN_SECONDS:
        section.note("orphans_after", "is less than 1d: a job that runs would lose its files; write 3d")
    if found.at_most < found.at_least:
        if section.has("at_most") and section.has("at_least"):
            section.note("at_most", f"is less than at_least; write {found.at_least} or more")
        # One of them alone moves the other along.
        few = found.at_most if section.has("at_most") else found.at_least
        return replace(found, at_least=few, at_most=few)
    return found


def _tiering(section: Section, default: Tiering) -> Tiering:
    section.allow_only(KEYS["tier"])
    cold = section.parsed("cold_after", quantities.days_or_never, default.cold_seconds, "90d")
    if cold is not None and cold < LEAST_COLD_SECONDS:
        section.note("cold_after", "is less than 1d; write 90d")
    # Which classes there are depends on the warehouse: check_classes looks at them.
    named = section.text("class", "such as STANDARD_IA")
    return Tiering(cold, section.flag("predictive", default.predictive), named or default.storage_class)


def check_classes(top: Section, warehouse: str) -> None:
    """Notes every storage class that is not one of the warehouse's. `top`: the whole file."""
    table = classes_of(warehouse)
    for tier in _tiers(top):
        named = tier.node("class")
        if isinstance(named, Scalar) and named.text.strip() and named.text not in known_classes(table):
            tier.note("class", refusal(named.text, table))


def _tiers(top: Section) -> Iterator[Section]:
    """Every `tier:` of the file."""
    streams = _mappings(top, "streams")
    rules = (rule for one in streams for group in ("tables", "pipelines") for rule in _mappings(one, group))
    for section in (top, *rules, *_mappings(top, "views")):
        if section.is_mapping("care") and (care := section.section("care")).is_mapping("tier"):
            yield care.section("tier")


def _mappings(section: Section, key: str) -> Iterator[Section]:
    """The mappings in the mapping under the key, if it is one. What is none is noted by its own reader."""
    if section.is_mapping(key):
        below = section.section(key)
        yield from (below.section(name) for name in below.names if below.is_mapping(name))


def _statistics(section: Section, default: Statistics) -> Statistics:
    section.allow_only(KEYS["statistics"])
    every = section.parsed("every", quantities.days, default.every_seconds, "1d")
    if section.has("every") and every < LEAST_STATISTICS_SECONDS:
        section.note("every", "is less than 1h, and each time all values of the columns are read; write 1d")
    columns = _columns(section, "columns") if section.has("columns") else default.columns
    if len(columns) > _MOST_COLUMNS:
        section.note("columns", f"has {len(columns)} names, and {_MOST_COLUMNS} are counted; name those of joins")
    return Statistics(tuple(dict.fromkeys(columns)), section.flag("partitions", default.partitions), every)
