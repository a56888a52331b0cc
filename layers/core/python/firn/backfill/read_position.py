"""Where a chunk's reads stand among the stream's changes. Pure; docs/adr/0061-backfill.md has the proof.

A streamed change of PostgreSQL has the position [end of the commit before it, its own LSN] (changes/positions.py). A
read has [floor, P]: P is the place in the log that was asked for before the chunk's snapshot was opened
(settling.py), and the floor is the highest place of which the stream's tables knew before that. A change that the
snapshot does not show was made by a transaction that committed after all that the stream had told by then: the end of
the commit before it is at the floor or above it, and of two equal ones a streamed change wins. So no stale row stands.

P itself can't be the first part: in a quiet database the commit before that change may lie far below P. But where Firn
reads the slot itself, a change stands at [its own commit, its own LSN], and the read at [P, P]: below all that the
snapshot does not show, above all that was committed before P, known to the tables or not (docs/adr/0066-moved-rows.md).
"""

from typing import Final

from firn.errors import TerminalError

_GENERATION: Final = slice(0, 4)
_COMMIT: Final = slice(4, 20)
_KIND: Final = 20
_CHANGE: Final = slice(21, 45)
_STREAMED: Final = 1
NEVER: Final = 2**63 - 1  # above every LSN that a server gives


def floor_of(high: str | None, generation: int) -> int:
    """The first part of the reads' position, by the highest position that the stream's newest cut knows (hex).

    0, as Debezium's own snapshot reads have it, where nothing of this generation is known, or the stream tells no
    commits: then every streamed change wins. Else the last change's own LSN, if it is above the commit before it: what
    comes later was committed later.
    """
    position = bytes.fromhex(high) if high else b""
    if position[_GENERATION] != generation.to_bytes(4) or position[_KIND] != _STREAMED:
        return 0
    commit = int.from_bytes(position[_COMMIT])
    return max(commit, int.from_bytes(position[_CHANGE])) if commit else 0


def order_of_read(floor: int, lsn: int, *, pulled: bool = False) -> str:
    """The order text of the reads of a chunk, as changes/positions.py reads PostgreSQL's. `pulled`: whether the
    stream's changes stand at their own commits, as those do that Firn reads from a slot.

    Raises ForeignStream if the stream knows of places that this server's log has not reached.
    """
    if floor > lsn:
        raise ForeignStream(
            f"the stream's changes stand at {lsn_text(floor)} and the server's log ends at {lsn_text(lsn)}: this is "
            "not the server that the stream comes from, or it was restored. Correct --from, or raise the stream's "
            "`generation` in firn.yaml, publish it, and run `firn backfill --replace` (docs/backfill.md)"
        )
    if pulled:
        return f'["{lsn}","{lsn}"]'
    return f'["{floor}","{lsn}"]'


class ForeignStream(TerminalError):
    """The stream's positions are not of this server's log."""


def lsn_of(text: str) -> int:
    """PostgreSQL's name of a place in its log (`16/B374D848`) as a number. ValueError if it is none."""
    high, slash, low = text.partition("/")
    if not slash:
        raise ValueError(f"{text[:40]!r} is not a place in PostgreSQL's log; write such as 16/B374D848")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    """The place as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
