"""A plan that was finished late: whoever looks for what is staged begins after its batches, so the pull seals them.

The batches of a plan have the time of the plan. A listing begins `log.epochs.OVERLAP` before what the newest epoch
holds; a plan that was finished within that is found there. One that took longer, because the function died and came
again hours later, or because a transaction took hours to stage, is found by a listing of the whole log alone.
"""

import os
from datetime import datetime, timedelta
from typing import Final

from firn.config.model import Config
from firn.errors import TransientError
from firn.log import cuts, epochs, published_configs, pulls, shard_maps
from firn.log.pulls import Plan
from firn.log.store import Store

LATE: Final = timedelta(minutes=10)  # of epochs.OVERLAP's 15 minutes: saying that it is done takes time too
_TRIES: Final = 50  # each lost to a sealer that left less


def is_late(plan: Plan, now: datetime) -> bool:
    """Whether a plan that is done `now` may lie before what listings look at."""
    return now - datetime.fromisoformat(plan.at) > LATE


def seal(store: Store, config: Config, plan: Plan, now: datetime) -> None:
    """Seal what is free up to the batches of a plan that is done, if they are in no epoch. May be done twice.

    Raises StorageUnavailable, UnknownOutcome, TransientError: then do it again.
    """
    caps = config.streams[plan.stream].commit.caps
    first = pulls.batch_of(plan, 0)
    for _ in range(_TRIES):
        committed = cuts.newest(store, plan.stream)
        found = epochs.candidates(store, plan.stream, now, above=committed, whole=True, caps=caps)
        if not any(pulls.of_one_plan(batch.id, first) for batch in (*found.batches, *found.left)):
            return
        if not published_configs.is_current(store, config.sha):  # the next round has it, or has no such stream any more
            raise TransientError(f"plan {plan.n} of {plan.source} waits: a newer configuration is published")
        shards = shard_maps.newest(store, config.streams[plan.stream])
        nonce = os.urandom(16).hex()
        epochs.seal(store, plan.stream, found, now=now, config=config.sha, nonce=nonce, shards=shards)
    raise TransientError(f"the batches of plan {plan.n} of {plan.source} could not be sealed: others took each number")
