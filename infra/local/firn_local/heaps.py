"""The C library's heaps (glibc, mallopt(3)). Each thread would have one of its own, which keeps what was freed in it,
large answers too: forty threads serve requests here, and Python lets one of them run at a time."""

import ctypes
import sys
from contextlib import suppress
from typing import Final

_M_MMAP_THRESHOLD: Final = -3  # malloc.h
_M_ARENA_MAX: Final = -8
_HEAPS: Final = 2
LARGE: Final = 256 << 10  # bytes from which on a block is given back as soon as it is freed


def share_heaps() -> None:
    """All threads that are started from now on share a few heaps, and bodies of requests and answers lie in none; where
    there is another C library nothing happens."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # musl has no such call, and no such heaps
            library = ctypes.CDLL(None)
            library.mallopt(_M_ARENA_MAX, _HEAPS)
            library.mallopt(_M_MMAP_THRESHOLD, LARGE)
