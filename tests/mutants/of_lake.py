"""Mistakes in what is written to tables outside Spark, and on the way from a table to who reads it."""

from typing import Final

from tests.mutants.copy import Mutant

_LAKE: Final = "layers/lake/python/firn_lake"
_TESTS: Final = "tests/unit/lake"
_PUSHDOWN: Final = f"{_TESTS}/test_pushdown.py"
_FRESH: Final = f"{_TESTS}/test_fresh.py"
_WORKER: Final = "tests/unit/functions/test_query_process.py"
_RANGE: Final = "SELECT range(100_000_000) AS x-400 MB of memory"
_MORE: Final = '("ratio" > 1.0::DOUBLE)'

MUTANTS: Final = (
    Mutant(
        "deletes that came with their data files are not read",
        f"{_LAKE}/reading/manifests.py",
        "deletes and self._least is not None and (manifest.sequence_number or 0) >= self._least",
        "deletes and self._least is not None and (manifest.sequence_number or 0) > self._least",
        (f"{_TESTS}/test_manifest_plan.py::test_deletes_that_came_with_their_file_are_looked_for",),
    ),
    Mutant(
        "a partition that is left out in one spec is left out in all",
        f"{_LAKE}/reading/manifests.py",
        "        key = spec, *partition._data\n",
        "        key = 0, *partition._data\n",
        (f"{_TESTS}/test_manifest_plan.py::test_partitions_of_two_specs_are_two",),
    ),
    Mutant(
        "main of a fed table is set back, and its progress with it",
        f"{_LAKE}/refs/rollback.py",
        "        if not is_firns(table.metadata):\n",
        "        if table.metadata.refs:\n",
        (f"{_TESTS}/test_rollback.py::test_rows_of_a_fed_table_come_back_and_its_progress_stays",),
    ),
    Mutant(
        "a rollback brings back rows that were deleted before",
        f"{_LAKE}/refs/rollback.py",
        "kept.read(part.file, part.gone, part.only, changed=True)",
        "kept.read(part.file, changed=True)",
        (f"{_TESTS}/test_rollback.py::test_rows_of_a_fed_table_come_back_and_its_progress_stays",),
    ),
    Mutant(
        "PyIceberg commits again on a version that nobody looked at",
        f"{_LAKE}/writing/commit.py",
        "    transaction._snapshot_producers.clear()  # with them PyIceberg would try again on a newer version\n",
        "",
        (f"{_TESTS}/test_writes.py::test_the_same_write_by_two_at_once_is_done_once",),
    ),
    Mutant(
        "files are removed though their commit may be in the table",
        f"{_LAKE}/writing/writes.py",
        "    except UnknownOutcome:\n        raise\n",
        "",
        (f"{_TESTS}/test_writes.py::test_a_lost_answer_leaves_the_files_and_the_same_id_finds_out",),
    ),
    Mutant(
        "an upsert writes rows again that are deleted by position",
        f"{_LAKE}/writing/upsert.py",
        "rows = _without(kept.read(task.file, gone), out)",
        "rows = _without(kept.read(task.file), out)",
        (f"{_TESTS}/test_sync.py::test_rows_deleted_by_position_do_not_come_back",),
    ),
    Mutant(
        "what PyIceberg does not know of a metadata file is lost",
        f"{_LAKE}/catalogs/metadata_writer.py",
        "        after = merged(json.loads(text), dumped(TableMetadataUtil.parse_raw(text)), after)\n",
        "",
        (f"{_TESTS}/test_metadata_writer.py::test_with_snapshots_that_expire_goes_what_is_theirs_alone",),
    ),
    Mutant(
        "two snapshots give their rows the same ids",
        f"{_LAKE}/catalogs/metadata_writer.py",
        "    if any((one.sequence_number or 0) < there.next_sequence_number() for one in snapshots):\n",
        "    if False:\n",
        (f"{_TESTS}/test_metadata_writer.py::test_a_snapshot_of_another_branch_that_came_first_has_the_row_ids",),
    ),
    Mutant(
        "a commit of a clock that is behind leaves a table that Spark can't read",
        f"{_LAKE}/catalogs/metadata_writer.py",
        "    if after.last_updated_ms < last - _SKEW:\n",
        "    if False:\n",
        (f"{_TESTS}/test_metadata_writer.py::test_a_clock_that_is_behind_writes_nothing_that_spark_can_not_read[3]",),
    ),
    Mutant(
        "after an expiry a time means a snapshot from before what went",
        f"{_LAKE}/catalogs/metadata_writer.py",
        '"snapshot_log": after.snapshot_log[before:], ',
        "",
        (f"{_TESTS}/test_refs_expiry.py::test_no_time_means_a_snapshot_from_before_those_that_went",),
    ),
    Mutant(
        "an expiry drops a tag that was set meanwhile on what goes",
        f"{_LAKE}/catalogs/metadata_writer.py",
        "        if ref.snapshot_id in gone and name not in dropped:  # PyIceberg would drop it\n",
        "        if False:\n",
        (f"{_TESTS}/test_refs_expiry.py::test_a_tag_that_is_set_meanwhile_on_what_goes_is_kept",),
    ),
    Mutant(
        "a row that is written again twice is another row",
        f"{_LAKE}/writing/kept_rows.py",
        "ids = pc.coalesce(ids, pc.add(here, first))",
        "ids = pc.add(here, first)",
        (f"{_TESTS}/test_kept_rows.py::test_rows_beside_those_that_are_replaced_stay_the_rows_they_were",),
    ),
    Mutant(
        "a file forgets the row ids that it had inherited when its manifest is written again",
        f"{_LAKE}/writing/lineage_snapshot.py",
        "            file[place], first = first, first + file.record_count\n",
        "            first = first + file.record_count\n",
        (f"{_TESTS}/test_kept_rows.py::test_rows_beside_those_that_are_replaced_stay_the_rows_they_were",),
    ),
    Mutant(
        "the tag of a kept cut is dropped",
        f"{_LAKE}/refs/names.py",
        '    if there.kind == "tag" and is_firns(table.metadata):\n',
        '    if there.kind == "tag" and store is None:\n',
        (f"{_TESTS}/test_refs.py::test_the_tag_of_a_kept_cut_stays",),
    ),
    Mutant(
        "files are chosen by bounds that know of no NaN",
        f"{_LAKE}/sql/pushdown.py",
        'field is None or (op in (">", ">=") and isinstance(field.field_type, FloatType | DoubleType))',
        "field is None",
        (f"{_PUSHDOWN}::test_a_predicate_that_iceberg_may_see_otherwise_chooses_no_files[{_MORE}]",),
    ),
    Mutant(
        "DuckDB is told that rows are filtered, and they are not",
        f"{_LAKE}/sql/table_scan.py",
        "left = batch if keep is None else batch.filter(keep)",
        "left = batch",
        (f"{_PUSHDOWN}::test_each_use_of_a_table_reads_what_it_needs",),
    ),
    Mutant(
        "a deployment that does not say who may read lets everybody",
        "layers/core/python/firn/auth/readers.py",
        "if not open_to_all or config.scoped is not None:",
        "if False:",
        ("tests/unit/functions/test_query.py::test_nobody_reads_where_it_is_not_said_who",),
    ),
    Mutant(
        "changes show a reader the rows that it may not read",
        f"{_LAKE}/changes/row_changes.py",
        "yield batch if self._narrowed is None else self._narrowed.keep(batch).select(names)",
        "yield batch.select(names)",
        (f"{_TESTS}/test_scoped_lake.py::test_a_row_that_changes_hands_comes_and_goes",),
    ),
    Mutant(
        "a query sees the rows that its reader may not read",
        f"{_LAKE}/reading/narrowed_table.py",
        "return batch.filter(kept(self._tests, columns, batch.num_rows))",
        "return batch",
        (f"{_TESTS}/test_scoped_lake.py::test_columns_of_the_condition_need_not_be_seen",),
    ),
    Mutant(
        "a pattern grants the memory of deletes beside a table",
        "layers/core/python/firn/config/reader_scopes.py",
        'or "." in identifier[0] or is_reserved(identifier[1])',
        'or "." in identifier[0]',
        ("tests/unit/config/test_reader_scopes.py::test_a_pattern_grants_what_it_fits",),
    ),
    Mutant(
        "a column that came again under its name is the one that was dropped",
        f"{_LAKE}/reading/narrowed_table.py",
        "(named is None or id in named)",
        "(columns is None or one.name in columns)",
        (f"{_TESTS}/test_scoped_lake.py::test_names_are_todays_and_mean_the_same_columns_before",),
    ),
    Mutant(
        "nobody looks at how much memory a query has",
        f"{_LAKE}/query_process.py",
        "if self.resident() > bounds.memory:",
        "if self.resident() < 0:",
        (f"{_WORKER}::test_a_query_that_takes_more_than_its_bounds_is_killed[settings0-{_RANGE}]",),
    ),
    Mutant(
        "a date that no year of JSON has is answered as another",
        f"{_LAKE}/encoding.py",
        "        first, last = 0, 86400 * _UNITS[kind.unit] - 1\n",
        "        first, last = 0, 86400 * _UNITS[kind.unit]\n",
        (f"{_WORKER}::test_what_a_format_can_not_hold_names_the_column[TIME '24:00:00'-formats6-time64]",),
    ),
    Mutant(
        "a commit whose answer is lost is sent to the catalog's next server",
        f"{_LAKE}/catalogs/rest.py",
        "                if not reads and not _never_sent(error):\n",
        "                if not (reads or error):\n",
        (f"{_TESTS}/test_servers.py::test_a_write_that_was_sent_goes_nowhere_else[POST-0]",),
    ),
    Mutant(
        "a fresh read knows nothing of what is not sealed",
        f"{_LAKE}/fresh/pending.py",
        "for batch in (*free.batches, *free.left) if batch.id not in sealed]",
        "for batch in (*free.batches, *free.left) if batch.id in sealed]",
        (f"{_FRESH}::test_a_table_that_no_commit_has_made_is_asked_by_sql",),
    ),
    Mutant(
        "a fresh read judges what is sealed by today's configuration",
        f"{_LAKE}/fresh/pending.py",
        "own = {one.n: under[one.config] for one in waiting_epochs}",
        "own = {one.n: settings for one in waiting_epochs}",
        (f"{_TESTS}/test_fresh_configurations.py::test_what_was_sealed_under_a_former_schema_is_judged_by_that",),
    ),
    Mutant(
        "a fresh read takes rows on both sides of a change of their schema for one range",
        f"{_LAKE}/fresh/coming_ranges.py",
        "key=lambda n: versions(own[n])",
        "key=lambda n: 0",
        (f"{_TESTS}/test_fresh_configurations.py::test_ranges_end_where_the_commits_do",),
    ),
    Mutant(
        "a fresh read looks at no row that holds values when a truncate comes",
        f"{_LAKE}/fresh/merge_pending.py",
        "if keys is None and self.holds:",
        "if keys == [None]:",
        (f"{_FRESH}::test_a_late_truncate_leaves_what_the_specification_leaves[of a held value]",),
    ),
    Mutant(
        "a fresh read looks at no row of a move when a truncate comes",
        "layers/core/python/firn/changes/merge/decide.py",
        "if linked - seen:",
        "if linked - seen and not truncates:",
        (f"{_FRESH}::test_a_late_truncate_leaves_what_the_specification_leaves[of a move]",),
    ),
    Mutant(
        "a fresh read forgets deletes that were committed before their changes came",
        f"{_LAKE}/fresh/delete_memory.py",
        'if op in "dc"',
        'if op in "c"',
        (f"{_FRESH}::test_any_history_cut_anywhere_gives_the_rows_of_the_specification[4-60-5-t]",),
    ),
    Mutant(
        "a committer that is alive has its metastore's lock taken away",
        "layers/core/python/firn/tables/abandoned_locks.py",
        "and not one.transaction and now - one.heard > most})",
        "and not one.transaction and now > most})",
        (
            "tests/unit/tables/test_abandoned_locks.py::"
            "test_a_lock_that_was_silent_longer_than_the_metastore_allows_is_nobodys",
        ),
    ),
    Mutant(
        "a token is sent until it has ended",
        f"{_LAKE}/catalogs/rest_tokens.py",
        "            self._replaced_at = asked_at + lives - min(MARGIN, lives * _SHARE)\n",
        "            self._replaced_at = asked_at + lives\n",
        (f"{_TESTS}/test_rest_tokens.py::test_a_token_is_replaced_before_it_ends[40.0-29.0]",),
    ),
    Mutant(
        "Python's moments are compared with nanoseconds as microseconds",
        f"{_LAKE}/reading/nano_filters.py",
        "_nanoseconds(literal.value * 1000)",
        "_nanoseconds(literal.value)",
        (f"{_TESTS}/test_nano_filters.py::test_pythons_moments_and_numbers_are_compared_as_nanoseconds",),
    ),
    Mutant(
        "the whole has each shard as it is now",
        "layers/lake/python/firn_lake/sharded/whole_version.py",
        "self.shards.snapshot(name, self.cut.at[shard])",
        "self.shards.table(name).current_snapshot()",
        ("tests/unit/lake/test_whole_tables.py::test_sql_reads_all_shards_at_the_newest_cut",),
    ),
    Mutant(
        "the whole is the way around what narrows a shard",
        "layers/core/python/firn/config/reader_scopes.py",
        "own = (identifier, *shards)",
        "own = (identifier,)",
        ("tests/unit/lake/test_whole_tables.py::test_a_scope_may_name_the_whole_and_narrow_it",),
    ),
    Mutant(
        "all shards are read by the first map",
        "layers/lake/python/firn_lake/sharded/whole_version.py",
        "        number = version_in([_told(leading)])\n",
        "        number = 1\n",
        ("tests/unit/lake/test_whole_tables.py::test_each_moment_is_read_by_the_map_that_it_is_under",),
    ),
    Mutant(
        "what narrowed a shard that is none any more narrows nothing",
        "layers/lake/python/firn_lake/sharded/whole_version.py",
        "sorted(self.cut.under.ever | self.shards.ever)",
        "sorted(home.table for home in self.cut.map.homes.values())",
        ("tests/unit/lake/test_whole_tables.py::test_a_scope_has_the_shards_of_every_map",),
    ),
    Mutant(
        "a reader of some rows hears of everybody's batches",
        "layers/core/python/firn/audit/batch_status.py",
        "if meta is None or not meta.is_of(writer):",
        "if meta is None:",
        (
            "tests/attacks/test_readers_of_batches.py::test_what_may_not_be_heard_of_is_told_as_what_there_is_not"
            "[ada-shop.orders-other writer]",
        ),
    ),
    Mutant(
        "a row that comes into a shard by what waits is not looked for in the others",
        f"{_LAKE}/fresh/stored_shards.py",
        "{shard: keys if shard in self._scanned else elsewhere for shard in whole.made}",
        "{shard: keys if shard in self._scanned else [] for shard in whole.made}",
        (
            "tests/unit/lake/test_fresh_of_shards.py::test_only_shards_that_may_tell_of_the_rows_are_opened"
            "[waits6-w = 'a'-ids6-others6]",
        ),
    ),
    Mutant(
        "a row that a late delete brings into a shard is not looked for in the others",
        f"{_LAKE}/fresh/stored_shards.py",
        "return self._fits(None)",
        "return False",
        (
            "tests/unit/lake/test_fresh_of_shards.py::"
            "test_a_late_delete_brings_a_row_to_the_rest_that_loses_the_value_it_was_placed_by[w IS NULL]",
        ),
    ),
    Mutant(
        "a shard is read fresh by the map of the cut",
        f"{_LAKE}/fresh/fresh_shards.py",
        "return before, before if number == before.number else self._version_of_map(number)",
        "return before, before",
        ("tests/unit/lake/test_fresh_of_shards.py::test_a_map_counts_with_the_next_change_of_the_table",),
    ),
    Mutant(
        "who follows all shards stands where a column of some is rewritten",
        f"{_LAKE}/sharded/whole_changes.py",
        "return at is None or at.schema_id == snapshot.schema_id",
        "return True",
        (
            "tests/unit/lake/test_whole_tables.py"
            "::test_who_follows_it_sees_a_column_that_is_rewritten_once_all_shards_have_it",
        ),
    ),
    Mutant(
        "what a row of a shard holds is told by the numbers of the rest's columns",
        f"{_LAKE}/sharded/whole_version.py",
        "        return replace(at, schema=schema), read\n",
        "        return replace(at, schema=self.version.schema), read\n",
        (
            "tests/property/test_fresh_shards.py::test_any_history_cut_anywhere_is_what_the_specification_places"
            "[0-{by: hash(w), count: 3}]",
        ),
    ),
)
