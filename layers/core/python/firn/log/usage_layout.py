"""Where lies what tenants have used: `usage/`, of readers, of streams' writers and of jobs."""

from datetime import UTC, datetime


def month_of(when: datetime) -> str:
    """The month of an account, `2026-01`: UTC's."""
    return f"{when.astimezone(UTC):%Y-%m}"


def reader_prefix(reader: str, month: str) -> str:
    """Below which lie the links of what a reader of `query.readers` has used in a month (log/query_usage.py)."""
    return f"usage/readers/{reader}/{month}"


def reader_link(reader: str, month: str, n: int) -> str:
    """Link `n` (from 1) of that."""
    return f"{reader_prefix(reader, month)}/{n:020d}.json"


def reader_mark(reader: str, month: str) -> str:
    """A link from which on the newest is found; overwritten. Advice: a lost one costs a longer listing."""
    return f"usage/marks/{reader}/{month}.json"


def stream_prefix(stream: str) -> str:
    """Below which lie the accounts of what was sent to a stream (usage/stream_account.py)."""
    return f"usage/streams/{stream}"


def stream_path(stream: str, month: str) -> str:
    """That of a month; overwritten."""
    return f"{stream_prefix(stream)}/{month}.json"


def jobs_prefix(month: str, pool: str) -> str:
    """Below which lies what jobs of a month used: those started for a stream, or for care (usage/job_account.py)."""
    return f"usage/jobs/{month}/{pool}"
