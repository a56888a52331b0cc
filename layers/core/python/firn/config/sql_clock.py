"""How the SQL of a view asks for the time at which it is refreshed. Pure, by its words alone: dispatch goes by it."""

from itertools import pairwise
from typing import Final

from firn.config.sql_text import SqlRefused, tokens

CALLS: Final = frozenset({
    "now", "today", "get_current_timestamp", "transaction_timestamp", "current_localtimestamp", "current_timestamp",
    "current_date", "localtimestamp",
})  # fmt: skip
"""Functions, in lower case."""
WORDS: Final = frozenset({"current_timestamp", "current_date", "localtimestamp"})
"""What means the same without brackets, in lower case. In quotes it is a column."""
_EVERY: Final = (*CALLS, *WORDS)


def reads_clock(sql: str) -> bool:
    """Whether a SQL asks for the time anywhere. False for what is no SQL."""
    low = sql.lower()
    if not any(one in low for one in _EVERY):
        return False
    try:
        found = tokens(sql)
    except SqlRefused:
        return False
    calls = any(one.is_name and one.text.lower() in CALLS and then.mark == "(" for one, then in pairwise(found))
    words = (
        one.word.lower() in WORDS and before.mark != "." and before.word != "AS"
        for before, one in pairwise([*found[:1], *found])
    )
    return calls or any(words)
