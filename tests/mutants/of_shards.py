"""Mistakes about which shard a row is in, and about how shards come from cut to cut."""

from typing import Final

from tests.mutants.copy import Mutant

_PLACEMENT: Final = "layers/core/python/firn/changes/placement"
_DECISION: Final = f"{_PLACEMENT}/shard_decision.py"
_BY_COLUMNS: Final = "spark_emr/firn_spark/driver/sharded_decision.py"
_DECIDED: Final = "tests/property/test_sharded_decision.py"
_SAME: Final = f"{_DECIDED}::test_shards_that_are_decided_by_columns_are_what_the_row_engine_decides"
_MAPS: Final = "tests/unit/changes/test_shard_maps.py"
_MODEL: Final = "tests/model/test_shards.py"
_IN_HOMES: Final = "tests/integration/spark/test_shards_in_homes.py"
_ONCE: Final = "test_rows_that_passed_before_a_job_died_pass_no_second_time_and_none_is_lost"
_PASSAGES: Final = "tests/unit/spark/test_shard_passages.py::test_rows_go_where_the_map_says_and_leave_where_they_were"
_EACH_CUT: Final = "tests/property/test_shards.py::test_at_every_cut_each_shard_is_what_fold_places_there"

_PARTS: Final = (
    "tests/unit/commit/test_range_parts_bounded.py::test_what_is_not_decided_by_columns_is_cut_from_the_rest"
)

