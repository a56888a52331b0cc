"""Mistakes in what the driver does without Spark, on real tables of Iceberg."""

from typing import Final

from tests.mutants.copy import Mutant

_SPARK: Final = "spark_emr/firn_spark"
_DRIVER, _MERGE, _FILES = (f"{_SPARK}/{folder}" for folder in ("driver", "merge", "files"))
_TESTS: Final = "tests/integration/spark"
_SEVERAL: Final = (
    f"{_TESTS}/test_truncates.py::test_a_truncate_of_one_of_several_source_tables_is_newer_than_what_has_no_position"
)
_RANGES: Final = f"{_TESTS}/test_mixed_ranges.py::test_they_equal_the_specification_after_each_epoch"
_MIXED, _SLICES = (f"{_RANGES}[one-t-copy-on-write-1-{home}]" for home in ("driver", "slices"))
_OLDER: Final = (
    f"{_TESTS}/test_appending.py"
    "::test_an_append_table_from_before_takes_nothing_twice_and_from_then_on_no_two_changes_for_one"
)
_DECISION: Final = (
    "tests/property/test_decision.py::test_what_is_decided_by_columns_and_one_by_one_is_what_the_row_engine_decides"
)
_PATCHES: Final = f"{_TESTS}/test_patches.py::test_a_mirror_of_patches_is_their_replay[by a field-1-driver]"
_COMPACTION_TESTS: Final = f"{_TESTS}/test_compaction.py"
_FORMAT_3: Final = f"{_TESTS}/test_format_3.py"

