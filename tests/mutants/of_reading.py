"""Mistakes on the way from a table to who reads it."""

from typing import Final

from tests.mutants.copy import Mutant

_LAKE: Final = "layers/lake/python/firn_lake"
_TESTS: Final = "tests/unit/lake/test_pushdown.py"

MUTANTS: Final = (
    Mutant(
        "files are chosen by bounds that know of no NaN",
        f"{_LAKE}/pushdown.py",
        'field is None or (op in (">", ">=") and isinstance(field.field_type, FloatType | DoubleType))',
        "field is None",
        (f'{_TESTS}::test_a_predicate_that_iceberg_may_see_otherwise_chooses_no_files[("ratio" > 1.0::DOUBLE)]',),
    ),
    Mutant(
        "DuckDB is told that rows are filtered, and they are not",
        f"{_LAKE}/scanning.py",
        "left = batch if keep is None else batch.filter(keep)",
        "left = batch",
        (f"{_TESTS}::test_each_use_of_a_table_reads_what_it_needs",),
    ),
    Mutant(
        "a deployment that does not say who may read lets everybody",
        "layers/core/python/firn/security/readers.py",
        "if not open_to_all:",
        "if False:",
        ("tests/unit/functions/test_query.py::test_nobody_reads_where_it_is_not_said_who",),
    ),
)