MUTANTS: Final = (
    Mutant(
        "a shard is committed to only where a row of it changes",
        _DECISION,
        "    reached = _places(shards, rows, *seen)",
        "    reached = {shards.place(row.values) for row in rows.values() if row is not None}",
        (f"{_MODEL}::test_who_stood_still_does_not_bring_back_a_row_that_came_and_went",),
    ),
    Mutant(
        "a shard that a job left half-way keeps the row that has gone elsewhere",
        _DECISION,
        "if key in writes or key not in mine]",
        "if key in writes]",
        (f"{_MODEL}::test_a_job_that_dies_between_two_shards_is_made_good_by_the_next[leaves]",),
    ),
    Mutant(
        "a row that a shard has no longer stays as if it had it",
        _BY_COLUMNS,
        "    return found.set_column(found.column_names.index(HOLDS), HOLDS, holds)",
        "    return found",
        (_SAME,),
    ),
    Mutant(
        "what goes from a shard that is ahead is what the range writes elsewhere alone",
        _BY_COLUMNS,
        "self.keys(pc.invert(pc.and_(self._stays, self._lies_in(shard))))",
        "self.changed",
        (_SAME,),
    ),
    Mutant(
        "a part ends before the epoch that a shard is at",
        "layers/core/python/firn/commit/range_parts.py",
        "    if fast and (fast[-1] >= ahead or len(fast) == len(events)):",
        "    if fast:",
        (f"{_PARTS}[events7-slow7-3-3]",),
    ),
    Mutant(
        "what was another shard's table before keeps its rows",
        _DECISION,
        "if strayed or (was is None and not ahead):",
        "if strayed:",
        (_EACH_CUT,),
    ),
    Mutant(
        "of a shard the snapshots of the newest cut alone stay",
        "layers/core/python/firn/maintenance/cut_coverage.py",
        "for one in rest.all.values() if SHARDS_AT",
        "for one in list(rest.all.values())[-2:] if SHARDS_AT",
        (
            "tests/unit/maintenance/test_cut_coverage.py"
            "::test_what_any_of_them_names_stays_and_what_the_newest_does_not_name_yet",
        ),
    ),
    Mutant(
        "a bound is the last value of the shard before it",
        f"{_PLACEMENT}/shard_map.py",
        "bisect_right(self.at, value)",
        "sum(one < value for one in self.at)",
        (f"{_MAPS}::test_ranges_compare_as_the_columns_type_does[kind0-bounds0-9-s1]",),
    ),
    Mutant(
        "any text may name a table of its own",
        f"{_PLACEMENT}/map_changes.py",
        "if NAME.fullmatch(one))",
        "if one)",
        (f"{_MAPS}::test_tenants_become_shards_by_a_rule_of_names_and_within_a_limit",),
    ),
    Mutant(
        "true is a number",
        f"{_PLACEMENT}/shard_values.py",
        "value.__class__ is int",
        "isinstance(value, int)",
        (f"{_MAPS}::test_what_is_odd_is_in_the_rest[kind1-True]",),
    ),
    Mutant(
        "a hash forgets how long its value is",
        f"{_PLACEMENT}/murmur3.py",
        "found ^= len(data)",
        "found ^= 0",
        (f"{_MAPS}::test_hashes_are_those_of_icebergs_specification[kind7-iceberg-1210000089]",),
    ),
    Mutant(
        "an older map comes back",
        "layers/core/python/firn/log/shard_maps.py",
        "max(one, versions.get(table, 1))",
        "one",
        ("tests/unit/log/test_shard_maps.py::test_no_map_comes_back_whoever_seals_late",),
    ),
    Mutant(
        "a map that a catalog has expired is the first",
        "layers/core/python/firn/tables/map_in_log.py",
        "    return _of_log(store, stream, first, state.ancestry)\n",
        "    return map_of(state)\n",
        (
            "tests/unit/tables/test_map_in_log.py"
            "::test_a_map_that_the_log_has_lost_too_is_named",
        ),
    ),
    Mutant(
        "any word is a way to shard",
        "layers/core/python/firn/config/sharding.py",
        "if found is None or by not in _KINDS:",
        "if found is None:",
        ("tests/unit/config/test_sharding.py::test_ways_to_shard_are_parsed",),
    ),
    Mutant(
        "a filter leaves the rest out, where what was odd may be a value",
        f"{_PLACEMENT}/shard_pruning.py",
        "frozenset((shards.rest, *map(shards.of, values)))",
        "frozenset(map(shards.of, values))",
        ("tests/unit/changes/test_shard_pruning.py::test_a_row_that_fits_is_in_none_of_the_shards_that_are_left_out",),
    ),
    Mutant(
        "a shard that begins at a bound has nothing up to it",
        f"{_PLACEMENT}/shard_pruning.py",
        "_fits(low, sign, bound)",
        '_fits(low, "<", bound)',
        ("tests/unit/changes/test_shard_pruning.py::test_a_bound_is_the_first_value_of_its_band",),
    ),
    Mutant(
        "an epoch that was sealed late is under an older map",
        "layers/core/python/firn/log/shard_maps.py",
        "{table: max(one, versions.get(table, 1)) for",
        "{table: one for",
        ("tests/unit/log/test_shard_maps.py::test_no_map_comes_back_whoever_seals_late",),
    ),
    Mutant(
        "a tenant who can have no table takes the room of others",
        f"{_PLACEMENT}/map_changes.py",
        "islice(filter(fits, sorted(found)), room)",
        "filter(fits, sorted(found)[:room])",
        ("tests/unit/tables/test_shard_admission.py::test_who_can_not_have_a_table_takes_no_room",),
    ),
    Mutant(
        "rows of a shard that is split stay where they are",
        _DECISION,
        "return Passage(sources, loses=any(copy.source == was for copy in self._copies))",
        "return Passage(sources)",
        (_EACH_CUT,),
    ),
    Mutant(
        "rows pass once more into a shard that a job which died has left ahead",
        _DECISION,
        """        if ahead:
            return Passage()""",
        """        if False:
            return Passage()""",
        (f"{_MODEL}::{_ONCE}[merge]", _EACH_CUT),
    ),
    Mutant(
        "a row passes as the cut has it, though a change names its key",
        _DECISION,
        "return key not in self.rows and self.map",
        "return self.map",
        (_EACH_CUT,),
    ),
    Mutant(
        "rows that pass are held values of other columns",
        "spark_emr/firn_spark/driver/shard_passages.py",
        "[(ids[of], at) for of, at in row if of in ids]",
        "row",
        (f"{_PASSAGES}[3]",),
    ),
    Mutant(
        "a table is removed while a snapshot of the rest is read in it",
        "layers/lake/python/firn_lake/sharded/former_tables.py",
        "sum(name in one for one in named)",
        "0",
        ("tests/unit/lake/test_former_tables.py::test_a_former_table_goes_once_no_snapshot_of_the_rest_is_read_in_it",),
    ),
    Mutant(
        "a row that is removed is looked for where the new one lies",
        _BY_COLUMNS,
        "pc.equal(self.leaves, shard)",
        "pc.equal(self.enters, shard)",
        (_SAME,),
    ),
    Mutant(
        "a shard is committed to only if the newest changes are in it",
        _BY_COLUMNS,
        "frozenset((*pc.unique(written).to_pylist(), *gaps, *lookup.met))",
        "frozenset((*pc.unique(placed.take(numbers)).to_pylist(), *lookup.met))",
        (_SAME,),
    ),
    Mutant(
        "the last bytes of a value count as four",
        "spark_emr/firn_spark/driver/shard_places.py",
        "if 4 * place + 4 <= length:",
        "if True:",
        (f"{_DECIDED}::test_many_values_have_the_shards_that_each_of_them_has[string]",),
    ),
    Mutant(
        "a tenant's table is read in place of the whole",
        "layers/core/python/firn/tables/shard_admission.py",
        "(*now.map.homes.values(), Home(str(whole)))",
        "now.map.homes.values()",
        ("tests/unit/tables/test_shard_admission.py::test_no_tenant_has_the_table_that_all_shards_are_read_as",),
    ),
    Mutant(
        "tenants whose rows columns decide become no shards",
        _BY_COLUMNS,
        "return found | (self.columns.values_in(shard, column, columns) if self.columns else set())",
        "return found",
        (_SAME,),
    ),
    Mutant(
        "the rest of shards waits for its turn",
        "layers/core/python/firn/commit/job_context.py",
        "if name in rests or str(name) in held",
        "if str(name) in held",
        ("tests/model/test_shards_in_turn.py::test_shards_are_in_each_cut_as_their_rest_names_them",),
    ),
    Mutant(
        "rows that are split off go to the deployment's warehouse",
        "layers/core/python/firn/tables/shard_changes.py",
        "now.homes[shard].warehouse if warehouse is None and shard in now.homes else warehouse",
        "warehouse",
        ("tests/unit/tables/test_shard_changes.py::test_rows_stay_in_their_warehouse_unless_another_is_named",),
    ),
    Mutant(
        "neighbours of two warehouses are merged",
        "layers/core/python/firn/tables/shard_rebalance.py",
        "and self.map.homes[one].warehouse == self.map.homes[other].warehouse",
        "",
        ("tests/unit/tables/test_shard_rebalance.py::test_no_row_leaves_its_warehouse",),
    ),
    Mutant(
        "a shard is written wherever its table lies",
        "layers/core/python/firn/tables/shard_cut.py",
        "    if lies != warehouse:",
        "    if lies != warehouse and False:",
        ("tests/unit/tables/test_shard_cut.py::test_a_table_is_a_shard_in_the_warehouse_that_it_was_made_in",),
    ),
)  # fmt: skip
