"""Mistakes about pipelines: what goes to several tables, what follows its base, and under which SQL."""

from typing import Final

from tests.mutants.copy import Mutant

_CORE: Final = "layers/core/python/firn"
_PIPELINES: Final = "spark_emr/firn_spark/pipelines"
_MODEL: Final = "tests/model/test_pipelines.py"
_SPARK: Final = "tests/integration/spark"

MUTANTS: Final = (
    Mutant(
        "a mirror stays as it is when its base is committed to",
        f"{_CORE}/commit/job.py",
        "        self._follow()\n        self._say_held()\n",
        "        self._say_held()\n",
        (f"{_MODEL}::test_a_mirror_stays_with_a_base_that_is_held_and_comes_with_it_again",),
    ),
    Mutant(
        "a mirror that was rolled back is held, though its base has all of it",
        f"{_CORE}/commit/job.py",
        "if stand.rolled_back and table not in resting:",
        "if stand.rolled_back:",
        (f"{_MODEL}::test_whichever_is_rolled_back_the_mirror_is_what_its_base_is[the mirror]",),
    ),
    Mutant(
        "of changes that go to several tables the audit counts each once",
        f"{_CORE}/audit/verdict.py",
        "found.difference = found.acked + found.copies - parts",
        "found.difference = found.acked - parts",
        ("tests/unit/audit/test_pipelines.py::test_what_goes_to_two_tables_is_accounted_for_in_both",),
    ),
    Mutant(
        "a table takes changes as another one has decoded them by other types",
        "spark_emr/firn_spark/merge/shared_decoding.py",
        "if by == decoding:",
        "if by:",
        ("tests/unit/spark/test_shared_decoding.py::test_tables_that_decode_otherwise_or_other_changes_share_nothing",),
    ),
    Mutant(
        "what is unknown of a row is not true, and so its opposite is",
        f"{_CORE}/changes/row_condition.py",
        "return None if found is None else not found",
        "return not found",
        ("tests/unit/config/test_delete_condition.py::test_what_is_unknown_is_not_true_and_neither_is_its_opposite",),
    ),
    Mutant(
        "of changes that are left out the rows of others stand beside those that come next",
        "spark_emr/firn_spark/merge/shared_decoding.py",
        "if len(found) == len(changes):",
        "if len(found):",
        (
            "tests/unit/spark/test_shared_decoding.py::test_what_travels_beside_changes_is_what_they_are_decoded_to[False]",
        ),
    ),
)

WITH_SPARK: Final = (
    Mutant(
        "all epochs of a range run under the SQL of the newest",
        f"{_CORE}/commit/range_parts.py",
        "key=lambda n: appending(pipelines.get(n, ()))",
        "key=lambda n: 0",
        (
            f"{_SPARK}/test_pipelines_append.py"
            "::test_each_epoch_runs_under_the_sql_that_it_names_though_they_are_committed_together",
        ),
    ),
    Mutant(
        "rows of two pipelines out of one change are taken for one",
        f"{_PIPELINES}/feed_columns.py",
        'found[ID].take(made.origin), feed.pipeline, made.number.cast(pa.string()), "/"',
        'found[ID].take(made.origin), "", made.number.cast(pa.string()), "/"',
        (f"{_SPARK}/test_pipelines_append.py::test_one_table_takes_the_rows_of_a_rule_and_of_two_pipelines",),
    ),
    Mutant(
        "a mirror keeps the rows that its base has deleted",
        f"{_PIPELINES}/base_delta.py",
        "    for path, places in gone.items():\n",
        "    for path, places in {}.items():\n",
        (f"{_SPARK}/test_pipelines_mirror.py::test_a_small_change_of_the_base_costs_the_mirror_a_small_one",),
    ),
    Mutant(
        "a mirror keeps the rows of its former SQL",
        "spark_emr/firn_spark/following.py",
        "told is not None and told[1] == pipeline.sha and not whole",
        "told is not None and not whole",
        (f"{_SPARK}/test_pipelines_mirror.py::test_another_sql_makes_all_of_it_again_in_one_snapshot",),
    ),
)
