"""Mistakes about order and about what a table must remember."""

from typing import Final

from tests.mutants.copy import Mutant

_CORE: Final = "layers/core/python/firn"
_CHANGES: Final = "layers/core/python/firn/changes"
_POSITIONS: Final = f"{_CHANGES}/positions.py"
_EMITTERS: Final = "tests/unit/envelopes"
_KEY_ROWS: Final = f"{_CORE}/changes/merge/key_rows.py"
_POSITION_TESTS: Final = "tests/unit/changes/test_positions.py"
_ORDER_TESTS: Final = "tests/unit/changes/test_source_orders.py"
_ANY_ORDER: Final = "tests/property/test_decide.py::test_any_order_any_split_any_repeat_equals_the_specification"
_POISON_TESTS: Final = "tests/unit/changes/test_poison.py"
_DECIDE: Final = f"{_CORE}/changes/merge/decide.py"
_FOLD: Final = f"{_CORE}/changes/merge/fold.py"
_RANDOM: Final = "tests/property/test_random_histories.py::test_the_specification_and_the_engine_say_the_same"
_BACKWARDS: Final = "tests/property/test_decide.py::test_one_change_at_a_time_backwards"
_TOLD: Final = f"{_CORE}/changes/merge/decoded_rows.py"
_IDENTITY: Final = 'f"{stream}:{order.hex().upper()}:{which}:{table}"'
_WHO: Final = "tests/property/test_append.py::test_two_deliveries_are_one_row_where_the_specification_says_so"
_SETTLED: Final = (
    "tests/property/test_settled_types.py::test_types_are_those_of_the_changes_that_are_taken_however_they_are_split"
)

_BODIES: Final = "tests/unit/changes/test_parser_bodies.py"
_PATCHES: Final = "tests/property/test_patches.py"
_EVENT_HISTORIES: Final = (
    "tests/property/test_event_histories.py::test_a_history_through_an_emitter_is_the_sources_table"
)

