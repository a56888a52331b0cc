"""Storage of each cloud, as a server on this machine answers for it."""

from tests.clouds import cloud, server

__all__ = ["cloud", "server"]
