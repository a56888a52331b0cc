"""The rate limit in front of the embedded stack: a token bucket of bytes, where API Gateway counts requests."""

from firn.log.byte_rate import ByteBucket

__all__ = ["DEFAULT_RATE", "ByteBucket"]

DEFAULT_RATE = 10_000_000
"""Bytes a second."""
