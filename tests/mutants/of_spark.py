"""Mistakes that only Spark and Iceberg show: ranges go to Spark's tasks in these runs, the driver takes none."""

from typing import Final

from tests.mutants.copy import Mutant

_SPARK: Final = "spark_emr/firn_spark"
_TESTS: Final = "tests/integration/spark"
_OLDER: Final = (
    f"{_TESTS}/test_appending.py"
    "::test_an_append_table_from_before_takes_nothing_twice_and_from_then_on_no_two_changes_for_one"
)
_REBUILD: Final = f"{_TESTS}/test_appending.py::test_a_rebuild_leaves_an_append_table_from_before_what_it_is_asked_by"
_ALTERED: Final = (
    f"{_TESTS}/test_paused_committers.py::test_a_committer_that_sleeps_over_an_alteration_lands_nothing_wrong"
)
_FOREIGN: Final = f"{_TESTS}/test_foreign_files.py::test_they_come_sorted_by_whatever_partitions_them"
_ANOTHER: Final = f"{_TESTS}/test_catalogs.py::test_a_commit_on_a_table_that_is_another_by_now_is_refused"

MUTANTS: Final = (
    Mutant(
        "dead letters lack the schema of their change",
        f"{_SPARK}/slices/slice_engine.py",
        "schemas = schemas_in(self._raw, ids)",
        "schemas = schemas_in(self._raw, ())",
        ("tests/attacks/test_poison.py::test_a_letter_keeps_the_schema_that_says_how_its_row_is_read[slices]",),
    ),
    Mutant(
        "slices remember deletes after the commit that makes them",
        f"{_SPARK}/slices/slice_engine.py",
        "memory.write_facts(one.plan, {}, more,",
        "land(one, ready, written)\n                memory.write_facts(one.plan, {}, more,",
        (f"{_TESTS}/test_commit.py::test_a_job_that_dies_after_its_commit_has_remembered_its_deletes",),
    ),
    Mutant(
        "a truncate counts in its own epoch only",
        f"{_SPARK}/merge/decision.py",
        "return max([remembered, *(one.order for one in self.truncates)])",
        'return max([b"", *(one.order for one in self.truncates)])',
        (f"{_TESTS}/test_must_hold.py::test_a_truncate_between_epochs_counts_for_rows_that_come_later",),
    ),
    Mutant(
        "data files are rewritten with rows that another writer deleted meanwhile",
        f"{_SPARK}/tables/row_delta.py",
        "    update = update.validateNoConflictingData().validateNoConflictingDeletes()\n",
        "",
        (
            f"{_TESTS}/test_merge_reference.py::test_files_that_lost_rows_to_another_writer_meanwhile_are_not_rewritten_with_them[merge-on-read]",
        ),
    ),
    Mutant(
        "the job reads what is staged instead of what the epoch lists",
        f"{_SPARK}/ranges.py",
        "batches = batches_of(sealed.epochs, log)",
        "from firn.log import layout, store\n"
        "        found = enumerate(store.listing(self._store, layout.staged_prefix(sealed.settings.name)))\n"
        "        last = context.last\n"
        "        batches = [SealedBatch(last, at, layout.batch_of(path), path, size) for at, (path, size) in found]",
        (f"{_TESTS}/test_commit.py::test_a_rerun_changes_nothing_and_a_range_that_overlaps_takes_only_what_is_new",),
    ),
    Mutant(
        "the fence compares nothing",
        f"{_SPARK}/tables/fence.py",
        "return not self._why",
        "return True",
        (f"{_TESTS}/test_commit.py::test_a_twin_that_appends_the_same_epoch_is_refused_by_the_fence",),
    ),
    Mutant(
        "the fence looks for no marks",
        f"{_SPARK}/tables/fence.py",
        "if now.basis != before.basis:",
        "if replace(now.basis, altered=before.basis.altered) != before.basis:",
        (f"{_ALTERED}[retype-append-later-slices]",),
    ),
    Mutant(
        "the fence takes a table of another mode or key",
        f"{_SPARK}/tables/fence.py",
        "if table.branch is not None:  # its properties",
        "if True:  # its properties",
        (f"{_ANOTHER}[rest-of another key]",),
    ),
    Mutant(
        "that a table was made again is no reason to look again",
        f"{_SPARK}/tables/fence.py",
        '    | {f"{_ERRORS}.NoSuchTableException", "java.lang.IllegalStateException"}\n',
        "",
        (f"{_ANOTHER}[rest-made again]",),
    ),
    Mutant(
        "an alteration leaves no mark",
        f"{_SPARK}/tables/fence.py",
        '{"firn.format": "1", **told, **main.basis.next().summary()}',
        '{"firn.format": "1", **main.basis.summary()}',
        (
            f"{_TESTS}/test_lake_contract.py::test_contract[a_renamed_column_keeps_its_values_and_the_table_is_marked-slices]",
        ),
    ),
    Mutant(
        "the UPDATE of a retype has a file open for each partition",
        f"{_SPARK}/tables/retype.py",
        '{FANOUT: "false"}',
        "{}",
        ("tests/attacks/test_partitions.py::test_a_small_driver_commits_to_any_number_of_partitions[]",),
    ),
    Mutant(
        "zeroes of both signs are one partition",
        f"{_SPARK}/tables/writing.py",
        '.cast("string") if kind in ("float", "double") else',
        " if kind is None else",
        (f"{_FOREIGN}[x-driver]",),
    ),
    Mutant(
        "a UUID is sorted by the bucket of its text",
        f"{_SPARK}/tables/writing.py",
        'if kind == "uuid" else value',
        "if kind is None else value",
        (f"{_FOREIGN}['bucket(5, u)'-driver]",),
    ),
    Mutant(
        "the swap of a retype does not look whether the UPDATE's snapshot is the newest",
        f"{_SPARK}/tables/retype.py",
        "if name in table.state.ancestry[0]:",
        "if name:",
        (f"{_TESTS}/test_paused_committers.py::test_a_row_that_lands_after_the_update_of_a_retype_is_converted_too",),
    ),
    Mutant(
        "an alteration is committed whatever came since its table was looked at",
        f"{_SPARK}/tables/fence.py",
        "mark.validateWith(_Stands(main.snapshot_id))",
        "_Stands(main.snapshot_id)",
        (f"{_TESTS}/test_catalogs.py::test_a_commit_that_comes_between_refuses_an_alteration[rest-begun]",),
    ),
    Mutant(
        "what is dropped after the epochs were chosen is made of these alone",
        f"{_SPARK}/committer.py",
        "self._seen = dict(context.seen)",
        "self._seen = dict[TableName, int]()",
        (
            f"{_TESTS}/test_lake_contract.py::test_contract"
            "[a_table_that_is_dropped_while_a_job_is_at_it_is_not_made_of_what_is_new_alone-driver]",
        ),
    ),
    Mutant(
        "what was set back is committed to by the next try",
        f"{_SPARK}/committer.py",
        "if progress < self._seen.setdefault(target.name, progress):",
        "if progress < 0:",
        (
            f"{_TESTS}/test_paused_committers.py::test_a_committer_that_sleeps_while_its_table_is_made_again_starts_over_or_fails[later]",
        ),
    ),
    Mutant(
        "files of a commit whose outcome is unknown are deleted",
        f"{_SPARK}/tables/fence.py",
        'if kind == f"{_ERRORS}.CommitStateUnknownException":\n',
        'if kind == f"{_ERRORS}.CommitStateUnknownException":\n'
        "            for file in files:\n"
        "                table.java.io().deleteFile(file.location())\n",
        (f"{_TESTS}/test_commit.py::test_files_of_a_commit_whose_answer_was_lost_are_left_alone",),
    ),
    Mutant(
        "a rebuild that was begun tells an older table that it holds no first identities",
        f"{_SPARK}/table_commit.py",
        "wanted |= {} if self.planned.mode.keyed or table.branch is not None else table.state.identities",
        "wanted |= {} if self.planned.mode.keyed else table.state.identities",
        (f"{_REBUILD}[slices]",),
    ),
    Mutant(
        "decoding by columns misses that a key changed",
        f"{_SPARK}/staged/columnar.py",
        "odd.update(_places(pc.invert(pc.fill_null(same, False))).to_pylist())",
        "odd.difference_update(_places(pc.invert(pc.fill_null(same, False))).to_pylist())",
        ("tests/property/test_columnar.py::test_a_key_that_changes_among_keys_that_do_not_is_a_move",),
    ),
    Mutant(
        "objects are put together however large they are",
        f"{_SPARK}/staged/read.py",
        "or size > _BYTES",
        "or size > 2**60",
        (
            "tests/unit/spark/test_read.py"
            "::test_small_objects_are_put_together_up_to_some_bytes_and_never_with_those_of_another_epoch",
        ),
    ),
    Mutant(
        "objects of two generations are put together",
        f"{_SPARK}/staged/read.py",
        "(mine.epoch, mine.generation) == (its.epoch, its.generation)",
        "mine.epoch == its.epoch",
        (
            "tests/property/test_staged_columns.py::test_equal_changes_of_two_requests_and_of_two_generations_are_told_apart_together_too",
        ),
    ),
    Mutant(
        "equal changes of requests that are read together count each other",
        f"{_SPARK}/staged/placing.py",
        "zip(sizes, ends, strict=True)",
        "[(len(hashes), len(hashes))]",
        (
            "tests/property/test_staged_columns.py::test_equal_changes_of_two_requests_and_of_two_generations_are_told_apart_together_too",
        ),
    ),
    Mutant(
        "a truncate among changes of several tables tells of its table",
        f"{_SPARK}/staged/facts.py",
        "if pc.any(truncates).as_py() else told",
        "if False else told",
        ("tests/property/test_staged_columns.py::test_what_is_usual_never_goes_row_by_row",),
    ),
    Mutant(
        "placing by columns leaves the record's key out of what tells changes apart",
        f"{_SPARK}/staged/placing.py",
        'pc.if_else(bare, key, "")',
        'pc.if_else(bare, "", "")',
        ("tests/property/test_staged_columns.py::test_each_change_is_placed_as_it_is_alone",),
    ),
    Mutant(
        "decoding by columns takes an unavailable value at its word",
        f"{_SPARK}/staged/columnar.py",
        "if trace in lines:",
        "if trace == lines:",
        ("tests/property/test_columnar.py::test_every_corpus_in_every_encoding_is_the_same_both_ways[plain]",),
    ),
    Mutant(
        "decoding by columns keeps a timestamp that no table can hold",
        f"{_SPARK}/staged/vectors.py",
        "return numbers.cast(target) if first <= low and high <= last else None",
        "return numbers.cast(target) if low <= high else None",
        ("tests/property/test_columnar.py::test_a_column_of_one_class_is_what_its_cells_are",),
    ),
    Mutant(
        "a floor is raised among the versions of rows",
        f"{_SPARK}/maintenance/delete_memory_expiry.py",
        'if facts.state.properties.get(BY_NUMBER) == "true":',
        'if facts.state.properties.get(BY_NUMBER) == "never":',
        (f"{_TESTS}/test_orders.py::test_a_new_row_is_never_too_old_by_a_counter_of_another[slices]",),
    ),
    Mutant(
        "a change that comes again is taken for one of the raised generation",
        f"{_SPARK}/staged/kept_generations.py",
        "replace(order, kept=kept), whole=whole) if kept else raw",
        "replace(order, kept={}), whole=whole) if kept else raw",
        (
            f"{_TESTS}/test_lake_contract.py::test_contract"
            "[a_change_that_comes_again_after_the_generation_was_raised_keeps_its_own-slices]",
        ),
    ),
)
