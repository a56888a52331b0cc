"""Mistakes of dispatch, of the commit job, and of those who look after them."""

from typing import Final

from tests.mutants.copy import Mutant

_CORE: Final = "layers/core/python/firn"
_DISPATCH_TESTS: Final = "tests/unit/dispatch/test_dispatcher.py"
_TIERING_TESTS: Final = "tests/unit/maintenance/test_tiering.py"
_QUARANTINE_TESTS: Final = "tests/model/test_quarantine.py"
_SURE: Final = "tests/property/test_sure_verdicts.py"
_AUDIT_ROWS: Final = "tests/unit/audit/test_row_check.py"
_NARROWED: Final = "tests/model/test_narrowing.py"

MUTANTS: Final = (
    Mutant(
        "a table that a job did not look at is missing in the cut",
        f"{_CORE}/commit/cut_writer.py",
        "if name in unseen or TableName.parse(name) in work.foreign}",
        "if TableName.parse(name) in work.foreign}",
        ("tests/model/test_tables_in_turn.py::test_a_table_that_is_touched_again_goes_on_from_where_it_was",),
    ),
    Mutant(
        "of a range of several epochs only the last gives tables their turn",
        f"{_CORE}/tables/turns.py",
        "for n in range(above + 1, last + 1)}",
        "for n in range(last, last + 1)}",
        ("tests/unit/tables/test_turns.py::test_of_many_each_has_its_turn_however_many_epochs_a_range_has[0-2]",),
    ),
    Mutant(
        "a job that stays never looks for what is late",
        f"{_CORE}/commit/warm_job.py",
        "<= now - seen < LATE:",
        "<= now - seen:",
        ("tests/model/test_lingering.py::test_what_is_late_is_found_within_a_minute",),
    ),
    Mutant(
        "a file whose greatest key is wanted is not opened",
        "spark_emr/firn_spark/files/file_bounds.py",
        "fits = pc.less_equal(",
        "fits = pc.less(",
        ("tests/unit/spark/test_file_bounds.py::test_what_tells_nothing_leaves_nothing_out",),
    ),
    Mutant(
        "a table that was made again is what it was before",
        "spark_emr/firn_spark/tables/metadata_cache.py",
        "return str(place), str(metadata.uuid()), ",
        "return str(place), ",
        ("tests/unit/spark/test_metadata_cache.py::test_what_differs_in_anything_is_another_version[other1]",),
    ),
    Mutant(
        "of two halves of the wanted keys the second is not looked for",
        "spark_emr/firn_spark/files/key_conditions.py",
        "for some in (ends[:half], ends[half:])]",
        "for some in (ends[:half], ends[:half])]",
        ("tests/unit/spark/test_key_conditions.py::test_a_file_is_found_if_it_reaches_into_an_interval[0]",),
    ),
    Mutant(
        "a pattern gives a source table the name of Firn's own tables",
        "layers/core/python/firn/config/model.py",
        "if self.is_pattern and \"{\" in target and is_reserved(found.table):",
        "if self.is_pattern and not found.table:",
        ("tests/unit/config/test_rules.py::test_a_pattern_gives_no_table_one_of_firns_own_names[zz__deletes]",),
    ),
    Mutant(
        "the tables of rebuilds in place are forgotten among Firn's own names",
        "layers/core/python/firn/config/names.py",
        'rf"{OWN}.*|.+({FACTS}(_\\d+_[0-9a-f]{{8}})?|',
        'rf"{OWN}.*|.+({FACTS}|',
        ("tests/unit/config/test_rules.py::test_a_pattern_gives_no_table_one_of_firns_own_names[zz__deletes_3_00ffaa11]",),
    ),
    Mutant(
        "names are told from Firn's own by upper and lower case",
        "layers/core/python/firn/config/names.py",
        "re.DOTALL | re.IGNORECASE)",
        "re.DOTALL)",
        ("tests/unit/config/test_rules.py::test_a_pattern_gives_no_table_one_of_firns_own_names[ZZ__Deletes]",),
    ),
    Mutant(
        "a published configuration is refused for what was taken when it was published",
        "layers/core/python/firn/config/table_rules_reader.py",
        "for why in () if section.problems.published else unfit_names(",
        "for why in unfit_names(",
        ("tests/unit/config/test_reader_errors.py::test_what_is_refused_only_now_goes_on_where_it_was_published",),
    ),
    Mutant(
        "a column that another tool took away comes back empty",
        f"{_CORE}/tables/planning.py",
        "name = next((column.name for column in plan.added if column.name in gone), None)",
        "name = next((column.name for column in plan.added if column.name in ()), None)",
        ("tests/unit/tables/test_columns_gone.py::test_changes_that_bring_a_column_that_is_gone_are_not_applied",),
    ),
    Mutant(
        "a table without the positions of its rows takes changes",
        f"{_CORE}/tables/planning.py",
        "own = sorted(METADATA.intersection(gone))",
        "own = sorted(METADATA.intersection(()))",
        ("tests/unit/tables/test_columns_gone.py::test_without_a_column_of_firns_own_no_change_is_applied",),
    ),
    Mutant(
        "a source's column is taken for what a retype left",
        f"{_CORE}/tables/planning.py",
        "if not is_left_out(column.name) and column.name not in unwritable:",
        """if column.name != "_firn_pos" and column.name not in unwritable:""",
        ("tests/unit/spark/test_rules.py::test_a_sources_columns_of_firns_own_names_are_left_out",),
    ),
    Mutant(
        "a source's column takes a name that Iceberg keeps for itself",
        "layers/core/python/firn/config/names.py",
        "return is_own_column(name) or name in ICEBERGS",
        "return is_own_column(name)",
        ("tests/unit/spark/test_rules.py::test_a_sources_columns_of_icebergs_own_names_are_left_out",),
    ),
    Mutant(
        "a name that no column can have is planned as one",
        f"{_CORE}/tables/planning.py",
        "if taken.intersection(names_below(column.name, column.type)):",
        "if not taken:",
        ("tests/unit/spark/test_rules.py::test_names_that_no_column_can_have_are_told_and_their_values_refused",),
    ),
    Mutant(
        "a table that is there is refused once there are too many",
        f"{_CORE}/commit/table_limit.py",
        "for name in goes.values() if str(name) not in made",
        "for name in goes.values()",
        ("tests/model/test_crowd.py::test_tables_that_are_there_go_on_whatever_the_limit_is_now",),
    ),
    Mutant(
        "which tables come first depends on how epochs are split into jobs",
        f"{_CORE}/commit/table_limit.py",
        "settings.max_tables - len(made - named)",
        "settings.max_tables - len(set(known) - named)",
        ("tests/model/test_crowd.py::test_which_tables_come_first_does_not_depend_on_how_epochs_are_split_into_jobs",),
    ),
    Mutant(
        "an epoch is judged by a limit that came after it",
        f"{_CORE}/commit/job_context.py",
        "yield n, by_config[epoch.config], epoch.tables",
        "yield n, settings, epoch.tables",
        tuple(
            "tests/model/test_crowd.py::test_a_limit_that_changes_between_two_tries_makes_no_change_both_a_row_and_a_letter"
            f"[{how}]"
            for how in ("lowered", "raised", "named")
        ),
    ),
    Mutant(
        "a table of a newer version is written to",
        "layers/core/python/firn/tables/table_state.py",
        "int(number) <= NEWEST_FORMAT",
        "int(number) >= 0",
        ("tests/unit/tables/test_feeding.py::test_a_table_of_a_newer_version_is_refused_by_name[4]",),
    ),
    Mutant(
        "a range whose table is ahead is narrowed to its first epoch for ever",
        f"{_CORE}/dispatch/dispatcher.py",
        "(epoch.n for epoch in pending if epoch.n > upto)",
        "(epoch.n for epoch in pending)",
        (f"{_NARROWED}::test_a_range_whose_jobs_die_after_one_table_goes_on_epoch_by_epoch[0]",),
    ),
    Mutant(
        "the deaths of a whole range are held against its last epoch",
        f"{_CORE}/dispatch/dispatcher.py",
        "run.attempt > succeeded and run.last == following",
        "run.last == following",
        (f"{_NARROWED}::test_a_range_whose_jobs_die_after_one_table_goes_on_epoch_by_epoch[0]",),
    ),
    Mutant(
        "a stream waits for a job of another configuration, which leaves its epochs alone",
        f"{_CORE}/dispatch/dispatcher.py",
        "return last is None or (last.config == pending.config and ",
        "return last is None or (",
        ("tests/unit/dispatch/test_shared_jobs.py::test_a_stream_waits_for_no_job_of_another_configuration",),
    ),
    Mutant(
        "a job that stays commits a sharing stream's epochs of two schemas at once",
        f"{_CORE}/commit/warm_job.py",
        "if len(of_one_schema(self._store, stream.name, waiting)) < len(waiting):",
        "if len(waiting) < 0:",
        (
            "tests/model/test_shared_schemas.py"
            "::test_a_job_that_stays_judges_each_epoch_of_a_stream_that_shares_it_by_its_own_schema",
        ),
    ),
    Mutant(
        "what comes after a configuration is sealed under the one before",
        f"{_CORE}/dispatch/dispatcher.py",
        "if not published_configs.is_current(self.store, self.terms.config):",
        "if self.store is None:",
        ("tests/model/test_lingering.py::test_what_comes_after_a_configuration_is_sealed_under_no_older_one[9]",),
    ),
    Mutant(
        "a narrowed job goes on with what kills jobs",
        f"{_CORE}/commit/warm_job.py",
        "if cuts.newest(store, stream) < last:",
        "if cuts.newest(store, stream) < 0:",
        (f"{_NARROWED}::test_a_range_whose_jobs_die_after_one_table_goes_on_epoch_by_epoch[3]",),
    ),
    Mutant(
        "no cut passes over a held epoch that some table has",
        f"{_CORE}/dispatch/dispatcher.py",
        "if waiting and n > waiting[-1]:",
        "if waiting and n < waiting[-1]:",
        (f"{_NARROWED}::test_a_range_whose_jobs_die_after_one_table_goes_on_epoch_by_epoch[3]",),
    ),
    Mutant(
        "an audit takes an older change's row for the newest one's",
        f"{_CORE}/audit/row_check.py",
        "if should.order != row.order:",
        "if should.order < row.order:",
        (f"{_AUDIT_ROWS}::test_the_newest_change_of_a_key_must_be_in_its_row",),
    ),
    Mutant(
        "an audit passes over rows that are there twice",
        f"{_CORE}/audit/row_check.py",
        'self._found.count("surplus", key, None)',
        'self._found.count("nothing", key, None)',
        (f"{_AUDIT_ROWS}::test_the_newest_change_of_a_key_must_be_in_its_row",),
    ),
    Mutant(
        "an audit misses what a delete older than the log explains",
        f"{_CORE}/audit/row_check.py",
        "        if not needed and not self._whole:\n",
        "        if not needed and self._whole:\n",
        (f"{_AUDIT_ROWS}::test_a_row_older_than_the_log_is_not_judged_and_one_that_a_newer_change_beat_is_missing",),
    ),
    Mutant(
        "an audit misses what is not committed yet",
        f"{_CORE}/audit/expected_changes.py",
        "return n not in self._left_out if n <= self._done else None",
        "return n not in self._left_out",
        ("tests/property/test_audit.py::test_an_audit_balances_after_every_step",),
    ),
    Mutant(
        "an audit misses what is a dead letter",
        f"{_CORE}/audit/expected_changes.py",
        "needed=needed and not _is_in(dead, *_place(row))",
        "needed=needed",
        ("tests/unit/audit/test_expected_changes.py::test_what_has_a_letter_need_not_be_in_its_table_though_it_could_be",),
    ),
    Mutant(
        "an audit misses the changes of an epoch that a table was told to skip",
        f"{_CORE}/audit/expected_changes.py",
        "return n not in self._left_out if n <= self._done else None",
        "return True if n <= self._done else None",
        ("tests/unit/audit/test_expected_changes.py::test_what_a_table_was_told_to_skip_need_not_be_in_it",),
    ),
    Mutant(
        "an audit that settles keys by columns takes a dead letter for a change that must be there",
        f"{_CORE}/audit/plain_changes.py",
        "if positions[place] is None or faults[place] is not None or indexes[place] in dead:",
        "if positions[place] is None or faults[place] is not None:",
        ("tests/unit/audit/test_expected_changes.py::test_what_has_a_letter_need_not_be_in_its_table_though_it_could_be",),
    ),
    Mutant(
        "an audit takes a row that is there twice for right where the newest change made it",
        f"{_CORE}/audit/sure_verdicts.py",
        "            if name in there:\n                left.add(name)\n",
        "            if name in there:\n",
        (f"{_SURE}::test_of_a_mirror_table_they_are_those_of_the_full_rule[False]",),
    ),
    Mutant(
        "an audit takes a row for right whose change is older than the newest",
        f"{_CORE}/audit/sure_verdicts.py",
        "change[ORDER] != row[1]",
        "change[ORDER] < row[1]",
        (f"{_SURE}::test_of_a_mirror_table_they_are_those_of_the_full_rule[False]",),
    ),
    Mutant(
        "an audit takes a row for right that a truncate must have emptied",
        f"{_CORE}/audit/sure_verdicts.py",
        '(self._emptied.get(one, b""), "t") < place for one in every',
        '(self._emptied.get(one, b""), "t") > place for one in every',
        (f"{_SURE}::test_of_a_mirror_table_they_are_those_of_the_full_rule[False]",),
    ),
    Mutant(
        "an audit settles a key alone whose values another key's row takes with it",
        f"{_CORE}/audit/sure_verdicts.py",
        'one[OPERATION] in "cd" and one[ORDER][1 : 1 + WIDTH] in moving',
        'one[OPERATION] in "c" and one[ORDER][1 : 1 + WIDTH] in moving',
        (f"{_SURE}::test_of_a_mirror_table_they_are_those_of_the_full_rule[True]",),
    ),
    Mutant(
        "an audit loses what waits to be written to its files",
        "layers/lake/python/firn_lake/audit/spilled.py",
        "            for side, more in zip(sides, waiting, strict=True):\n                side.extend(more)\n",
        "",
        ("tests/unit/lake/test_spilled.py::test_all_records_of_a_name_are_in_one_part[1000]",),
    ),
    Mutant(
        "a partitioning that someone set by hand is undone",
        f"{_CORE}/tables/partition_policy.py",
        "return bool(words != json.loads(properties[ASKED]))",
        "return words != list(now())",
        ("tests/unit/tables/test_partition_policy.py::test_what_someone_did_by_hand_stays_until_the_line_changes",),
    ),
    Mutant(
        "Bloom filters that are no longer asked for are made for ever",
        f"{_CORE}/tables/bloom_filters.py",
        'found = {f"{ENABLED}{name}": "false" for name in asked if name not in names}',
        "found = dict[str, str]()",
        ("tests/unit/tables/test_bloom_filters.py::test_what_is_no_longer_asked_for_is_switched_off_and_others_settings_stay",),
    ),
    Mutant(
        "a NaN is looked for between bounds",
        "layers/lake/python/firn_lake/reading/row_groups.py",
        "isinstance(now, FloatType | DoubleType | UUIDType | VariantType)",
        "isinstance(now, UUIDType | VariantType)",
        ("tests/unit/lake/test_row_groups.py::test_a_nan_is_found_though_it_is_outside_of_all_bounds",),
    ),
    Mutant(
        "a Bloom filter of another kind is asked as if it were known",
        "layers/lake/python/firn_lake/reading/bloom.py",
        r"""rb"\x1c\x1c\x00\x00" * 3 + rb"\x00")""",
        r"""rb".{13}", re.DOTALL)""",
        ("tests/unit/lake/test_row_groups.py::test_a_bloom_filter_of_another_kind_is_not_asked",),
    ),
    Mutant(
        "expiry ends the chain at a snapshot that does not tell the progress",
        f"{_CORE}/maintenance/expiry.py",
        """            if self._tells[one.id]:
                return
""",
        """            if one:
                return
""",
        ("tests/unit/maintenance/test_expiry.py::test_a_merge_at_the_end_takes_the_commit_below_it_along",),
    ),
    Mutant(
        "expiry takes what no cut has counted yet",
        f"{_CORE}/maintenance/expiry.py",
        "return any(epoch_of(stream, one.summary) > n for stream, n in self._counted.items())",
        "return False",
        ("tests/unit/maintenance/test_expiry.py::test_what_no_cut_has_counted_yet_stays",),
    ),
    Mutant(
        "staged objects go by their age alone",
        f"{_CORE}/maintenance/log_retention.py",
        "        if epoch.n > safe:\n",
        "        if epoch.n > 10**9 > safe:\n",
        ("tests/unit/maintenance/test_log_retention.py::test_what_is_not_committed_stays_whatever_its_age",),
    ),
    Mutant(
        "orphans go whatever their age",
        f"{_CORE}/maintenance/orphans.py",
        "if one.path not in used and one.modified < before and not _lies_in(one.path, folders):",
        "if one.path not in used and not _lies_in(one.path, folders):",
        ("tests/unit/maintenance/test_orphans.py::test_only_old_files_that_nobody_uses_go",),
    ),
    Mutant(
        "a second run starts while one is at work",
        f"{_CORE}/dispatch/dispatcher.py",
        "run.active and _serves(",
        "not run.id and _serves(",
        (f"{_DISPATCH_TESTS}::test_while_a_run_is_active_epochs_are_sealed_and_no_second_run_starts",),
    ),
    Mutant(
        "deletes of a file that is there are taken for dangling",
        f"{_CORE}/maintenance/compaction_planner.py",
        "named = paths.get(delete.lowest)",
        "named = paths.get(delete.path)",
        ("tests/unit/maintenance/test_compaction_planner.py::test_a_file_that_is_named_from_another_partition_still_needs_its_deletes",),
    ),
    Mutant(
        "an hour's budget of compaction starts over with each look",
        f"{_CORE}/maintenance/health.py",
        "if spent(health, now):",
        "if spent(health, now) and taken:",
        ("tests/unit/maintenance/test_health.py::test_a_look_in_vain_does_not_begin_the_hour_anew",),
    ),
    Mutant(
        "a paused stack starts jobs",
        f"{_CORE}/dispatch/dispatcher.py",
        "if jobs is not None and (since := pause.since(store)) is not None:",
        "if jobs is None and (since := pause.since(store)) is not None:",
        ("tests/unit/dispatch/test_dispatcher.py::test_while_it_is_paused_nothing_is_sealed_and_no_job_starts_and_then_all_that_waits",),
    ),
    Mutant(
        "a job that lingers does not hear of a pause",
        f"{_CORE}/commit/warm_job.py",
        "if self._paused():",
        "if self._paused is None:",
        ("tests/model/test_lingering.py::test_a_paused_job_ends_after_its_epoch_and_the_next_takes_the_rest",),
    ),
    Mutant(
        "a job ends without a last look",
        f"{_CORE}/commit/warm_job.py",
        "return code or job.once_more()",
        "return code",
        ("tests/model/test_lingering.py::test_no_epoch_falls_between_a_job_that_ends_and_the_next[tick-20]",),
    ),
    Mutant(
        "dispatch counts on a job that has closed",
        f"{_CORE}/dispatch/dispatcher.py",
        "and not job_closed_marker.is_closed(store, run.name):\n            return replace",
        "and job_closed_marker is not None:\n            return replace",
        ("tests/model/test_lingering.py::test_no_epoch_falls_between_a_job_that_ends_and_the_next[job-10]",),
    ),
    Mutant(
        "an unclear start is tried again as another attempt",
        f"{_CORE}/dispatch/dispatcher.py",
        """    for _ in range(2):
        try:
            return jobs.start(stream, first, last, attempt)
""",
        """    for again in range(2):
        try:
            return jobs.start(stream, first, last, attempt + again)
""",
        (f"{_DISPATCH_TESTS}::test_an_unclear_start_is_asked_again_with_the_same_range_and_attempt",),
    ),
    Mutant(
        "each call of a start has a token of its own",
        f"{_CORE}/runs/emr.py",
        "return hashlib.sha256(run_name(stream, first, last, attempt).encode()).hexdigest()",
        "return hashlib.sha256(f'{datetime.now()}'.encode()).hexdigest()",
        ("tests/unit/runs/test_emr.py::test_the_token_is_the_same_for_the_same_work_and_no_other",),
    ),
    Mutant(
        "the progress is that of the newest snapshot",
        f"{_CORE}/tables/table_state.py",
        "return max((int(summary[name]) for summary in summaries if name in summary), default=0)",
        "return next((int(summary[name]) for summary in summaries if name in summary), 0)",
        ("tests/unit/spark/test_rules.py"
         "::test_the_progress_does_not_fall_where_an_older_epoch_landed_after_a_newer_one",),
    ),
    Mutant(
        "a cut is made although a table failed",
        f"{_CORE}/commit/job.py",
        'if not any(outcome.status == "failed" for outcome in self._outcomes):',
        "if self._outcomes is not None:",
        (f"{_QUARANTINE_TESTS}::test_what_passes_by_itself_never_quarantines",),
    ),
    Mutant(
        "a commit leaves the gate shut that its cut has opened",
        f"{_CORE}/commit/job.py",
        "            backlog.reopen(store, work.settings, now())\n",
        "            backlog.look(store, stream, now())\n",
        ("tests/model/test_back_pressure.py::test_the_commit_opens_the_gate",),
    ),
    Mutant(
        "a cut is made below an epoch that is in a table already",
        f"{_CORE}/commit/cut_writer.py",
        "if any(state.progress(work.stream) > work.last for state in states.values() if state):",
        "if not states and work.last < 0:",
        ("tests/model/test_memory_lake.py::test_a_cut_is_not_made_below_what_is_in_a_table",),
    ),
    Mutant(
        "what the table furthest ahead has is taken for done",
        f"{_CORE}/commit/job.py",
        "if lacking and n > min(lacking)}",
        "if lacking and n > max(lacking)}",
        ("tests/model/test_memory_lake.py::test_tables_that_are_behind_each_by_other_epochs_get_all_that_they_lack",),
    ),
    Mutant(
        "what passes by itself quarantines a table",
        f"{_CORE}/quarantine/rules.py",
        'or (kind == "terminal" and attempt >= MAX_ATTEMPTS)',
        "or attempt >= MAX_ATTEMPTS",
        (f"{_QUARANTINE_TESTS}::test_what_passes_by_itself_never_quarantines",),
    ),
    Mutant(
        "a cut does not say which tables it leaves behind",
        f"{_CORE}/commit/cut_writer.py",
        "quarantined=dict(held),",
        "quarantined={},",
        (f"{_QUARANTINE_TESTS}::test_a_changed_key_quarantines_its_table_and_the_others_go_on",),
    ),
    Mutant(
        "a table that was rolled back by hand gets the next epoch",
        f"{_CORE}/quarantine/rules.py",
        "return self.held is None and not self.released and self.done < self.expected",
        "return False",
        (f"{_QUARANTINE_TESTS}::test_a_table_rolled_back_by_hand_waits_for_a_decision[replay-abcd]",),
    ),
    Mutant(
        "changes of a restored source are taken for late ones",
        f"{_CORE}/quarantine/rules.py",
        "return high is not None and span.low is not None and span.low[0] < bytes.fromhex(high[0])",
        "return False",
        (f"{_QUARANTINE_TESTS}::test_a_restored_source_holds_the_stream_until_its_generation_is_raised",),
    ),
    Mutant(
        "two different keys that events name hold no table",
        f"{_CORE}/tables/planning.py",
        "    if len(set(map(frozenset, known))) > 1:",
        "    if False:",
        ("tests/unit/spark/test_rules.py::test_the_key_is_the_same_however_the_events_are_split",),
    ),
    Mutant(
        "changes without a key hold the table that they would make",
        f"{_CORE}/tables/planning.py",
        "    if made:\n        raise KeyChanged(f\"the table has no",
        "    if missing:\n        raise KeyChanged(f\"the table has no",
        ("tests/model/test_memory_lake.py::test_contract"
         "[first_changes_that_all_lack_the_key_are_dead_and_later_ones_make_the_table]",),
    ),
    Mutant(
        "a dispatcher may still seal below a log that was started over",
        f"{_CORE}/commit/renumbering.py",
        "_put_empty(work, end + 1, now)",
        "break",
        ("tests/model/test_renumber.py::test_a_dispatcher_that_seals_at_any_moment_of_it_loses_nothing[True-4]",),
    ),
    Mutant(
        "what a table had done before it was held is skipped with the rest",
        f"{_CORE}/commit/cut_writer.py",
        "start, end = max(first, done + 1), min(through, work.last)",
        "start, end = done + 1, min(through, work.last)",
        ("tests/unit/audit/test_held.py"
         "::test_what_a_table_without_any_snapshot_had_done_before_it_was_held_counts_once[0-skip]",),
    ),
    Mutant(
        "the audit takes every batch that is gone for expired",
        f"{_CORE}/audit/log_check.py",
        "if numbers and max(numbers) <= done and not lacks and old:",
        "if numbers:",
        ("tests/unit/audit/test_row_differences.py::test_a_deleted_staged_object",
         "tests/unit/audit/test_row_differences.py"
         "::test_a_deleted_staged_object_that_no_table_has_is_lost_however_old_it_is"),
    ),
    Mutant(
        "a partition whose rows are deleted lately is cold",
        f"{_CORE}/maintenance/tiering.py",
        "return [_EPOCH, *(one.written for one in self._newest)]",
        "return [_EPOCH]",
        (f"{_TIERING_TESTS}::test_rows_that_were_deleted_lately_keep_their_partition_hot",),
    ),
    Mutant(
        "small files are moved too",
        f"{_CORE}/maintenance/tiering.py",
        "large = [file for file in files if file.size > SMALLEST_BYTES]",
        "large = list(files)",
        (f"{_TIERING_TESTS}::test_small_files_are_never_moved[131072-False]",),
    ),
    Mutant(
        "what is touched on its way to a cold class goes on",
        f"{_CORE}/maintenance/tiering.py",
        "left if cold else (), () if cold else on_its_way",
        "left if cold else (), ()",
        (f"{_TIERING_TESTS}::test_what_has_its_tag_is_not_tagged_again_and_loses_it_when_it_is_touched",),
    ),
    Mutant(
        "a partition of time that has not ended is as old as its file",
        f"{_CORE}/maintenance/tiering.py",
        "*(file.until for file in files if file.until), ",
        "",
        (f"{_TIERING_TESTS}::test_a_time_that_has_not_ended_long_ago_keeps_its_partition_hot",),
    ),
    Mutant(
        "a rewritten object that did not change as it should counts as moved",
        "layers/lake/python/firn_lake/tiering/google_classes.py",
        "return now is not None and _kind(now) == kind",
        "return now is not None",
        ("tests/unit/lake/test_cloud_classes.py"
         "::test_a_rewrite_that_finds_another_generation_looks_who_made_it[STANDARD-False]",),
    ),
    Mutant(
        "a file that was brought back on Azure is as old as before",
        "layers/lake/python/firn_lake/tiering/azure_classes.py",
        "if kind == AZURE.hot and moved:",
        "if False:",
        ("tests/unit/lake/test_cloud_classes.py"
         "::test_azures_listing_has_pages_names_of_all_kinds_and_accounts_without_tiers",),
    ),
    Mutant(
        "rules of others go with those of ours",
        f"{_CORE}/maintenance/bucket_lifecycle.py",
        "return [*others, *ours]",
        "return [*ours]",
        ("tests/unit/maintenance/test_bucket_lifecycle.py::test_rules_of_others_stay_as_they_are_and_where_they_are",),
    ),
    Mutant(
        "rules of another Firn in the bucket are taken for ours",
        f"{_CORE}/maintenance/bucket_lifecycle.py",
        'return str(rule.get("ID", "")).startswith(OWN) and any(prefix_of(rule).startswith(one) for one in prefixes)',
        'return str(rule.get("ID", "")).startswith(OWN)',
        ("tests/unit/maintenance/test_bucket_lifecycle.py::test_another_firn_in_the_bucket_keeps_its_rules",),
    ),
    Mutant(
        "a table forgets what its columns were called",
        f"{_CORE}/tables/renames.py",
        'json.loads(properties.get(RENAMES, "{}"))',
        "{}",
        ("tests/property/test_renames.py::test_no_older_configuration_brings_an_old_name_back",),
    ),
    Mutant(
        "where no epoch can be read, all of them are held",
        "layers/core/python/firn/commit/bisection.py",
        "    if len(found) == len(work.epochs):",
        "    if not found:",
        ("tests/model/test_quarantine.py::test_a_range_of_which_nothing_can_be_read_is_not_the_epochs_fault",),
    ),
    Mutant(
        "an epoch is held at the first failure",
        "layers/core/python/firn/commit/job.py",
        "    if not rules.holds(work.lake.failure(error).kind, attempt):",
        "    if not rules.holds(work.lake.failure(error).kind, 3):",
        (
            "tests/model/test_quarantine.py"
            "::test_an_epoch_that_can_not_be_read_is_held_at_the_last_attempt_and_the_others_go_on",
        ),
    ),
    Mutant(
        "in Glue a job may do whatever its role may",
        f"{_CORE}/runs/session_policy.py",
        '["s3:*", "glue:*"] if tables else "s3:*"',
        '"s3:*"',
        ("tests/unit/runs/test_session_policy.py::test_in_glue_a_job_may_not_touch_another_streams_tables",),
    ),
    Mutant(
        "a table of another deployment is taken for ours",
        f"{_CORE}/commit/job_context.py",
        "states = {name: None if name in foreign else state for name, state in found.items()}",
        "states = found",
        (
            "tests/model/test_other_deployments.py"
            "::test_a_table_of_another_deployment_is_refused_by_name_and_the_others_go_on",
        ),
    ),
    Mutant(
        "a cut tells of a table by an earlier of its commits",
        f"{_CORE}/commit/cut_writer.py",
        "outcome.state for outcome in outcomes}",
        "outcome.state for outcome in outcomes if outcome.state}",
        (
            "tests/unit/log/test_landed_states.py::"
            "test_of_a_table_whose_last_outcome_says_nothing_the_catalog_is_asked",
        ),
    ),
    Mutant(
        "a cut makes another deployment's table ours",
        f"{_CORE}/commit/cut_writer.py",
        "if name in work.states and name not in work.foreign}",
        "if name in work.states}",
        ("tests/model/test_other_deployments.py::test_a_cut_does_not_make_anothers_table_ours",),
    ),
    Mutant(
        "a table that may not be looked at any more counts as rolled back",
        f"{_CORE}/commit/job_context.py",
        "if before and name in closed else 0",
        "if before and name in () else 0",
        (
            "tests/model/test_other_deployments.py"
            "::test_a_table_whose_database_is_no_longer_named_stops_no_other_and_goes_on_once_it_is",
        ),
    ),
    Mutant(
        "a namespace counts as one of GlueDatabases whatever it is",
        "layers/core/python/firn/config/reach.py",
        "if not databases or any(meet(namespace, one) for one in databases):",
        "if not databases or namespace:",
        (
            "tests/model/test_other_deployments.py"
            "::test_a_table_in_a_database_that_was_not_named_is_refused_by_name_and_the_others_go_on",
        ),
    ),
    Mutant(
        "a job is started that can't reach its catalog",
        f"{_CORE}/runs/emr.py",
        "if (why := unreachable(s.catalog_uri, s.jobs_region)) is not None:",
        "if (why := unreachable(s.catalog_uri, '')) is not None:",
        ("tests/unit/runs/test_emr.py::test_no_job_is_started_that_could_not_reach_its_catalog",),
    ),
    Mutant(
        "a job gets a secret as one of its Spark parameters",
        f"{_CORE}/runs/emr.py",
        "if (held := secret_in(s.spark_submit_parameters)) is not None:",
        "if (held := secret_in('')) is not None:",
        (
            "tests/unit/config/test_written_secrets.py::test_no_job_is_started_with_one"
            "[spark_submit_parameters---conf spark.authenticate.secret=c4nary]",
        ),
    ),
    Mutant(
        "keys that a catalog gave out for a whole bucket are those of the table that was looked at last",
        "spark_emr/firn_spark/vended_keys.py",
        "if whole or _is_below(spelled(prefix), one)], more)",
        "if whole], more)",
        ("tests/unit/spark/test_vended_keys.py::test_keys_wider_than_a_table_are_not_those_of_the_next_one",),
    ),
    Mutant(
        "keys that always end before a commit is through start a job for ever",
        "spark_emr/firn_spark/committer.py",
        '            found = Failure("terminal", f"{why}. {found.text}")\n',
        '            found = Failure(found.kind, f"{why}. {found.text}")\n',
        ("tests/unit/spark/test_vended_keys.py::test_how_long_keys_live_is_what_the_catalog_says[True]",),
    ),
    Mutant(
        "a table that Firn only committed to is another deployment's no more",
        f"{_CORE}/tables/ownership.py",
        "if (state.key() is None and not committed) or",
        "if state.key() is None or",
        ("tests/unit/tables/test_ownership.py::test_what_firn_made_or_committed_to_elsewhere_is_refused_by_name[other]",),
    ),
    Mutant(
        "a table is ours by its name in a cut, whoever made it again",
        f"{_CORE}/tables/ownership.py",
        "if not told:",
        "if cuts.have(store, streams, str(table)):",
        ("tests/model/test_other_deployments.py::test_a_table_that_another_made_again_under_our_name_is_theirs[2]",),
    ),
    Mutant(
        "tables are cared for that nobody named",
        "layers/core/python/firn/maintenance/launcher.py",
        "return config.care.also.names(name) and not feeding(config, table)",
        "return not feeding(config, table)",
        ("tests/unit/maintenance/test_unfed.py::test_nothing_is_anybodys_without_the_opt_in",
         "tests/unit/maintenance/test_unfed.py::test_who_is_named[shop.by_days-False]"),
    ),
    Mutant(
        "expiry takes the snapshot by which a writer of a foreign table resumes",
        "layers/core/python/firn/maintenance/unfed.py",
        "            furthest = place + 1",
        "            furthest = place",
        ("tests/unit/maintenance/test_unfed.py"
         "::test_every_writer_finds_its_place_after_an_expiry_that_it_found_before",),
    ),
    Mutant(
        "of two sinks of a Flink job that ran twice one loses its place",
        "layers/core/python/firn/maintenance/unfed.py",
        "        told = {(name, whose) for name",
        "        told = {(name, (summary.get(name),) if name in _WHOSE else ()) for name",
        ("tests/unit/maintenance/test_unfed.py::test_each_sink_of_each_flink_job_keeps_its_place",),
    ),
    Mutant(
        "manifests of one partition each are sorted by partition for ever",
        "layers/core/python/firn/maintenance/manifest_planner.py",
        "one.high is not None and one.low < one.high]",
        "one.high is not None and one.low <= one.high]",
        ("tests/unit/maintenance/test_manifest_planner.py"
         "::test_manifests_of_one_partition_each_are_as_good_as_they_get",),
    ),
    Mutant(
        "a rewrite of manifests takes as much as there is",
        "layers/core/python/firn/maintenance/manifest_planner.py",
        "if size <= most]",
        "if size <= most or one]",
        ("tests/unit/maintenance/test_manifest_planner.py::test_one_commit_takes_no_more_than_it_may",),
    ),
    Mutant(
        "of two writers of one kind only the newer one finds its place again",
        "layers/core/python/firn/maintenance/unfed.py",
        "told = {(name, whose) for name",
        "told = {(name, ()) for name",
        ("tests/unit/maintenance/test_unfed.py"
         "::test_every_writer_finds_its_place_after_an_expiry_that_it_found_before",),
    ),
)  # fmt: skip
