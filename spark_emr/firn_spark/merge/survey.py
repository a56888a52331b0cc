"""What one pass over the decoded changes of a mirror table tells, before any of them is decided."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Survey:
    """What one pass over decoded changes tells.

    changes, rejected    how many there are, and how many of them are dead letters; `truncates`: of these
    unavailable          ordinals that updates leave out (row_decoder.OTHERS_LEFT_OUT may be among them);
                         `creates_unavailable`: whether creates leave some out too
    nulls                required columns that hold a null
    newest_fact          `_ord` of the newest change that is to be remembered, b"" if there is none
    low                  `_ord` of the oldest change, b"" if there is none
    least, greatest      value of the key's first column (values.key_type), of plain changes; None if there is none
    """

    changes: int
    rejected: int
    truncates: int
    unavailable: tuple[int, ...]
    creates_unavailable: bool
    nulls: tuple[int, ...]
    newest_fact: bytes
    low: bytes
    least: Any = None
    greatest: Any = None
