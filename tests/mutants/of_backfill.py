"""Mistakes about where a backfill's reads stand, about its wait, and about who stages a chunk."""

from typing import Final

from tests.mutants.copy import Mutant

_CORE: Final = "layers/core/python/firn/backfill"
_WHERE: Final = "tests/property/test_backfill_positions.py"
_BINLOG: Final = "tests/unit/backfill/test_mysql_log.py"
_ONCE: Final = "tests/unit/backfill/test_chunk_claims.py"

MUTANTS: Final = (
    Mutant(
        "a chunk does not wait for transactions that are in the log and not visible",
        f"{_CORE}/settling.py",
        "while (oldest := server.oldest()) < barrier:",
        "while (oldest := server.oldest()) < 0:",
        (f"{_WHERE}::test_a_commit_that_is_in_the_log_and_not_visible_yet_is_waited_for",),
    ),
    Mutant(
        "a read stands at the end of the log and not at the floor",
        f"{_CORE}/read_position.py",
        """f'["{floor}","{lsn}"]'""",
        """f'["{lsn}","{lsn}"]'""",
        (f"{_WHERE}::test_the_table_is_the_source_whatever_happens_while_a_chunk_is_read",),
    ),
    Mutant(
        "beside a pulled stream a read stands below what was streamed before",
        f"{_CORE}/read_position.py",
        "    if pulled:",
        "    if pulled and floor:",
        ("tests/property/test_backfill_moves.py::test_a_row_that_moved_before_the_backfill_is_read_above_its_move",),
    ),
    Mutant(
        "the floor of another generation counts",
        f"{_CORE}/read_position.py",
        "    if position[_GENERATION] != generation.to_bytes(4) or position[_KIND] != _STREAMED:",
        "    if not position or position[_KIND] != _STREAMED:",
        ("tests/unit/backfill/test_read_position.py::test_what_another_generation_knows_says_nothing",),
    ),
    Mutant(
        "an XA transaction that is prepared is not waited for",
        f"{_CORE}/mysql_log.py",
        "    left = _prepared(session)",
        "    left: set[tuple[Any, ...]] = set()",
        (f"{_BINLOG}::test_the_place_is_asked_for_before_what_is_prepared_and_that_is_waited_for",),
    ),
    Mutant(
        "a binlog that is behind the stream is read",
        f"{_CORE}/mysql_log.py",
        "    if floor > place.number:",
        "    if floor < 0:",
        (f"{_BINLOG}::test_a_log_that_is_behind_the_stream_or_the_plan_is_refused",),
    ),
    Mutant(
        "a batch that was claimed and never staged counts as staged",
        f"{_CORE}/chunk_claims.py",
        "    return meta is not None and meta.accepted > 0",
        "    return meta is not None",
        (f"{_ONCE}::test_whatever_call_fails_or_dies_the_next_try_leaves_one_batch[dies before]",),
    ),
    Mutant(
        "a chunk is read by places though values lie out of line",
        f"{_CORE}/chunking.py",
        "ways.places and not ways.toasted",
        "ways.places",
        ("tests/unit/backfill/test_chunking.py::test_a_table_is_cut_by_what_is_safe[auto-True-True-True-key]",),
    ),
)
