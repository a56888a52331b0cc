"""The C library's heaps. glibc gives each thread one of its own, which keeps what was freed in it: forty threads serve
requests here, and Python lets one of them run at a time. mallopt(3)."""

import ctypes
import sys
from contextlib import suppress
from typing import Final

_M_ARENA_MAX: Final = -8  # malloc.h
_HEAPS: Final = 2


def share_heaps() -> None:
    """All threads that are started from now on share a few; where there is another C library nothing happens."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # musl has no such call, and no such heaps
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _HEAPS)