MUTANTS: Final = (
    Mutant(
        "bytes of any length are taken for those of one length",
        f"{_CHANGES}/decode/converters.py",
        "if len(found) == kind.length:",
        "if True:",
        ('tests/unit/changes/test_codec.py::test_bytes_are_the_same_in_every_mode[hex-"00fffe10d0"]',),
    ),
    Mutant(
        "a key that is null is left out of a map",
        f"{_CHANGES}/decode/exact_values.py",
        'raise mismatch("a key of a map is null")',
        "continue",
        (
            "tests/unit/changes/test_codec.py"
            "::test_what_is_no_map_or_does_not_fit_it_is_a_mismatch[map<string, int>-[[null, 1]]]",
        ),
    ),
    Mutant(
        "that no good row names the key is said of rows with a fault of their own",
        f"{_CORE}/changes/decode/row_decoder.py",
        'if op != "d" and change["after"] is not None:',
        "if False:",
        (
            "tests/unit/changes/test_decoded_rows.py"
            "::test_what_is_wrong_in_a_row_is_told_before_the_key_that_no_good_row_names",
        ),
    ),
    Mutant(
        "of two patches of a row the newer alone counts",
        _KEY_ROWS,
        "names_of(newer) | names_of(older) if OTHERS in newer.held else newer.held:",
        "newer.held:",
        (f"{_PATCHES}::test_the_row_engine_equals_the_specification_in_any_split",),
    ),
    Mutant(
        "a row of a table does not say that its other columns are held",
        f"{_CORE}/changes/merge/ordering.py",
        " | {OTHERS_ID: rest}",
        "",
        (f"{_PATCHES}::test_what_a_table_stores_of_its_rows_is_enough",),
    ),
    Mutant(
        "the guard is dropped: what arrives last wins",
        _KEY_ROWS,
        "newer, older = (told, there) if rank(told) > rank(there) else (there, told)",
        "newer, older = told, there",
        (_BACKWARDS,),
    ),
    Mutant(
        "PostgreSQL is ordered by the LSN alone",
        _POSITIONS,
        'return _of_lsns(generation, commit or 0, op != "r", change)',
        'return _of_lsns(generation, 0, op != "r", change)',
        (f"{_POSITION_TESTS}::test_a_commit_decides_before_an_lsn",),
    ),
    Mutant(
        "the rows of one COPY are taken for one",
        f"{_CHANGES}/redelivery.py",
        '_OF_ONE_RECORD: Final = frozenset("udt")',
        '_OF_ONE_RECORD: Final = frozenset("udtc")',
        (_WHO,),
    ),
    Mutant(
        "a change of the binlog is known by its number in the transaction",
        f"{_CHANGES}/redelivery.py",
        'return connector in _BINLOGS and op != "r" and not order.endswith(_NO_ROW)',
        "return False",
        (_WHO,),
    ),
    Mutant(
        "a bigint unsigned that came as a negative integer stays negative",
        f"{_CHANGES}/decode/values.py",
        "return value % 2**64",
        "return value",
        ("tests/unit/changes/test_mysql_values.py::test_a_bigint_unsigned_sent_as_a_signed_integer_is_what_the_source_has[-1-18446744073709551615]",),
    ),
    Mutant(
        "bit strings are read as other binary columns are",
        f"{_CHANGES}/decode/source_encodings.py",
        'return Encoding("bits")',
        "return Encoding(_BINARY[settings.binary])",
        ("tests/unit/changes/test_mysql_values.py::test_a_bit_string_is_base64_in_every_binary_mode[hex]",),
    ),
    Mutant(
        "positions are compared as text",
        _POSITIONS,
        "return generation.to_bytes(4) + commit.to_bytes(16) + kind + change.to_bytes(24)",
        "return generation.to_bytes(4) + f'{commit}'.encode().ljust(16) + kind + f'{change}'.encode().ljust(24)",
        (f"{_POSITION_TESTS}::test_lsns_are_compared_as_numbers_not_as_text",),
    ),
    Mutant(
        "changes are ordered by ts_ms",
        f"{_CORE}/changes/envelopes/sources.py",
        '''"""The sequence as it is."""
        return [s.sequence or None for s in sources]''',
        '''"""The time."""
        return [None if s.ts_ms is None else f'["0","{s.ts_ms}"]' for s in sources]''',
        ("tests/model/test_quarantine.py::test_late_doubled_and_read_again_changes_never_hold_a_stream",),
    ),
    Mutant(
        "a snapshot read counts like a streamed change",
        _POSITIONS,
        'return _of_lsns(generation, commit or 0, op != "r", change)',
        "return _of_lsns(generation, commit or 0, True, change)",
        (f"{_POSITION_TESTS}::test_the_first_streamed_transaction_beats_a_snapshot_read_with_a_higher_lsn",),
    ),
    Mutant(
        "a new generation does not count",
        _POSITIONS,
        "return generation.to_bytes(4) + commit.to_bytes(16) + kind + change.to_bytes(24)",
        "return bytes(4) + commit.to_bytes(16) + kind + change.to_bytes(24)",
        (f"{_POSITION_TESTS}::test_a_new_generation_beats_all_that_was",),
    ),
    Mutant(
        "at one position a delete beats a create",
        _POSITIONS,
        'RANK: Final = {"t": b"\\0", "d": b"\\1", "r": b"\\2", "c": b"\\3", "u": b"\\4"}',
        'RANK: Final = {"t": b"\\0", "d": b"\\4", "r": b"\\1", "c": b"\\2", "u": b"\\3"}',
        (f"{_POSITION_TESTS}::test_of_two_changes_at_one_position_the_create_beats_the_delete",),
    ),
    Mutant(
        "of two changes at one position the first to arrive wins",
        _POSITIONS,
        "blake2b(content, digest_size=HASHED).digest()",
        "bytes(HASHED)",
        (f"{_POSITION_TESTS}::test_equal_changes_have_equal_keys_and_others_differ",),
    ),
    Mutant(
        "a held value outlives the delete that came in between",
        _KEY_ROWS,
        "lost = {column for column, order in orders.items() if order <= gone}",
        "lost: set[str] = set()",
        (_RANDOM,),
    ),
    Mutant(
        "a late full change does not fill the columns that a newer one left out",
        _KEY_ROWS,
        "if other > mine and column != OTHERS:",
        "if newer is told and column != OTHERS:",
        (_RANDOM,),
    ),
    Mutant(
        "deletes are not remembered",
        _DECIDE,
        '(change.op in "dt" or',
        '(change.op in "t" or',
        (_BACKWARDS,),
    ),
    Mutant(
        "truncates are not remembered",
        _DECIDE,
        '(change.op in "dt" or',
        '(change.op in "d" or',
        (_BACKWARDS,),
    ),
    Mutant(
        "the row that a delete took is not looked up",
        _DECIDE,
        "there += ground.removed(linked)",
        "pass",
        ("tests/property/test_decide.py"
         "::test_what_comes_in_order_on_a_table_older_than_the_log_needs_only_its_rows",),
    ),
    Mutant(
        "what was loaded after a delete is taken for newer than it",
        _DECIDE,
        "row.order == LOADED}",
        "row.order < LOADED}",
        ("tests/property/test_decide.py"
         "::test_a_row_that_was_loaded_after_its_delete_is_older_than_it_whatever_comes_beside[d-True-False]",),
    ),
    Mutant(
        "the halves of a move are not linked",
        _DECIDE,
        "linked = linked_keys(placed, halves) if creates else set[Key]()",
        "linked = set[Key]()",
        (_ANY_ORDER,),
    ),
    Mutant(
        "a late truncate leaves what a move took from before it",
        _KEY_ROWS,
        "for key in (delete.key, ()))",
        "for key in (delete.key,))",
        ("tests/property/test_decide.py"
         "::test_what_a_move_took_from_a_row_goes_with_a_truncate_that_turns_out_to_lie_between",),
    ),
    Mutant(
        "all equal rows of a COPY are one",
        f"{_CORE}/changes/merge/ordering.py",
        "found.append(alike.setdefault(-index - 1 if at is None else at, len(alike)))",
        "found.append(0)",
        ("tests/unit/changes/test_ordering.py::test_the_equal_rows_of_one_copy_are_as_many_changes",),
    ),
    Mutant(
        "an event that is brought twice is two",
        f"{_CORE}/changes/merge/ordering.py",
        "found.append(alike.setdefault(-index - 1 if at is None else at, len(alike)))",
        "found.append(alike.setdefault(-index - 1, len(alike)))",
        ("tests/unit/changes/test_ordering.py::test_an_event_that_one_request_brings_twice_is_one_change",),
    ),
    Mutant(
        "an append table's identity without the stream",
        _TOLD,
        _IDENTITY,
        'f"{order.hex().upper()}:{which}:{table}"',
        (_WHO, "tests/unit/changes/test_decoded_rows.py::test_equal_changes_of_two_streams_are_two"),
    ),
    Mutant(
        "an append table's identity without the source table",
        _TOLD,
        _IDENTITY,
        'f"{stream}:{order.hex().upper()}:{which}"',
        (_WHO,),
    ),
    Mutant(
        "an append table's identity without the op",
        _TOLD,
        _IDENTITY,
        'f"{stream}:{(order[:46] + order[47:]).hex().upper()}:{which}:{table}"',
        (_WHO,),
    ),
    Mutant(
        "an append table's identity without the content",
        _TOLD,
        _IDENTITY,
        'f"{stream}:{order[:47].hex().upper()}:{which}:{table}"',
        (_WHO,),
    ),
    Mutant(
        "an append table's identity without the number in the transaction",
        _TOLD,
        'f"o{occurrence}" if number is None else f"t{number}"',
        'f"o{occurrence}"',
        (_WHO,),
    ),
    Mutant(
        "an older append table is not asked for the identities of its time",
        "layers/core/python/firn/tables/table_state.py",
        "return tuple(sorted(self.streams) if told is None else json.loads(told))",
        "return () if told is None else tuple(json.loads(told))",
        ("tests/model/test_appending.py::test_an_older_table_takes_nothing_twice_and_no_two_changes_for_one",),
    ),
    Mutant(
        "a flattened message is staged as a change",
        f"{_CORE}/changes/envelopes/flat.py",
        'if required_op(value, "__op", hint) == "m":',
        'if required_op(value, "__op", hint) == "":',
        ("tests/unit/changes/test_parser_rejected.py::test_a_flattened_message_is_ignored_as_elsewhere[flat]",),
    ),
    Mutant(
        "an event with another envelope's marks is read by the one without",
        f"{_CORE}/changes/envelopes/registry.py",
        "self.foreign |= {name: marks for name",
        "self.foreign |= {name: frozenset() for name",
        ("tests/unit/ingest/test_added_envelope.py::test_a_stream_of_another_envelope_says_what_it_sees",),
    ),
    Mutant(
        "a flattened row without a connector has that of the rows beside it",
        f"{_CORE}/changes/envelopes/flat.py",
        'others=_told_otherwise(rows, connector) if "" in named else (),',
        "others=(),",
        ("tests/unit/changes/test_parser_rejected.py::test_an_event_is_what_it_is_whatever_comes_beside_it",),
    ),
    Mutant(
        "metadata of flattened rows is a value where the table has a column of its name by then",
        f"{_CORE}/changes/decode/codec.py",
        "_without_metadata(column) if flat and column.source is None else column",
        "column",
        (
            "tests/unit/changes/test_codec.py::test_metadata_of_a_flattened_row_is_no_value_of_a_column_that_is_called_so",
        ),
    ),
    Mutant(
        "the old name of a renamed column counts where a row has both",
        f"{_CORE}/changes/decode/image_cells.py",
        "return column.earlier if column.silent else (column.name, *column.earlier)",
        "return column.earlier if column.silent else (*column.earlier, column.name)",
        ("tests/property/test_renames.py::test_a_change_says_the_same_under_whichever_name[False]",),
    ),
    Mutant(
        "a truncate empties every source table",
        _FOLD,
        "return truncate.source is None or row.source is None or truncate.source == row.source",
        "return True",
        ("tests/property/test_fold.py::test_in_order_it_equals_the_plain_sequential_replay",),
    ),
    Mutant(
        "what a table remembers lets a truncate empty every source table",
        _KEY_ROWS,
        "if not (self.several and self.newest):",
        "if True:",
        (_RANDOM,),
    ),
    Mutant(
        "a row that a truncate of another source table met is not folded again",
        _KEY_ROWS,
        "        return late or self._first_new < last.order",
        "        return False",
        (_RANDOM,),
    ),
    Mutant(
        "a row that went with a truncate of another source table is forgotten",
        _KEY_ROWS,
        "return True  # a newer row of that source table may have been there, and gone with it",
        "return False",
        (_RANDOM,),
    ),
    Mutant(
        "the engine forgets the truncates that are in the table",
        _DECIDE,
        "        earlier = ground.truncates()",
        "        earlier = ()",
        (_RANDOM,),
    ),
    Mutant(
        "the engine reads no log",
        _DECIDE,
        "late = [*ground.log(linked), *known.earlier]",
        "late = [*known.earlier]",
        (_RANDOM,),
    ),
    Mutant(
        "a truncate alone does not meet the moves that are known",
        _DECIDE,
        "placed = [change for change in (*changes, *truncates) if plain(change.order)]",
        "placed = [change for change in changes if plain(change.order)]",
        (_RANDOM,),
    ),
    Mutant(
        "a row that another tool loaded is as unknown as a value that nobody told",
        _FOLD,
        'object.__setattr__(self, "order", LOADED)',
        "pass",
        ("tests/unit/changes/test_fold.py::test_an_update_keeps_what_it_leaves_out_of_a_row_that_another_tool_loaded",),
    ),
    Mutant(
        "a value that nobody told fills one that nobody told",
        _KEY_ROWS,
        "if other > mine and column != OTHERS:",
        "if other >= mine and column != OTHERS:",
        ("tests/unit/changes/test_key_rows.py::test_a_value_that_no_change_told_fills_nothing",),
    ),
    Mutant(
        "a COPY and a delete at one position count as a move",
        _FOLD,
        'if sorted(change.op for change in mine) == ["c", "d"]:',
        'if {change.op for change in mine} == {"c", "d"}:',
        ("tests/unit/changes/test_fold.py::test_a_copy_and_a_delete_at_one_position_are_no_move",),
    ),
    Mutant(
        "a delete and a create of two source tables at one position count as a move",
        _FOLD,
        "if one.source in (source, None)",
        "if True",
        ("tests/unit/changes/test_fold.py::test_a_delete_and_a_create_of_two_source_tables_are_no_move",),
    ),
    Mutant(
        "an `order_by` read ties with a change",
        _POSITIONS,
        "return generation.to_bytes(4) + (_HALF + first).to_bytes(16) + kind + second",
        "return generation.to_bytes(4) + (_HALF + first).to_bytes(16) + kind[:0] + second + bytes(1)",
        (f"{_ORDER_TESTS}::test_a_change_beats_a_read_of_the_same_order_by_value",),
    ),
    Mutant(
        "a value that no table gets gives its column another type",
        f"{_CORE}/tables/batch_facts.py",
        "            mine = [it_is and form == (flat, schema_id) for form, it_is in zip(forms, good, strict=True)]",
        "            mine = [form == (flat, schema_id) for form in forms]",
        ("tests/property/test_staged_columns.py::test_a_table_is_told_of_what_its_rows_tell",),
    ),
    Mutant(
        "the schema of a dead letter gives a column another type",
        f"{_CORE}/tables/batch_facts.py",
        "                if any(mine):",
        "                if mine:",
        ("tests/property/test_staged_columns.py::test_a_table_is_told_of_what_its_rows_tell",),
    ),
    Mutant(
        "what the keys of deletes show makes no columns",
        f"{_CORE}/tables/table_plan.py",
        "target.seen(required)",
        "target.seen()",
        (
            "tests/model/test_emitters.py::"
            "test_a_delete_that_holds_nothing_but_a_key_may_be_the_first_change_of_its_table",
            "tests/unit/lake/test_fresh.py::test_a_delete_that_holds_nothing_but_its_key_makes_a_table_as_a_commit_does",
        ),
    ),
    Mutant(
        "a change that is rejected once it is decoded gives a column another type",
        f"{_CORE}/tables/settled_plan.py",
        "    while plan.alters or bad:",
        "    while bad:",
        (_SETTLED,),
    ),
    Mutant(
        "what is at fault in a column that the table does not get is taken without it",
        f"{_CORE}/tables/settled_plan.py",
        "plan = without(bad).beside(seen.values())",
        "plan = without(bad)",
        (_SETTLED,),
    ),
    Mutant(
        "dead letters of epochs that the table has already give a column another type",
        f"{_CORE}/tables/settled_plan.py",
        "if exact and found.keys() <= bad.keys():",
        "if found.keys() <= bad.keys():",
        ("tests/property/test_settled_types.py::test_what_the_table_holds_already_has_no_say_again",),
    ),
    Mutant(
        "values of a delete that an append table takes give its columns no type",
        f"{_CORE}/tables/settled_plan.py",
        "elif target.unordered and not plan.mode.keyed:",
        "elif target.unordered and plan.mode.keyed:",
        ("tests/property/test_settled_types.py::test_a_change_without_a_place_counts_for_the_table_that_takes_it",),
    ),
    Mutant(
        "what firn.yaml no longer asks of a table's files stays",
        f"{_CORE}/tables/file_properties.py",
        "gone = {name: OWN.get(name) for name in asked if name not in wanted.properties}",
        "gone = dict[str, str | None]()",
        ("tests/unit/tables/test_file_properties.py::test_what_is_asked_for_and_no_longer_asked_for",),
    ),
    Mutant(
        "a Bloom filter may be as large as its values need",
        f"{_CORE}/tables/bloom_filters.py",
        "return max(1, min(values, int(-bits / 8 * math.log(1 - size.wrong ** (1 / 8)))))",
        "return max(1, max(values, int(-bits / 8 * math.log(1 - size.wrong ** (1 / 8)))))",
        ("tests/unit/tables/test_file_properties.py::test_a_bloom_filter_is_as_large_as_it_may_be",),
    ),
    Mutant(
        "the second field of `order_by` counts for nothing",
        _POSITIONS,
        "(_HALF_CHANGE + more[0]).to_bytes(24) if more else bytes(24)",
        "bytes(24)",
        ("tests/unit/changes/test_positions.py::test_where_the_first_field_of_order_by_is_equal_the_second_counts",),
    ),
    Mutant(
        "a row that is sent for another table under a used key is taken for a repeat",
        f"{_CORE}/ingest/accept.py",
        'return sha256(table.encode("utf-8", "surrogatepass")).digest() + sha256(body).digest()',
        "return body",
        ("tests/unit/ingest/test_rows.py::test_a_key_stands_for_rows_of_one_table",),
    ),
    Mutant(
        "a row that looks like a record loses its columns",
        f"{_CORE}/changes/envelopes/parser.py",
        "        if bare := registry.KNOWN.bare(self.envelope):",
        "        if (bare := registry.KNOWN.bare(self.envelope)) and not element:",
        ("tests/unit/ingest/test_rows.py::test_what_is_no_row_is_a_dead_letter_of_its_table",),
    ),
    Mutant(
        "an emitter's update takes away what it leaves out",
        f"{_CORE}/changes/decode/row_decoder.py",
        'if op == "u" and change["connector"] in PATCHES else',
        'if op == "u" and change["connector"] == "rows" else',
        (f"{_EMITTERS}/test_wal2json.py::test_unchanged_large_values_are_kept_and_taken_along_by_a_changed_key",),
    ),
    Mutant(
        "the last row of a transaction of Maxwell's comes first",
        f"{_CORE}/changes/emitter_orders.py",
        "_LAST if number is None else",
        "0 if number is None else",
        (
            f"{_EMITTERS}/test_maxwell.py"
            "::test_the_last_row_of_a_transaction_is_above_all_others_of_it_and_files_compare_as_numbers",
        ),
    ),
    Mutant(
        "the record in its transaction does not count",
        f"{_CORE}/changes/emitter_orders.py",
        "first << 64 | last",
        "first << 64",
        (
            f"{_EMITTERS}/test_dms.py"
            "::test_transactions_stand_in_the_order_of_their_commits_and_records_as_numbers",
        ),
    ),
    Mutant(
        "a part forgets its place in the transaction",
        f"{_CORE}/changes/envelopes/wal2json.py",
        'order = None if commit is None else f"[{commit},{whole.place},null]"',
        'order = None if commit is None else f"[{commit},0,null]"',
        (f"{_EMITTERS}/test_wal2json.py::test_the_changes_of_a_transaction_stand_in_their_order",),
    ),
    Mutant(
        "a number loses the digits that a double does not keep",
        f"{_CORE}/changes/envelopes/row_images.py",
        "if _MAY_BE_LONG.match(text) and not _is_double(text):",
        "if False:",
        (f"{_EMITTERS}/test_maxwell.py::test_no_digit_of_a_column_without_a_type_is_lost",),
    ),
    Mutant(
        "the parts of an event stand at one place",
        f"{_CORE}/changes/envelopes/parser.py",
        "place += self.read(place, part, depth + 1)",
        "place += self.read(index, part, depth + 1)",
        (
            "tests/unit/ingest/test_added_envelope.py"
            "::test_each_part_of_an_event_takes_a_place_like_an_event_of_its_own[ledger]",
        ),
    ),
    Mutant(
        "rows of one request tie",
        f"{_CORE}/ingest/reading.py",
        "came(batch, first + index)",
        "came(batch, first)",
        ("tests/unit/ingest/test_rows.py::test_without_order_by_a_row_stands_where_it_came",),
    ),
    Mutant(
        "an `order_by` time far ahead freezes its row",
        _POSITIONS,
        "if is_time and accepted and number > (accepted + _DAY) * 1000:",
        "if is_time and accepted and number > (accepted + _DAY) * 10**6:",
        (f"{_ORDER_TESTS}::test_an_order_by_time_more_than_a_day_ahead_is_refused_and_a_number_never_is",),
    ),
    Mutant(
        "a delete that `order_by` can't place is left out without a word",
        f"{_CORE}/changes/merge/ordering.py",
        "    if not there and not lacking:",
        "    if not there:",
        (f"{_ORDER_TESTS}::test_a_delete_without_the_order_by_field_and_a_truncate_are_refused_by_name",),
    ),
    Mutant(
        "the events of a MongoDB transaction are ordered by their content",
        f"{_CORE}/changes/merge/ordering.py",
        "            if inside is not None and where is not None:",
        "            if inside is not None and where is not None and not mongodb:",
        (f"{_ORDER_TESTS}::test_the_events_of_a_mongodb_transaction_are_ordered_by_when_they_were_made_or_numbered",),
    ),
    Mutant(
        "a transaction's events go by their numbers, which start over after a restart",
        _POSITIONS,
        "first = number if made is None else made",
        "first = made if number is None else number",
        (f"{_ORDER_TESTS}::test_a_mongodb_transaction_that_is_sent_on_after_a_restart_goes_on",),
    ),
    Mutant(
        "a MongoDB server's wall clock counts as the cluster time",
        f"{_CORE}/changes/envelopes/sources.py",
        "return time % 1000 != 0 or (said and source.wallTime == time)",
        "return time % 1000 != 0 and source.wallTime is None",
        (f"{_ORDER_TESTS}::test_with_a_wall_clock_mongodb_is_ordered_by_when_the_connector_made_the_event[version0]",),
    ),
    Mutant(
        "an LSN alone lies below all commits",
        _POSITIONS,
        "            commit = change\n",
        "            commit = 0\n",
        (f"{_ORDER_TESTS}::test_of_one_row_changes_with_and_without_a_commit_are_in_commit_order",),
    ),
    Mutant(
        "a keyless image joins without holding the key",
        f"{_CORE}/changes/decode/row_decoder.py",
        """            self._require_key(change["after"])""",
        """            pass""",
        ("tests/unit/changes/test_decoded_rows.py::test_a_keyless_image_joins_if_it_holds_the_key_and_is_dead_if_not",),
    ),
    Mutant(
        "a column that becomes text has other text at once than by a rewrite",
        f"{_CORE}/changes/decode/codec.py",
        "step if through is None else _then(step, finish)",
        "step",
        ("tests/property/test_texts.py::test_a_column_has_one_type_and_one_text_however_it_is_split",),
    ),
    Mutant(
        "a float that becomes a double is promoted",
        f"{_CORE}/changes/decode/texts.py",
        "(lambda value: float(_digits_of_single(value))) if old == FLOAT else float",
        "float",
        ("tests/property/test_texts.py::test_a_column_has_one_type_and_one_text_however_it_is_split",),
    ),
    Mutant(
        "the row before is not a part of the content",
        f"{_CORE}/changes/merge/ordering.py",
        'content = f"{before}\\0{after}',
        'content = f"{after}',
        ("tests/unit/changes/test_ordering.py::test_changes_of_equal_rows_after_and_others_before_are_two",),
    ),
    Mutant(
        "part of a key before counts as a changed key",
        f"{_CORE}/changes/decode/row_decoder.py",
        'if not _are_same(old, key) and self._has_key(change["before"]):',
        "if not _are_same(old, key):",
        ("tests/unit/changes/test_decoded_rows.py::test_a_changed_key_is_one_that_the_row_before_names_whole",),
    ),
    Mutant(
        "want of memory is an event's fault",
        f"{_CORE}/changes/decode/poison.py",
        "if isinstance(error, MemoryError | OSError | FirnError):",
        "if isinstance(error, OSError | FirnError):",
        (f"{_POISON_TESTS}::test_want_of_memory_and_storage_are_no_events_fault",),
    ),
    Mutant(
        "all events of a batch that fails are poison",
        f"{_CORE}/changes/decode/poison.py",
        """            step(event)
        except Exception as error:""",
        """            step(event)
            raise KeyError(place)
        except Exception as error:""",
        (f"{_POISON_TESTS}::test_facts_are_those_of_the_others",),
    ),
    Mutant(
        "an op that is none is taken for a change",
        f"{_CORE}/changes/merge/ordering.py",
        "if not OPS.issuperset(ops):",
        "if False and not OPS.issuperset(ops):",
        (f"{_POISON_TESTS}::test_an_op_that_is_none_and_a_time_beyond_all_have_no_place",),
    ),
    Mutant(
        "only what is known to fail is a dead letter in decoding",
        f"{_CORE}/changes/decode/row_decoder.py",
        "        except Exception as error:  # noqa: BLE001 (one event's failure is one dead letter)",
        "        except EventError as error:",
        (f"{_POISON_TESTS}::test_what_fails_in_decoding_is_one_rejected_row",),
    ),
    Mutant(
        "an event is blamed for columns that none can be read by",
        f"{_CORE}/changes/decode/row_decoder.py",
        "                self._check()",
        "                pass",
        (f"{_POISON_TESTS}::test_columns_that_no_event_can_be_read_by_are_no_events_fault",),
    ),
    Mutant(
        "half of a changed key goes on without what can't be written",
        f"{_CORE}/changes/decode/row_decoder.py",
        "                each[place] = [self._rejected(changes[place], why.code, str(why))]",
        "                each[place] = [*each[place][:-1], self._rejected(changes[place], why.code, str(why))]",
        (f"{_POISON_TESTS}::test_both_rows_of_a_changed_key_go_together",),
    ),
    Mutant(
        "each NaN is another key",
        f"{_CORE}/changes/merge/fold.py",
        " if value == value else NAN",
        "",
        ("tests/unit/changes/test_decoded_rows.py::test_nan_is_one_key_in_any_process",),
    ),
    Mutant(
        "ingest does not look whether a moment exists",
        f"{_CORE}/changes/decode/sure_types.py",
        "return all(map(datetime.fromisoformat, cells))",
        "return True",
        ("tests/property/test_schemas.py::test_ingest_and_job_say_the_same_of_every_value[keep-timestamp]",),
    ),
    Mutant(
        "a table's wider column takes what its schema refuses",
        f"{_CORE}/changes/decode/codec.py",
        "return checked if wider else None",
        "return None",
        ("tests/property/test_schemas.py::test_a_wider_column_takes_what_the_schema_takes_and_nothing_else[int32-long]",),
    ),
    Mutant(
        "lines are rows wherever they break",
        f"{_CORE}/changes/envelopes/json_text.py",
        "plain = all(lines) and",
        "plain = True or",
        ("tests/unit/ingest/test_schemas.py::test_however_rows_are_laid_out_each_is_itself[0]",),
    ),
    Mutant(
        "a step that comes again applies again",
        f"{_CORE}/changes/merge/nested_updates.py",
        "if not (self._steps and self._steps[-1][0] == order):",
        "if True or order:",
        (f"{_PATCHES}::test_steps_into_values_are_replayed_in_any_order_and_split",),
    ),
    Mutant(
        "each step of an update fills as many places as all may",
        f"{_CORE}/changes/merge/nested_updates.py",
        "room -= _step(",
        "_step(",
        ("tests/attacks/test_costly_events.py::test_steps_that_are_replayed_fill_a_thousand_places_an_update",),
    ),
    Mutant(
        "an event alone with broken JSON in it refuses its request",
        f"{_CHANGES}/envelopes/parser.py",
        "if nothing and not any(is_json_object(bytes(element)) for element in found):",
        "if nothing:",
        (f"{_BODIES}::test_an_event_alone_that_is_json_is_a_dead_letter_whatever_is_in_it[in a value]",),
    ),
    Mutant(
        "a time far ahead is a place like any other",
        f"{_CHANGES}/clocks.py",
        "if time is not None and time > came + AHEAD:",
        "if time is not None and time > came + AHEAD * AHEAD:",
        ("tests/unit/changes/test_clocks.py::test_a_change_from_far_ahead_is_a_dead_letter_and_later_ones_count[seed]",),
    ),
    Mutant(
        "a key that begins as steps do is one",
        f"{_CHANGES}/envelopes/documents.py",
        "for name, cell in (*cells.items(), *key.items()):",
        "for name, cell in cells.items():",
        ("tests/attacks/test_costly_events.py::test_a_key_that_begins_as_steps_do_is_no_step",),
    ),
    Mutant(
        "a row does not keep what a value was before steps",
        _FOLD,
        "        if composed:\n            steps =",
        "        if False and composed:\n            steps =",
        (f"{_PATCHES}::test_steps_into_values_are_replayed_in_any_order_and_split",),
    ),
    Mutant(
        "a truncate leaves what the steps of a value were applied to",
        _FOLD,
        "                del parts[key]",
        "                pass",
        (f"{_PATCHES}::test_steps_into_values_are_replayed_in_any_order_and_split",),
    ),
    Mutant(
        "what Sequin leaves out is a text",
        f"{_CORE}/changes/envelopes/sequin.py",
        "if bytes(one) != _UNCHANGED or name in told})",
        "if True})",
        (f"{_EVENT_HISTORIES}[sequin]",),
    ),
    Mutant(
        "a column that Spanner did not change is null",
        f"{_CORE}/changes/envelopes/connector_rows.py",
        "return change if len(there) == len(after) else structs.replace(change, after=encode(there))",
        "return change",
        (f"{_EVENT_HISTORIES}[spanner]",),
    ),
    Mutant(
        "MongoDB's events count by their cluster time alone",
        f"{_CORE}/changes/envelopes/mongodb.py",
        '[:_TOKEN].hex()}"\'\n    except',
        '[:9].hex()}"\'\n    except',
        ("tests/unit/changes/test_documents_and_webhooks.py"
         "::test_the_resume_token_orders_and_where_there_is_none_the_cluster_time",),
    ),
    Mutant(
        "a change that does not name a column with a default leaves null",
        f"{_CORE}/changes/decode/image_cells.py",
        "value if row[i] is UNSET else values[i]",
        "values[i]",
        (
            "tests/unit/changes/test_column_defaults.py"
            '::test_null_and_unavailable_are_no_absence[{"id": 1}-values0]',
        ),
    ),
    Mutant(
        "the default of a column stands in for a key that a change does not name",
        f"{_CORE}/tables/planning.py",
        "replace(c, default=None) if c.name in key else c for",
        "c for",
        ("tests/unit/changes/test_column_defaults.py"
         "::test_no_default_stands_in_for_a_key_and_a_column_of_another_type_has_none",),
    ),
    Mutant(
        "a column with a default comes without it for the rows that are there",
        f"{_CORE}/changes/decode/column_defaults.py",
        '"initial-default": told, ',
        "",
        ("tests/property/test_declared_defaults.py"
         "::test_rows_from_before_the_column_and_changes_that_do_not_name_it_have_its_default",),
    ),
    Mutant(
        "another declared default is none of the table's",
        f"{_CORE}/tables/planning.py",
        "if not promoted or not same_default(new_type, now.default, column.default):",
        "if not promoted:",
        ("tests/property/test_declared_defaults.py"
         "::test_another_default_is_for_changes_from_then_on_and_changes_no_row",),
    ),
    Mutant(
        "epochs of two declared defaults are committed by one of them",
        f"{_CORE}/dispatch/schema_ranges.py",
        "if one.default is not None)",
        "if False)",
        ("tests/unit/config/test_column_declarations.py::test_a_range_ends_where_another_default_is_declared",),
    ),
    Mutant(
        "a geometry keeps its reference system, of which its readers know nothing",
        f"{_CORE}/changes/decode/wkb.py",
        "if head != code:",
        "if False:",
        ("tests/property/test_wkb.py::test_what_postgis_writes_becomes_what_iso_writes",),
    ),
    Mutant(
        "a geometry that ends too soon is stored",
        f"{_CORE}/changes/decode/wkb.py",
        "if self._place != len(self._data):",
        "if False:",
        ("tests/property/test_wkb.py::test_bytes_that_are_cut_or_have_more_behind_are_refused",),
    ),
    Mutant(
        "the far-away point in a column of geometries is a place",
        f"{_CORE}/changes/decode/source_encodings.py",
        'Encoding("geometry" if kind.holds("wkb") else "object", members=tuple(parts))',
        'Encoding("object", members=tuple(parts))',
        ("tests/unit/changes/test_geometries.py"
         "::test_the_far_away_point_says_that_the_value_is_unavailable[struct<wkb: wkb, srid: int>-False]",),
    ),
    Mutant(
        "a table that was upgraded gets nanoseconds where it has microseconds",
        f"{_CORE}/tables/iceberg_format.py",
        'return state.properties.get(NANOSECONDS) == "true"',
        "return state.version >= _WITH_NANOSECONDS",
        ("tests/unit/changes/test_nanoseconds.py"
         "::test_a_schemas_nanoseconds_are_kept_by_tables_that_are_made_in_format_3",),
    ),
    Mutant(
        "a moment that nanoseconds do not reach is any",
        f"{_CORE}/changes/decode/values.py",
        "if FIRST_NS <= value <= LAST_NS:",
        "if value:",
        ("tests/unit/changes/test_nanoseconds.py"
         '::test_what_nanoseconds_do_not_hold_is_a_dead_letter["0001-01-01T00:00:00"-out_of_range]',),
    ),
)  # fmt: skip