MUTANTS: Final = (
    Mutant(
        "the text of a plain row is taken for a value that it leaves out",
        "layers/core/python/firn/changes/decode/row_decoder.py",
        "else ((), nulls)",
        "else (left_out, nulls)",
        (
            f"{_TESTS}/test_rows.py::test_the_text_of_a_row_is_never_that_of_another_which_is_deleted_at_its_place[driver]",
        ),
    ),
    Mutant(
        "a patch is decoded by columns as a whole row",
        f"{_SPARK}/staged/columnar.py",
        "rows = pc.and_not(rows, patches)",
        "",
        (_PATCHES,),
    ),
    Mutant(
        "a null in a column that is not there yet is forgotten",
        "layers/core/python/firn/changes/decode/row_decoder.py",
        "return (OTHERS_LEFT_OUT, *absent), nulls",
        "return (OTHERS_LEFT_OUT, *absent), []",
        (f"{_TESTS}/test_patches.py::test_a_null_counts_in_a_column_that_has_had_no_value_yet[driver]",),
    ),
    Mutant(
        "the look-up's bounds leave out rows whose key is null",
        f"{_FILES}/row_lookup.py",
        "len(some) and not some.null_count:",
        "len(some):",
        (f"{_TESTS}/test_commit.py::test_null_is_a_key_like_another",),
    ),
    Mutant(
        "a prefix is taken for the end of what begins with it",
        f"{_FILES}/row_lookup.py",
        "high + _ABOVE",
        "high",
        (
            f"{_TESTS}/test_commit.py"
            "::test_the_second_half_of_a_move_finds_the_first_in_files_that_tell_their_bounds_exactly[driver]",
        ),
    ),
    Mutant(
        "the deletes of moves that are remembered are not looked up",
        f"{_MERGE}/delete_memory.py",
        "(*positions, *(one.position for one in creates))",
        "positions",
        (f"{_RANGES}[moving-t-merge-on-read-1-driver]",),
    ),
    Mutant(
        "which of several equal rows counts, few of their columns tell",
        f"{_MERGE}/key_lookup.py",
        "return self.rows(keys, None)",
        "pass",
        (
            f"{_TESTS}/test_doubled_keys.py::test_which_of_equal_rows_counts_does_not_hang_on_what_else_changes[alone-driver]",
        ),
    ),
    Mutant(
        "a rewrite brings back what was deleted meanwhile",
        f"{_SPARK}/maintenance/concurrent_commits.py",
        "if not named.isdisjoint(paths):",
        "if named > set(paths):",
        (f"{_COMPACTION_TESTS}::test_a_row_that_is_deleted_while_its_file_is_written_anew_stays_deleted",),
    ),
    Mutant(
        "a rewrite takes away deletes of files that stay",
        f"{_SPARK}/maintenance/log_retention.py",
        "if live.isdisjoint(named[one]):",
        "if not live.issuperset(named[one]):",
        (f"{_COMPACTION_TESTS}::test_deletes_of_files_that_stay_stay_and_name_only_those",),
    ),
    Mutant(
        "what a rewrite wrote is removed where its outcome is not known",
        f"{_SPARK}/maintenance/compaction.py",
        """        except LostRace:
            for file in added:
""",
        """        except Exception:
            for file in added:
""",
        (f"{_COMPACTION_TESTS}::test_a_rewrite_that_was_not_committed_leaves_the_table_as_it_was[unknown]",),
    ),
    Mutant(
        "a rewrite of manifests gives rows new ids",
        f"{_SPARK}/maintenance/manifests.py",
        "if table.state.version < _LINEAGE and table.unreadable is None:",
        "if table.unreadable is None:",
        (
            "tests/integration/spark/test_manifests.py"
            "::test_small_manifests_become_few_and_nothing_else_changes[lineage]",
        ),
    ),
    Mutant(
        "the driver finds rows that are deleted",
        f"{_SPARK}/files/row_lookup.py",
        "chosen = left(pa.array(_places(wanted, held), pa.int64()), first, gone)",
        "chosen = pa.array(_places(wanted, held), pa.int64())",
        (f"{_TESTS}/test_commit.py::test_a_row_that_another_tool_deleted_is_not_found",),
    ),
    Mutant(
        "the driver finds rows that are deleted, by columns",
        f"{_SPARK}/files/row_lookup.py",
        "places = left(pa.array([], pa.int64()) if places is None else places, first, gone)",
        "places = pa.array([], pa.int64()) if places is None else places",
        (f"{_TESTS}/test_commit.py::test_a_row_that_another_tool_deleted_is_not_found",),
    ),
    Mutant(
        "by columns a change counts that is older than its row",
        f"{_SPARK}/files/row_group.py",
        "bytes(told.max) < low",
        "True",
        (f"{_TESTS}/test_commit.py::test_older_changes_and_deletes_lose_against_newer_rows",),
    ),
    Mutant(
        "by columns a change counts that is older than a delete",
        f"{_MERGE}/delete_memory.py",
        'late = pc.fill_null(pc.greater(both["_fact"], both["_order"]), False)',
        'late = pc.fill_null(pc.less(both["_fact"], both["_order"]), False)',
        (f"{_TESTS}/test_must_hold.py::test_a_first_epoch_of_only_deletes_is_remembered",),
    ),
    Mutant(
        "by columns a change is left out that tells what a newer row holds",
        f"{_MERGE}/columnar_merge.py",
        "pc.and_(pc.fill_null(last[HOLDS], False), pc.invert(newer))",
        "pc.and_(pc.is_null(last[HOLDS]), pc.invert(newer))",
        (_DECISION,),
    ),
    Mutant(
        "by columns a key is decided that a move reaches",
        f"{_MERGE}/decision.py",
        "if not (memory.said.creates or changes.seen.creates_unavailable):",
        "if memory.said.creates or changes.seen.creates_unavailable:",
        (_MIXED,),
    ),
    Mutant(
        "the plain changes of a key that is decided one by one are lost",
        f"{_MERGE}/decision.py",
        "rows = [*rows, *by_columns.rows_of(left, decoding, changes.source)]",
        "by_columns.rows_of(left, decoding, changes.source)",
        (_MIXED,),
    ),
    Mutant(
        "by columns a key is decided of which something newer is remembered",
        f"{_MERGE}/decision.py",
        "one_by_one = [apart.keys, moving, known, ",
        "one_by_one = [apart.keys, moving, ",
        (_DECISION,),
    ),
    Mutant(
        "by columns a key is decided of which an update lacks values",
        f"{_MERGE}/decision.py",
        ", known, gaps.select(known.column_names)]",
        ", known]",
        (_DECISION,),
    ),
    Mutant(
        "an update that lacks values counts from before its key was written whole",
        f"{_MERGE}/columnar_merge.py",
        'both["_row"].filter(pc.less(both["_ord"], both["_last"]))',
        'both["_row"].filter(pc.greater(both["_ord"], both["_last"]))',
        (_DECISION,),
    ),
    Mutant(
        "by columns a key is decided that may lose values by a truncate",
        f"{_MERGE}/decision.py",
        "keys.union(emptied.others)",
        "keys",
        (_DECISION,),
    ),
    Mutant(
        "a slice decides what other keys are connected to",
        f"{_MERGE}/decision.py",
        "pa.concat_tables([apart.keys, apart.moves.among(decoding, whole, gaps)])",
        "apart.keys",
        (_DECISION,),
    ),
    Mutant(
        "a slice forgets what it finds too old",
        f"{_MERGE}/decision.py",
        "left = pa.concat_tables([left, mine.filter(others)])",
        "pass",
        (_DECISION,),
    ),
    Mutant(
        "a slice decides what only the log can tell",
        f"{_MERGE}/decision.py",
        "{*decided.decided.too_old, *decided.found.before.linked}",
        "{*decided.decided.too_old}",
        (_DECISION,),
    ),
    Mutant(
        "a slice decides by columns what a truncate of one of several source tables met",
        f"{_MERGE}/decision.py",
        "if rules.one_by_one else (whole, gaps)",
        "if not rules else (whole, gaps)",
        (_DECISION,),
    ),
    Mutant(
        "a truncate removes the rows of other source tables",
        f"{_MERGE}/key_lookup.py",
        "if not are_several((*sources, *newest)):",
        "if sources:",
        (f"{_RANGES}[two-ab-merge-on-read-1-driver]",),
    ),
    Mutant(
        "a delete without a position is remembered",
        f"{_MERGE}/columnar_merge.py",
        'good.filter(pc.and_(pc.equal(good["_op"], "d"), column_decoder.are_placed(good["_ord"])))',
        'good.filter(pc.equal(good["_op"], "d"))',
        (f"{_TESTS}/test_truncates.py::test_a_delete_without_a_position_removes_and_is_not_remembered[driver]",),
    ),
    Mutant(
        "what has no position outlives a truncate",
        "layers/core/python/firn/changes/merge/decide.py",
        "min((change.order for change in (*changes, *truncates)), default",
        "min((change.order for change in placed), default",
        (f"{_SEVERAL}[driver]",),
    ),
    Mutant(
        "a text that Iceberg reads as null is in the partition of nulls",
        f"{_FILES}/write.py",
        "elif text == partition_values.NULL:",
        "elif text is None:",
        (
            f"{_TESTS}/test_partitioning.py"
            "::test_the_text_that_means_null_in_a_path_is_a_value_of_its_own_and_no_dead_letter_is_left_uncounted",
        ),
    ),
    Mutant(
        "of a key that others wrote several rows of, the others stay",
        f"{_MERGE}/mirror_commit.py",
        "for one in found.spare",
        "for one in ()",
        (f"{_TESTS}/test_doubled_keys.py::test_of_a_key_that_a_change_decides_one_row_is_left[merge-on-read-driver]",),
    ),
    Mutant(
        "of several rows of a key the one that is read last counts",
        f"{_MERGE}/key_lookup.py",
        "sorted(range(len(rows)), key=weight)",
        "range(len(rows))",
        ("tests/unit/spark/test_key_lookup.py::test_the_newest_row_of_a_key_counts_whatever_the_order_of_the_files",),
    ),
    Mutant(
        "files are written again with rows that were deleted before",
        f"{_FILES}/copy_on_write.py",
        "removed = pa.concat_arrays([file.gone, *(one for one in told if one is not None)])",
        "removed = file.gone",
        (
            f"{_TESTS}/test_partitioning.py"
            "::test_a_table_that_is_copy_on_write_from_now_on_loses_what_it_had_deleted_before[driver]",
        ),
    ),
    Mutant(
        "what comes before a truncate is written after it",
        f"{_MERGE}/columnar_merge.py",
        "    if emptied:\n",
        "    if False:\n",
        (_DECISION,),
    ),
    Mutant(
        "rows that a truncate leaves keep the values from before it",
        f"{_MERGE}/key_lookup.py",
        "return Emptied(*up_to(files, row_lookup.ids_of(self.table), POSITION, highs))",
        "return Emptied(up_to(files, row_lookup.ids_of(self.table), POSITION, highs)[0], ())",
        (
            f"{_TESTS}/test_mixed_ranges.py::test_a_truncate_takes_the_values_that_a_newer_row_had_from_before_it[driver]",
        ),
    ),
    Mutant(
        "slices append what is there twice",
        f"{_SPARK}/slices/appending.py",
        "new = append_columns.once(mine.take(pc.sort_indices(mine[_AT])))",
        "new = mine",
        (f"{_TESTS}/test_appending.py::test_a_change_that_comes_twice_in_one_range_is_one_row[slices]",),
    ),
    Mutant(
        "slices do not look for what the table has",
        f"{_SPARK}/slices/appending.py",
        "        new = append_commit.not_in(new, replace(files, wanted=some), work.ids)\n",
        "        pass\n",
        (f"{_TESTS}/test_appending.py::test_a_change_that_comes_twice_in_one_range_is_one_row[slices]",),
    ),
    Mutant(
        "a key that begins a slice is in the one before",
        f"{_SPARK}/slices/key_ranges.py",
        "bounds.append_column(_BOUND, pa.repeat(0, len(bounds)))",
        "bounds.append_column(_BOUND, pa.repeat(2, len(bounds)))",
        ("tests/unit/spark/test_key_ranges.py::test_each_key_is_in_one_slice_and_slices_are_ranges[11-kinds0]",),
    ),
    Mutant(
        "slices begin in no order",
        f"{_SPARK}/slices/key_ranges.py",
        "return _sorted(keys.take(pa.array(places, pa.int64())).group_by(sample.column_names).aggregate([]))",
        "return keys.take(pa.array(places, pa.int64())).group_by(sample.column_names).aggregate([])",
        ("tests/unit/spark/test_key_ranges.py::test_bounds_of_many_keys_rise_and_a_plan_by_others_is_refused[int64]",),
    ),
    Mutant(
        "what tasks have decoded of a table of several shards stays with them",
        f"{_SPARK}/slices/decoding.py",
        "pa.concat_tables([seen.plain, *map(table_of, _bodies(rows, PLAIN))])",
        "seen.plain",
        (f"{_TESTS}/test_shards_in_homes.py::test_what_this_process_can_not_read_the_tasks_do",),
    ),
    Mutant(
        "of a table of several shards what is not plain is lost in tasks",
        f"{_SPARK}/slices/slice_engine.py",
        "changes = Changes(plain_in(read.parts.rows, some), some.odd.to_pylist(),",
        "changes = Changes(plain_in(read.parts.rows, some), [],",
        (f"{_TESTS}/test_shards_in_homes.py::test_both_homes_bring_each_shard_to_the_same_at_each_cut[1]",),
    ),
    Mutant(
        "of an object with several tables each has the changes of the first",
        f"{_SPARK}/driver/staged_changes.py",
        "held.slice(first, rows)",
        "held.slice(0, rows)",
        ("tests/unit/spark/test_readers.py::test_changes_of_each_table_are_held_as_they_were_staged",),
    ),
    Mutant(
        "a slice does not look at what is remembered",
        f"{_SPARK}/slices/work.py",
        "if self.mine.facts is None or not len(orders):",
        "if self.mine.facts is None or len(orders):",
        (f"{_TESTS}/test_mixed_ranges.py::test_what_is_late_or_lacks_values_is_decided_by_the_slices",),
    ),
    Mutant(
        "the deletes of slices are not remembered",
        f"{_SPARK}/slices/slice_engine.py",
        "more, *told_of, done.facts)",
        "more, *told_of, ())",
        (_SLICES,),
    ),
    Mutant(
        "what slices leave to be decided one by one is lost",
        f"{_SPARK}/slices/slice_engine.py",
        "rows = [*changes.good, *by_columns.rows_of(done.left, decoding, changes.source)]",
        "rows = list(changes.good)",
        (_SLICES,),
    ),
    Mutant(
        "dead letters that a try wrote before it failed are not counted as new",
        f"{_SPARK}/committer.py",
        "outcome.dead_new = together(self._buried.pop(target.name, {}), outcome.dead_new)",
        "self._buried.pop(target.name, {})",
        (f"{_TESTS}/test_mixed_ranges.py::test_dead_letters_are_new_once_whichever_way_a_table_goes_in_the_end",),
    ),
    Mutant(
        "the driver commits what it has not remembered the deletes of",
        f"{_DRIVER}/engine.py",
        """            remembered = pool.submit(memory.write_facts, plan, *told) if ready.newest else None
""",
        """            remembered = None
""",
        (f"{_TESTS}/test_commit.py::test_a_job_that_dies_after_its_commit_has_remembered_its_deletes",),
    ),
    Mutant(
        "the driver forgets a truncate with its epoch",
        f"{_SPARK}/merge/key_lookup.py",
        "memory.said.creates, memory.said.truncated, files,",
        'memory.said.creates, b"", files,',
        (_MIXED,),
    ),
    Mutant(
        "the driver appends again what the table has",
        f"{_MERGE}/append_commit.py",
        "return append_columns.without(mine, there.combine_chunks())",
        "return mine",
        (f"{_TESTS}/test_lake_contract.py::test_contract[an_append_table_takes_each_event_once-driver]",),
    ),
    Mutant(
        "the driver does not look for the first identities of an older table",
        "spark_emr/firn_spark/table_commit.py",
        "state is not None and stream in state.first_identity",
        "False",
        (f"{_OLDER}[driver]",),
    ),
    Mutant(
        "the driver takes a change that comes again for one of the raised generation",
        "spark_emr/firn_spark/ranges.py",
        "        if not kept and kept is not None:",
        "        if found is not None:",
        (
            f"{_TESTS}/test_lake_contract.py::test_contract"
            "[a_change_that_comes_again_after_the_generation_was_raised_keeps_its_own-driver]",
        ),
    ),
    Mutant(
        "what is folded again is folded with the source tables of its range alone",
        "layers/core/python/firn/tables/routing.py",
        "return replace(target, sources=sources, names={**target.names, **bare})",
        "return target",
        (
            f"{_TESTS}/test_specification.py"
            "::test_what_one_source_table_tells_late_is_folded_with_what_the_others_told[driver]",
        ),
    ),
    Mutant(
        "the log's events of a source table that they name without schema are another table's",
        "layers/core/python/firn/tables/routing.py",
        "names={**target.names, **bare}",
        "names=target.names",
        (
            f"{_TESTS}/test_specification.py"
            "::test_the_log_tells_whole_names_of_source_tables_that_its_events_name_without_schema[driver]",
        ),
    ),
    Mutant(
        "an epoch that is held is read again out of the log",
        "layers/core/python/firn/log/holds.py",
        "return n in self.epochs or any(",
        "return any(",
        (f"{_TESTS}/test_specification.py::test_an_epoch_that_is_held_is_not_looked_up_in_the_log_either[driver]",),
    ),
    Mutant(
        "what the driver rejects gives a column another type",
        f"{_DRIVER}/engine.py",
        "return decoded_rows.why_of(changes.bad)",
        "return {}",
        (
            "tests/integration/spark/test_lake_contract.py::"
            "test_contract[a_dead_letter_gives_no_column_another_type_and_makes_none-driver]",
        ),
    ),
    Mutant(
        "what slices reject gives a column another type",
        f"{_SPARK}/slices/slice_engine.py",
        "return decoded_rows.why_of(read.changes.bad)",
        "return {}",
        (
            "tests/integration/spark/test_lake_contract.py::"
            "test_contract[a_dead_letter_gives_no_column_another_type_and_makes_none-slices]",
        ),
    ),
    Mutant(
        "over REST snapshots go although main has moved since",
        "spark_emr/firn_spark/tables/fence.py",
        """        mark.set(name, value)
    answers_java(spark.sparkContext._gateway)
    mark.validateWith(_Stands(table.state.snapshot_id))
""",
        """        mark.set(name, value)
""",
        ("tests/integration/spark/test_expiry_rest.py::test_a_commit_that_comes_between_is_no_loss",),
    ),
    Mutant(
        "a tag of Firn's moves no main over REST",
        "layers/lake/python/firn_lake/refs/names.py",
        "moves = holds and name != MAIN and _by_rest(table)",
        "moves = False",
        (
            "tests/integration/spark/test_expiry_rest.py"
            "::test_what_is_named_while_an_expiry_decides_stays_with_its_name[a cut that is kept]",
        ),
    ),
    Mutant(
        "a new deletion vector forgets the rows of the one before",
        f"{_SPARK}/tables/removals.py",
        "*(self._rows[one].get(path, none) for one in files)])",
        "*(none for one in files)])",
        (f"{_FORMAT_3}::test_a_data_file_has_one_vector_whatever_leaves_it[driver]",),
    ),
    Mutant(
        "a deletion vector stays beside the new one",
        f"{_SPARK}/tables/row_delta.py",
        "    for file in removed.replaced:\n        update.removeDeletes(file)\n    if snapshot is not None:\n",
        "    if snapshot is not None:\n",
        (f"{_FORMAT_3}::test_a_data_file_has_one_vector_whatever_leaves_it[driver]",),
    ),
    Mutant(
        "a commit may leave a deletion vector beside another",
        f"{_SPARK}/tables/removals.py",
        "if left := sorted(set(there) - self.taken):",
        "if left := sorted(set(there) & self.taken - self.taken):",
        (f"{_FORMAT_3}::test_what_a_removal_does_not_take_is_named",),
    ),
    Mutant(
        "copy-on-write takes the deletes that its look-up was told of",
        f"{_FILES}/copy_on_write.py",
        "deletes.tasks_of(table, gone):\n        file, told = task.file(), list(elements(task.deletes()))\n",
        "deletes.files_of(table, gone):\n        file, told = task.java, list(elements(task.deletes))\n",
        (
            f"{_TESTS}/test_foreign_files.py"
            "::test_what_others_deleted_by_keys_that_no_change_has_stays_deleted[write: copy-on-write-driver]",
        ),
    ),
    Mutant(
        "the last key before a gap is not looked for",
        f"{_FILES}/key_intervals.py",
        "values[end - 1]",
        "values[max(first, end - 2)]",
        ("tests/unit/spark/test_key_intervals.py::test_the_widest_gaps_are_left_out",),
    ),
    Mutant(
        "the slices of the ends are not as wide as their keys",
        f"{_SPARK}/slices/key_ranges.py",
        "zip([least, *values], [*values, greatest], strict=True)",
        "zip([least, *values], [*values, least], strict=True)",
        ("tests/unit/spark/test_key_ranges.py::test_each_key_is_in_one_slice_and_slices_are_ranges[18-kinds0]",),
    ),
    Mutant(
        "a data file is taken for what it was in another snapshot",
        f"{_SPARK}/tables/planned_files.py",
        "self._kept.get((snapshot, path))",
        "next((file for (_, known), file in self._kept.items() if known == path), None)",
        ("tests/unit/spark/test_planned_files.py::test_a_data_file_is_what_it_was_in_the_snapshot_that_was_looked_at",),
    ),
    Mutant(
        "vectors that came after the look-up are no hindrance",
        f"{_SPARK}/tables/removals.py",
        "if self.vectors and self.snapshot != since:",
        "if not self.vectors and self.snapshot != since:",
        (f"{_FORMAT_3}::test_what_a_removal_does_not_take_is_named",),
    ),
    Mutant(
        "rows that are written again get new ids",
        f"{_SPARK}/files/row_lineage.py",
        "if table.state.version > OLDEST_FORMAT else layout",
        "if table.state.version < OLDEST_FORMAT else layout",
        (f"{_FORMAT_3}::test_rows_that_are_written_again_keep_their_ids_and_their_vectors_go[small files]",),
    ),
    Mutant(
        "rows that are written again lose the default of a column that their file lacks",
        f"{_FILES}/copy_on_write.py",
        "else values.lacking(len(places), field)",
        "else values.nothing(len(places), field)",
        (
            f"{_TESTS}/test_defaults.py"
            "::test_small_files_become_one_with_the_defaults_of_columns_and_of_parts_of_structs",
        ),
    ),
    Mutant(
        "new rows have no default in columns that no stream writes",
        f"{_FILES}/values.py",
        "return pa.chunked_array([both.take(pc.if_else(told, numbers, pc.add(numbers, len(column))))])",
        "return column",
        ("tests/unit/spark/test_file_defaults.py::test_rows_that_are_told_keep_what_they_have",),
    ),
)
