"""How far a backfill may run ahead of the commits. Pure.

What a stream's senders post waits behind what a backfill staged before it: so this is bounded by a few epochs, far
below the stream's `backlog`, at which its senders are refused.
"""

from firn.config.model import StreamConfig

_EPOCHS = 2  # of the largest size that is sealed without a backlog
_SHARE = 0.5  # of the limit at which the stream is shut


def has_room(settings: StreamConfig, waiting_bytes: int, waiting_events: int) -> bool:
    """Whether another chunk may be staged while so much waits for its commit."""
    caps, limit = settings.commit.caps, settings.backlog
    most = min(_EPOCHS * caps.bytes, _SHARE * limit.bytes)
    events = _EPOCHS * caps.events if limit.events is None else min(_EPOCHS * caps.events, _SHARE * limit.events)
    return waiting_bytes < most and waiting_events < events
