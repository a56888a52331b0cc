"""Mistakes about the SQL of pipelines and views: what it may say, and of which event a row is."""

from typing import Final

from tests.mutants.copy import Mutant

_SQL: Final = "layers/lake/python/firn_sql"
_CONFIG: Final = "layers/core/python/firn/config"
_RUN: Final = "tests/unit/sql/test_transform.py"
_REFUSED: Final = "tests/unit/sql/test_refused_sql.py"
_PLACE: Final = f"{_REFUSED}::test_the_reason_says_what_and_where"
_VIEW: Final = "tests/unit/sql/test_view_check.py::test_what_no_refresh_could_keep_is_refused_there_too"
_PIPELINES: Final = "tests/unit/config/test_pipelines.py"

MUTANTS: Final = (
    Mutant(
        "conditions are moved, so that a cast fails or not by what is cheaper",
        f"{_SQL}/transform.py",
        'NOT_OPTIMIZED: Final = "filter_pushdown,expression_rewriter,reorder_filter,statistics_propagation"',
        'NOT_OPTIMIZED: Final = "statistics_propagation"',
        (f"{_RUN}::test_conditions_run_as_they_are_written",),
    ),
    Mutant(
        "the partners of an event have numbers by the order in which they were read",
        f"{_SQL}/partners.py",
        "SELECT * FROM {_FOUND} ORDER BY ALL",
        "SELECT * FROM {_FOUND}",
        ("tests/property/test_stream_joins.py::test_partners_are_numbered_by_their_values_alone",),
    ),
    Mutant(
        "numbers of two types are compared in one that does not hold them",
        f"{_SQL}/partners.py",
        "    if own == kind:\n",
        "    if own:\n",
        ("tests/property/test_stream_joins.py::test_numbers_of_any_size_are_compared_by_what_they_are",),
    ),
    Mutant(
        "a column that might be of either table is taken",
        f"{_SQL}/joins.py",
        "if len(parts) < 2 or (name != source and name not in found):",
        "if len(parts) > 1 and name != source and name not in found:",
        (_PLACE,),
    ),
    Mutant(
        "all rows of an event have one number",
        f"{_SQL}/transform.py",
        "    return pc.subtract(pa.arange(0, len(origin)).cast(pa.int32()), begins)\n",
        "    return pc.subtract(begins, begins)\n",
        (f"{_RUN}::test_each_row_knows_the_row_that_it_is_of",),
    ),
    Mutant(
        "a good row goes with the bad one beside it",
        f"{_SQL}/isolation.py",
        "        if end - start == 1:\n",
        "        if end - start <= 2:\n",
        (f"{_RUN}::test_rows_that_fail_in_a_query_of_several_selects_are_told_apart_too",),
    ),
    Mutant(
        "a function that nobody looked at is taken",
        f"{_SQL}/check.py",
        "        if low not in allowed.FUNCTIONS:\n",
        "        if low not in allowed.FUNCTIONS and False:\n",
        (f"{_PLACE}[SELECT a FROM c WHERE b > random()-column 27: random gives another value each time]",),
    ),
    Mutant(
        "a field of a struct is taken for the key of a mirror",
        f"{_SQL}/mirrors.py",
        "    if len(parts) > 2 or (len(parts) == 2 and parts[0].lower() != table.lower()):\n",
        "    if len(parts) > 2:\n",
        (
            f"{_REFUSED}::test_a_mirror_needs_its_key_and_nothing_that_changes_by_itself"
            "[o.id AS k--the key column id does not pass through unchanged]",
        ),
    ),
    Mutant(
        "a source that only pipelines read is filtered out",
        f"{_CONFIG}/model.py",
        "        return self.rule_for(table) is not None or bool(self.pipelines_of(table))\n",
        "        return self.rule_for(table) is not None\n",
        (f"{_PIPELINES}::test_a_source_that_only_pipelines_read_is_wanted",),
    ),
    Mutant(
        "bytes of another length than their column's are written",
        f"{_SQL}/output_columns.py",
        "        for place in _of_other_length(array, column.type):\n",
        "        for place in ():\n",
        (f"{_RUN}::test_bytes_of_another_length_do_not_fit_the_table[fixed[3]-values0-bad0]",),
    ),
    Mutant(
        "two pipelines mirror into one table",
        f"{_CONFIG}/shared_tables.py",
        "    if rule.keyed and (placed.pipeline or other.pipeline):\n",
        "    if rule.keyed and (placed.pipeline and not other.pipeline):\n",
        (f"{_PIPELINES}::test_two_mirrors_never_share_a_table_and_appends_may",),
    ),
    Mutant(
        "a view reads a table that dispatch does not know of",
        f"{_SQL}/views/view_check.py",
        "        if path not in known:\n",
        "        if path not in known and len(path) == 1:\n",
        (
            f"{_VIEW}[SELECT a FROM shop.orders, (FROM shop.lines)"
            "-it reads 'shop.lines', which does not stand right after]",
        ),
    ),
    Mutant(
        "a view is at home where not all that it reads is fed",
        f"{_CONFIG}/views_reader.py",
        "        home = min((one for one in every if one is not None), default=None)\n",
        "        home = max((one for one in every if one is not None), default=None)\n",
        ("tests/unit/config/test_views.py::test_views_come_after_those_that_they_read",),
    ),
    Mutant(
        "a table is made of a source table that a view has the name of",
        f"{_CONFIG}/views_reader.py",
        "            if not may_fill(text, name):\n",
        "            if may_fill(text, name):\n",
        ("tests/unit/config/test_views.py::test_a_pattern_may_not_fill_a_view",),
    ),
)
