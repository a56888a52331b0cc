"""Mistakes about raised generations, about logs that are started over, and about keys and clocks of senders."""

from typing import Final

from tests.mutants.copy import Mutant

_CORE: Final = "layers/core/python/firn"
_AGAIN: Final = "tests/unit/changes/test_redelivery.py"
_LOG: Final = "tests/unit/log/test_generations.py"
_TIMES: Final = "tests/unit/quarantine/test_source_time.py"
_CASE: Final = "tests/model/test_memory_lake.py::test_contract"

MUTANTS: Final = (
    Mutant(
        "an old change that comes again counts under the raised generation",
        f"{_CORE}/changes/merge/ordering.py",
        "    if by.kept:\n",
        "    if not by:\n",
        (f"{_AGAIN}::test_what_came_before_keeps_its_generation_and_everything_else_has_the_batchs",
         f"{_CASE}[a_change_that_comes_again_after_the_generation_was_raised_keeps_its_own]"),
    ),
    Mutant(
        "a change of the restored source is taken for one of the old one's at its place",
        f"{_CORE}/changes/redelivery.py",
        "order[5:], time or 0)",
        "order[5:], 0)",
        (f"{_AGAIN}::test_what_differs_in_table_place_time_op_or_content_is_another_change",),
    ),
    Mutant(
        "a change that came in several generations has the one that is read last",
        f"{_CORE}/changes/redelivery.py",
        "found[name] = min(found.get(name, 1 << 32), generation_of(order))",
        "found[name] = generation_of(order)",
        (f"{_AGAIN}::test_the_lowest_generation_that_the_log_has_of_a_change_is_its_own",),
    ),
    Mutant(
        "a replayed dead letter's own generation is overruled",
        f"{_CORE}/changes/redelivery.py",
        "if where is not None and own is None else None",
        "if where is not None else None",
        (f"{_AGAIN}::test_a_replayed_dead_letter_keeps_the_generation_that_it_died_under",),
    ),
    Mutant(
        "a batch that is sealed again counts under the newer generation",
        f"{_CORE}/log/generations.py",
        "first = self._named_first.get(batch, epoch)",
        "first = epoch",
        (f"{_LOG}::test_a_batch_that_is_sealed_again_keeps_that_of_the_first_epoch_that_names_it",
         f"{_CASE}[a_batch_that_is_sealed_again_keeps_the_generation_of_its_first_epoch]"),
    ),
    Mutant(
        "what a restored source sent before its generation was raised stays under the old one",
        f"{_CORE}/log/generations.py",
        "if n >= first and own <= below:",
        "if n < first and own <= below:",
        (f"{_LOG}::test_epochs_that_a_restored_source_held_count_under_what_let_them_go_on[-generations0]",
         "tests/model/test_quarantine.py::test_a_restored_source_holds_the_stream_until_its_generation_is_raised"),
    ),
    Mutant(
        "a stream is held for a source that went back before its generation was raised",
        f"{_CORE}/commit/job.py",
        "if found.generation >= work.settings.generation:",
        "if found.generation >= 0:",
        ("tests/model/test_quarantine.py"
         "::test_what_a_restored_source_sent_before_its_generation_was_raised_counts_under_the_raised_one",),
    ),
    Mutant(
        "clocks that are apart hide what came before",
        f"{_CORE}/log/generations.py",
        "return _ms(before) + SKEW // _MS if",
        "return _ms(before) if",
        (f"{_LOG}::test_changes_are_looked_up_as_far_as_a_lower_generation_may_have_told_them",),
    ),
    Mutant(
        "a new generation inherits the old high time",
        f"{_CORE}/quarantine/rules.py",
        "max(span.newest, high[1]) if high and same else span.newest",
        "max(span.newest, high[1]) if high else span.newest",
        (f"{_TIMES}::test_a_new_generation_has_a_time_of_its_own",),
    ),
    Mutant(
        "a new generation takes the time of the old one's changes in its range",
        f"{_CORE}/quarantine/rules.py",
        'return max(top[_GENERATION] if top else b"", bytes',
        "return max(b\"\", bytes",
        (f"{_TIMES}::test_changes_of_the_generation_before_in_one_range_say_nothing_about_the_new_ones_time",),
    ),
    Mutant(
        "a warm dispatcher goes by the epochs of a log that is gone",
        f"{_CORE}/log/epochs.py",
        "if any(found.get(n) != version for n, version in kept.items() if n > after):",
        "if any(n not in found for n in kept if n > after):",
        ("tests/unit/log/test_epochs.py"
         "::test_a_warm_dispatcher_takes_no_epoch_of_an_emptied_staging_area_for_one_of_the_new",),
    ),
    Mutant(
        "a body is judged after its key was used",
        f"{_CORE}/ingest/accept.py",
        "        made = _batch_of(",
        "        if key is not None:\n"
        "            receipts.claim(store, key, body, layout.batch_id(stream, now, bytes(8)), key_header, config.sha)\n"
        "        made = _batch_of(",
        ("tests/unit/ingest/test_accept.py::test_a_body_that_is_refused_does_not_use_up_its_key[Idempotency-Key]",),
    ),
    Mutant(
        "a producer begins where the clock says, behind its own last write",
        f"{_CORE}/producer.py",
        "1 + _started.get((url, stream), -1)",
        "now",
        ("tests/unit/cli/test_producer.py"
         "::test_a_later_producer_wins_in_one_process_though_the_clock_goes_back",),
    ),
    Mutant(
        "a producer forgets its last start",
        f"{_CORE}/producer.py",
        "            _remember(state, start)\n",
        "            _remember(state, now)\n",
        ("tests/unit/cli/test_producer.py"
         "::test_a_producer_with_a_state_wins_over_earlier_runs_though_the_clock_goes_back",),
    ),
)  # fmt: skip
