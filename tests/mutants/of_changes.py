"""Mistakes about order and about what a table must remember."""

from typing import Final

from tests.mutants.copy import Mutant

_CHANGES: Final = "layers/core/python/firn/changes"
_POSITIONS: Final = f"{_CHANGES}/positions.py"
_INCREMENTAL: Final = f"{_CHANGES}/incremental.py"
_POSITION_TESTS: Final = "tests/unit/changes/test_positions.py"
_ANY_ORDER: Final = "tests/property/test_incremental.py::test_any_order_any_split_any_repeat_equals_the_specification"
_AT_EACH_STEP: Final = (
    "tests/property/test_incremental.py::test_after_each_batch_it_equals_the_specification_of_what_has_come"
)
_BACKWARDS: Final = "tests/property/test_incremental.py::test_one_change_at_a_time_backwards"

MUTANTS: Final = (
    Mutant(
        "the guard is dropped: what arrives last wins",
        _INCREMENTAL,
        "newer, older = (told, there) if told.order > there.order else (there, told)",
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
        "positions are compared as text",
        _POSITIONS,
        "return generation.to_bytes(4) + commit.to_bytes(16) + kind + change.to_bytes(24)",
        "return generation.to_bytes(4) + f'{commit}'.encode().ljust(16) + kind + f'{change}'.encode().ljust(24)",
        (f"{_POSITION_TESTS}::test_lsns_are_compared_as_numbers_not_as_text",),
    ),
    Mutant(
        "changes are ordered by ts_ms",
        f"{_CHANGES}/sources.py",
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
        '_RANK = {"t": b"\\0", "d": b"\\1", "r": b"\\2", "c": b"\\3", "u": b"\\4"}',
        '_RANK = {"t": b"\\0", "d": b"\\4", "r": b"\\1", "c": b"\\2", "u": b"\\3"}',
        (f"{_POSITION_TESTS}::test_of_two_changes_at_one_position_the_create_beats_the_delete",),
    ),
    Mutant(
        "of two changes at one position the first to arrive wins",
        _POSITIONS,
        "blake2b(content, digest_size=8).digest()",
        "bytes(8)",
        (f"{_POSITION_TESTS}::test_equal_changes_have_equal_keys_and_others_differ",),
    ),
    Mutant(
        "a held value outlives the delete that came in between",
        _INCREMENTAL,
        "lost = {column for column, order in row.held.items() if order <= gone}",
        "lost: set[str] = set()",
        (_AT_EACH_STEP,),
    ),
    Mutant(
        "a late full change does not fill the columns that a newer one left out",
        _INCREMENTAL,
        "if column in older.values and older.column_order(column) > order:",
        "if column in older.values and newer is told:",
        (_BACKWARDS,),
    ),
    Mutant(
        "deletes are not remembered",
        _INCREMENTAL,
        '(change.op in "dt" or',
        '(change.op in "t" or',
        (_BACKWARDS,),
    ),
    Mutant(
        "truncates are not remembered",
        _INCREMENTAL,
        '(change.op in "dt" or',
        '(change.op in "d" or',
        (_BACKWARDS,),
    ),
    Mutant(
        "the row that a delete takes is not remembered",
        _INCREMENTAL,
        "removed.append((key, row))",
        "continue",
        ("tests/property/test_incremental.py"
         "::test_what_comes_in_order_on_a_table_older_than_the_log_needs_only_its_rows",),
    ),
    Mutant(
        "the halves of a move are not linked",
        _INCREMENTAL,
        "linked = linked_keys(new, facts)",
        "linked: set[Key] = set()",
        (_ANY_ORDER,),
    ),
    Mutant(
        "a late truncate leaves what a move took from before it",
        _INCREMENTAL,
        '(change.op == "t" or change.key == delete.key)',
        "change.key == delete.key",
        ("tests/property/test_incremental.py"
         "::test_what_a_move_took_from_a_row_goes_with_a_truncate_that_turns_out_to_lie_between",),
    ),
    Mutant(
        "all equal rows of a COPY are one",
        f"{_CHANGES}/placing.py",
        "found.append(alike.setdefault(-index - 1 if at is None else at, len(alike)))",
        "found.append(0)",
        ("tests/unit/changes/test_placing.py::test_the_equal_rows_of_one_copy_are_as_many_changes",),
    ),
    Mutant(
        "an event that is brought twice is two",
        f"{_CHANGES}/placing.py",
        "found.append(alike.setdefault(-index - 1 if at is None else at, len(alike)))",
        "found.append(alike.setdefault(-index - 1, len(alike)))",
        ("tests/unit/changes/test_placing.py::test_an_event_that_one_request_brings_twice_is_one_change",),
    ),
    Mutant(
        "the old name of a renamed column counts where a row has both",
        f"{_CHANGES}/codec.py",
        "return column.earlier if column.silent else (column.name, *column.earlier)",
        "return column.earlier if column.silent else (*column.earlier, column.name)",
        ("tests/property/test_renames.py::test_a_change_says_the_same_under_whichever_name[False]",),
    ),
    Mutant(
        "a keyless image joins without holding the key",
        f"{_CHANGES}/rows.py",
        """            self._require_key(change["after"])""",
        """            pass""",
        ("tests/unit/changes/test_told.py::test_a_keyless_image_joins_if_it_holds_the_key_and_is_dead_if_not",),
    ),
    Mutant(
        "a column that becomes text has other text at once than by a rewrite",
        f"{_CHANGES}/codec.py",
        "step if through is None else _then(step, finish)",
        "step",
        ("tests/property/test_texts.py::test_a_column_has_one_type_and_one_text_however_it_is_split",),
    ),
    Mutant(
        "a float that becomes a double is promoted",
        f"{_CHANGES}/texts.py",
        "(lambda value: float(_digits_of_single(value))) if old == FLOAT else float",
        "float",
        ("tests/property/test_texts.py::test_a_column_has_one_type_and_one_text_however_it_is_split",),
    ),
)  # fmt: skip
