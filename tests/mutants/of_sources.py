"""Mistakes in pulling a database."""

from typing import Final

from tests.mutants.copy import Mutant

_SOURCES: Final = "layers/core/python/firn/sources"
_PULL: Final = f"{_SOURCES}/pull.py"
_PULLS: Final = "layers/core/python/firn/log/pulls.py"
_CHANGES: Final = f"{_SOURCES}/postgres/transaction_changes.py"
_OF_PULL: Final = "tests/unit/sources/test_pull.py"
_OF_MESSAGES: Final = "tests/unit/sources/test_pgoutput.py"
_DIES: Final = f"{_OF_PULL}::test_a_pull_that_dies_anywhere_stages_each_change_once[0]"
_WAL2JSON: Final = f"{_SOURCES}/postgres/wal2json_lines.py"
_OF_WAL2JSON: Final = "tests/unit/sources/test_wal2json.py"
_LATE: Final = (
    "tests/unit/sources/test_late_plan.py::test_a_plan_that_is_finished_hours_late_is_sealed_by_the_normal_schedule"
)
_STOPS: Final = f"{_OF_PULL}::test_a_log_that_does_not_go_on_where_the_last_plan_ended_stops_the_source"

MUTANTS: Final = (
    Mutant(
        "a round of a pull reads under a configuration that was replaced while the database looked",
        f"{_SOURCES}/pull.py",
        "if not published_configs.is_current(store, config.sha):",
        "if source is None:",
        (
            f"{_OF_PULL}"
            "::test_what_is_committed_after_a_publish_is_routed_by_it_however_long_the_database_takes_to_look",
        ),
    ),
    Mutant(
        "a late plan is sealed under a configuration that is no longer the current one",
        f"{_SOURCES}/late_plan.py",
        "if not published_configs.is_current(store, config.sha):",
        "if caps is None:",
        ("tests/unit/sources/test_late_plan.py::test_a_late_plan_is_sealed_under_no_older_configuration",),
    ),
    Mutant(
        "the slot is let go before its changes are staged",
        _PULL,
        "    parts = _Parts(task, config, database, plan, there)\n",
        "    parts = _Parts(task, config, database, plan, there)\n    database.advance(upto)\n",
        (_DIES,),
    ),
    Mutant(
        "a plan that was not finished is taken for done",
        _PULL,
        "if last is not None and last.done is None:",
        "if last is not None and last.done is None and False:",
        (_DIES,),
    ),
    Mutant(
        "what plans hold is read again after the database forgot",
        _PULL,
        "return begin <= message.commit_lsn < upto",
        "return message.commit_lsn < upto",
        (f"{_OF_PULL}::test_what_plans_hold_is_skipped_though_the_slot_is_further_back",),
    ),
    Mutant(
        "a promoted replica is read on",
        _PULL,
        "if before.timeline != now.timeline:",
        "if False:",
        (f"{_STOPS}[timeline]",),
    ),
    Mutant(
        "a slot that begins after the last plan is read on",
        _PULL,
        "if state.confirmed > last.plan.upto_lsn:",
        "if False:",
        (f"{_STOPS}[ahead]",),
    ),
    Mutant(
        "parts of a transaction are sealed before the others are there",
        _PULLS,
        "if done is None or (",
        "if False or (done is not None and ",
        (f"{_OF_PULL}::test_parts_of_a_large_transaction_are_sealed_in_one_epoch_or_not_at_all",),
    ),
    Mutant(
        "a listing from before the last part counts as whole",
        _PULLS,
        "done.parts > len(batches) and done.parts > sum(_family(one) == family for one in there)",
        "done.parts < 0",
        (f"{_OF_PULL}::test_a_listing_that_is_older_than_the_last_part_seals_nothing_of_the_plan",),
    ),
    Mutant(
        "an epoch ends inside a transaction",
        _PULLS,
        "while 0 < end < len(plans) and plans[end] is not None and plans[end] == plans[end - 1]:",
        "while False:",
        (f"{_OF_PULL}::test_parts_of_a_large_transaction_are_sealed_in_one_epoch_or_not_at_all",),
    ),
    Mutant(
        "an epoch ends inside a plan that goes on behind what was looked at",
        "layers/core/python/firn/log/epochs.py",
        "        plans.append(plans[-1])",
        "        pass",
        (f"{_OF_PULL}::test_a_plan_that_stands_across_the_end_of_a_window_is_sealed_whole",),
    ),
    Mutant(
        "a plan that was finished hours late is left to dispatch, whose listings begin after it",
        _PULL,
        "    if late:\n",
        "    if late and False:\n",
        (f"{_LATE}[after pulls]",),
    ),
    Mutant(
        "a plan that was finished late, and its function died before it was sealed, is left to dispatch",
        _PULL,
        "if last.done and last.done.late:",
        "if False:",
        (f"{_LATE}[before epochs]",),
    ),
    Mutant(
        "a source that gets another name begins at its slot, and stages again what was staged",
        _PULL,
        "    newest = newest or pulls.newest_of_others(store, source.stream, source.name)\n",
        "",
        (f"{_OF_PULL}::test_a_source_that_gets_another_name_goes_on_where_it_was[before advance]",),
    ),
    Mutant(
        "two tables of one name are mixed",
        f"{_SOURCES}/table_lookup.py",
        "    if own in called:\n",
        "    if False:\n",
        (f"{_OF_PULL}::test_two_tables_of_one_name_by_where_the_dot_stands_are_not_mixed",),
    ),
    Mutant(
        "what wal2json leaves out of an update is null",
        _WAL2JSON,
        "new = _values(relation, line.columns, UNCHANGED)",
        "new = _values(relation, line.columns, None)",
        (f"{_OF_WAL2JSON}::test_a_transaction_and_its_changes",),
    ),
    Mutant(
        "a partition's truncate empties its root",
        _WAL2JSON,
        "if known is not None and known.partition:",
        "if False:",
        (f"{_OF_WAL2JSON}::test_a_partition_goes_by_its_roots_name_and_is_not_truncated_by_itself",),
    ),
    Mutant(
        "a key whose old values no change holds is followed by its new ones",
        f"{_SOURCES}/table_lookup.py",
        "    if _holds(rule, said):\n",
        "    if True:\n",
        (f"{_OF_PULL}::test_a_key_whose_old_values_no_change_holds_is_refused",),
    ),
    Mutant(
        "a database that was set back and has written since is read on",
        _PULL,
        "            _expect_same_log(task, config, database, last, state)\n",
        "",
        (f"{_OF_PULL}::test_a_database_that_was_set_back_and_has_written_since_stops_the_source[True-False]",),
    ),
    Mutant(
        "a plan is read again by another publication",
        _PULL,
        "peek(upto, plan.publication or task.source.publication)",
        "peek(upto, task.source.publication)",
        (f"{_OF_PULL}::test_a_plan_is_read_again_by_the_publication_that_it_was_made_of",),
    ),
    Mutant(
        "half a primary key tells rows apart",
        f"{_SOURCES}/table_lookup.py",
        "if keyed and (gone :=",
        "if False and (gone :=",
        (f"{_OF_PULL}::test_half_a_primary_key_is_none",),
    ),
    Mutant(
        "a key that changes is an update of the new row alone",
        _CHANGES,
        "        if moved:\n",
        "        if moved and False:\n",
        (f"{_OF_MESSAGES}::test_the_recorded_changes_lead_to_the_recorded_tables",),
    ),
    Mutant(
        "equal rows of one COPY have one number",
        _CHANGES,
        "self._number += 1\n        if not wanted:",
        "self._number = 1\n        if not wanted:",
        (f"{_OF_MESSAGES}::test_what_was_recorded_holds_each_kind_of_change",),
    ),
    Mutant(
        "a text that is Debezium's placeholder is taken for an unavailable value",
        "layers/core/python/firn/changes/decode/codec.py",
        "_never if ruled else is_mark if s.marked else placeholder.test(s, k)",
        "_never if ruled else placeholder.test(s, k)",
        ("tests/unit/sources/test_column_forms.py::test_no_value_is_taken_for_the_mark_of_an_unavailable_one",),
    ),
)  # fmt: skip
