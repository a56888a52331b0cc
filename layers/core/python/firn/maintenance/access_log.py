"""Reads of objects out of S3's server access logs: who reads tables with an engine of his own leaves no other trace.

Format: https://docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html. Fields are parted by spaces; a time stands
in brackets, and what may hold spaces in quotes. Keys are URL-encoded. New fields are added at the end. Pure.
"""

import re
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import unquote_plus

_FIELD: Final = re.compile(r'\[(?P<time>[^\]]*)\]|"(?P<quoted>(?:[^"]|"(?! |$))*)"|(?P<plain>\S+)')
# Bucket owner, bucket, time, remote IP, requester, request id, operation, key, request URI, status.
_BUCKET, _TIME, _OPERATION, _KEY, _STATUS = 1, 2, 6, 7, 9
_READS: Final = frozenset({"REST.GET.OBJECT"})
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_STAMP: Final = re.compile(r"(\d{2})/([A-Z][a-z]{2})/(\d{4}):(\d{2}:\d{2}:\d{2}) ([+-]\d{4})")


class Access(NamedTuple):
    """One object that was read, whole or in part."""

    bucket: str
    key: str
    at: datetime


def parse_line(line: str) -> Access | None:
    """One line; None if it is no read of an object, one that failed, or a torn line."""
    fields = [match.group(match.lastgroup or 0) for match in _FIELD.finditer(line)]
    if len(fields) <= _STATUS or fields[_OPERATION] not in _READS or fields[_STATUS] not in ("200", "206"):
        return None
    at = _stamp(fields[_TIME])
    return None if at is None else Access(fields[_BUCKET], unquote_plus(fields[_KEY]), at)


def _stamp(text: str) -> datetime | None:
    """`06/Feb/2019:00:00:38 +0000`; not by strptime, whose months are the locale's."""
    found = _STAMP.fullmatch(text)
    if found is None or found[2] not in _MONTHS:
        return None
    month = _MONTHS.index(found[2]) + 1
    try:
        return datetime.fromisoformat(f"{found[3]}-{month:02d}-{found[1]}T{found[4]}{found[5]}")
    except ValueError:
        return None
