"""Mistakes about when views are refreshed."""

from typing import Final

from tests.mutants.copy import Mutant

_VIEWS: Final = "layers/core/python/firn/views"
_JOBS: Final = "tests/model/test_views.py"
_SHOWN: Final = "tests/unit/spark/test_tables_at.py::test_rows_of_a_view_are_looked_up_by_what_it_shows_of_their_keys"
_DAYS: Final = "tests/property/test_view_clock.py::test_rows_of_a_day_are_looked_up_by_the_time_that_is_cast_to_it"
_WAYS: Final = "tests/unit/sql/test_view_ways.py"
_HELD: Final = "tests/unit/spark/test_held_files.py"
_FILLS: Final = "tests/unit/sql/test_fill_ways.py"
_DUE: Final = "tests/unit/views/test_views_due.py"

MUTANTS: Final = (
    Mutant(
        "a page takes the room of what is looked through",
        "spark_emr/firn_spark/tables/held_columns.py",
        "in self._pages or self._bytes + size > self._most",
        "in self._pages or size > self._most",
        ("tests/unit/spark/test_held_columns.py::test_pages_have_the_room_that_columns_leave",),
    ),
    Mutant(
        "rows are not looked up in files that came since",
        "spark_emr/firn_spark/files/held_files.py",
        "found.paths | said.keys()",
        "found.paths",
        (f"{_HELD}::test_what_a_snapshot_adds_is_known_without_asking",),
    ),
    Mutant(
        "a snapshot of others is taken for the one that was written",
        "spark_emr/firn_spark/views/view_table.py",
        "head.parentId() == before.state.snapshot_id and len(known)",
        "len(known)",
        (f"{_HELD}::test_a_view_is_followed_where_it_is_what_was_written[beside]",),
    ),
    Mutant(
        "a page whose greatest value is wanted is passed by",
        "spark_emr/firn_spark/files/page_index.py",
        "wanted[at] <= high",
        "wanted[at] < high",
        ("tests/unit/spark/test_page_index.py::test_a_value_between_two_pages_reads_none",),
    ),
    Mutant(
        "rows of a join are told apart by what it shows of one side's key",
        "spark_emr/firn_spark/views/tables_at.py",
        "if len(self._stored.ids) == 1:",
        "if len(self._stored.ids):",
        (f"{_SHOWN}[SELECT u.id AS other, t.b FROM t JOIN u ON t.a = u.id-by9]",),
    ),
    Mutant(
        "all rows that show a value go, whoever they are",
        "spark_emr/firn_spark/views/tables_at.py",
        '["value", "count"], join_type="inner"',
        '["value"], join_type="inner", right_suffix="_there"',
        (f"{_SHOWN}[SELECT u.id AS other, t.b FROM t JOIN u ON t.a = u.id-by9]",),
    ),
    Mutant(
        "sums of floating point are computed again for a view that holds them",
        "layers/lake/python/firn_sql/views/refresh_way.py",
        "return not any(word in kind.upper()",
        "return any(word in kind.upper()",
        (f"{_WAYS}::test_sums_of_floating_point_go_by_what_changed_whatever_that_costs[DOUBLE]",),
    ),
    Mutant(
        "a wide row costs no more than a narrow one",
        "layers/lake/python/firn_sql/views/refresh_way.py",
        "return max(table.rows, table.bytes // _BYTES)",
        "return table.rows",
        (f"{_WAYS}::test_wide_rows_are_read_whole_sooner_than_many_only_if_they_are_few",),
    ),
    Mutant(
        "of a query that was run whole the rows that came go",
        "layers/lake/python/firn_sql/views/view_delta.py",
        'for sign in ("", "-"))',
        'for sign in ("-", ""))',
        ("tests/unit/spark/test_tables_at.py::test_a_table_may_have_columns_of_the_names_that_conditions_have",),
    ),
    Mutant(
        "what is held counts for what it was when it was new",
        "spark_emr/firn_spark/tables/held_columns.py",
        "if before == size:",
        "if before:",
        ("tests/unit/spark/test_held_columns.py::test_what_grows_counts_for_what_it_is",),
    ),
    Mutant(
        "what look-ups hold has no end",
        "spark_emr/firn_spark/tables/held_columns.py",
        "while self._bytes + size > self._most:",
        "while self._bytes > self._most:",
        ("tests/unit/spark/test_held_columns.py::test_more_than_the_bound_is_never_held",),
    ),
    Mutant(
        "times of the last day are looked up until it begins",
        "layers/lake/python/firn_sql/views/time_changes.py",
        "w1 + INTERVAL 1 DAY AS w1",
        "w1",
        (f"{_DAYS}[CAST(w AS DATE) = current_date-asked0]",),
    ),
    Mutant(
        "a view that a job began and did not end is what its note says",
        f"{_VIEWS}/due.py",
        "behind = bool(state.tries) or (state.sql, state.digest) != (view.sha, digest)",
        "behind = (state.sql, state.digest) != (view.sha, digest)",
        (f"{_DUE}::test_a_view_that_a_job_began_and_did_not_end_is_behind_whatever_it_was",),
    ),
    Mutant(
        "a view is behind each new cut, whatever that changes",
        f"{_VIEWS}/view_sources.py",
        "json.dumps([read, sorted(queries)], sort_keys=True)",
        "json.dumps([read, sorted(queries), dict(cut.epochs)], sort_keys=True)",
        (f"{_DUE}::test_a_cut_that_changes_no_table_of_a_view_makes_it_not_due",),
    ),
    Mutant(
        "a view over another one is refreshed before it",
        f"{_VIEWS}/refresh_turn.py",
        "return all(below.table in current for below in self.under.sources.views_below(one.view))",
        "return True",
        (f"{_JOBS}::test_a_view_that_fails_stops_nothing_and_is_tried_less_and_less_often[ValueError-9]",),
    ),
    Mutant(
        "a view of which jobs die is tried before the others",
        f"{_VIEWS}/refresh_turn.py",
        "for some in ([one for one in behind if not one.state.tries], behind):",
        "for some in (behind,):",
        (f"{_JOBS}::test_a_view_of_which_jobs_die_keeps_no_other_waiting_and_no_table",),
    ),
    Mutant(
        "a try is noted only once it has ended",
        f"{_VIEWS}/refresh_turn.py",
        "        self.note()\n        # By the moment",
        "        # By the moment",
        (f"{_JOBS}::test_a_view_of_which_jobs_die_keeps_no_other_waiting_and_no_table",),
    ),
    Mutant(
        "a view that was dropped stays away",
        "layers/core/python/firn/commit/view_turn.py",
        "take(known, check=not self._looked)",
        "take(known, check=False)",
        (f"{_JOBS}::test_a_view_that_somebody_dropped_or_rolled_back_is_found_by_the_next_job[drop]",),
    ),
    Mutant(
        "changes wait until all views are refreshed",
        "layers/core/python/firn/views/refresh_turn.py",
        "if self.tried and not self._stopped:",
        "if self._stopped:",
        (f"{_JOBS}::test_what_comes_while_views_are_refreshed_is_committed_between_two_of_them",),
    ),
    Mutant(
        "a view takes the place of a table that is none",
        "layers/core/python/firn/tables/ownership.py",
        "if state.properties.get(MODE) != VIEW:",
        "if state.properties.get(MODE) == table:",
        ("tests/unit/tables/test_ownership.py::test_a_view_takes_the_place_of_no_table_that_is_none",),
    ),
    Mutant(
        "a clock that goes back takes the moment of a view with it",
        f"{_VIEWS}/cut.py",
        "max(now, before.now)",
        "now",
        (f"{_DUE}::test_a_moment_is_never_before_that_of_the_last_refresh",),
    ),
    Mutant(
        "a view over one that time has changed stays as it was",
        f"{_VIEWS}/due.py",
        "behind = behind or any(_is_newer(one.state, state) for one in timed)",
        "behind = behind or False",
        (f"{_DUE}::test_a_view_over_one_that_time_has_changed_is_behind_until_it_is_of_that_moment",),
    ),
    Mutant(
        "a row that came while time passed it counts as one that stayed",
        "layers/lake/python/firn_sql/views/time_changes.py",
        "if below is not None:",
        "if below is not None and not some:",
        ("tests/property/test_view_clock.py::test_a_row_that_changes_while_time_passes_it_goes_once",),
    ),
    Mutant(
        "a view that waits for a table gets a job each minute",
        f"{_VIEWS}/due.py",
        "if missing is not None:",
        "if missing == view:",
        (f"{_DUE}::test_a_view_that_reads_a_table_that_is_in_no_cut_waits_and_starts_nothing",),
    ),
    Mutant(
        "rows without a partner are in the part of the side that they lack",
        "layers/lake/python/firn_sql/views/view_parts.py",
        'if kind != "RIGHT" and kind != "FULL":',
        'if kind != "RIGHT":',
        (f"{_FILLS}::test_rows_without_a_partner_are_not_looked_for_by_what_they_lack",),
    ),
    Mutant(
        "each part joins with a part of a small table",
        "layers/lake/python/firn_sql/views/view_parts.py",
        'Input("", one, whole=True)',
        'Input("", one, whole=False)',
        (f"{_FILLS}::test_each_part_has_all_of_a_small_table",),
    ),
    Mutant(
        "of the sums of all parts the greatest counts",
        "layers/lake/python/firn_sql/views/view_parts.py",
        'f"CAST(sum({one})',
        'f"CAST(max({one})',
        ("tests/property/test_view_parts.py::test_the_sums_of_all_parts_are_added_up",),
    ),
)
