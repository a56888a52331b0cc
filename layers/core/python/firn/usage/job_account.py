"""What job runs used, as EMR Serverless billed it: an object for each run that ended, which says it by its name.

So a month is summed up by listings alone, and the event of a run's end may come twice.
"""

import logging
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from firn.errors import FirnError
from firn.log.store import Store, paths, put_if_absent
from firn.log.usage_layout import jobs_prefix

_log: Final = logging.getLogger(__name__)

CARE: Final = "_care"
"""The pool of jobs that care for tables; no stream of firn.yaml begins with `_`."""
_NAME: Final = re.compile(r"(?P<run>[A-Za-z0-9]+)\.(?P<vcpu>[0-9]{1,15})\.(?P<memory>[0-9]{1,15})\.json")


@dataclass(frozen=True)
class Resources:
    """Seconds of a vCPU, and of a GB of memory."""

    vcpu_seconds: float = 0.0
    memory_seconds: float = 0.0

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(self.vcpu_seconds + other.vcpu_seconds, self.memory_seconds + other.memory_seconds)

    def share(self, part: float) -> "Resources":
        """So much of it."""
        return Resources(self.vcpu_seconds * part, self.memory_seconds * part)


def billed(run: Mapping[str, Any]) -> Resources:
    """What a run of GetJobRun was billed, or has used where that is not told; nothing if neither is."""
    told = run.get("billedResourceUtilization") or run.get("totalResourceUtilization") or {}
    return Resources(float(told.get("vCPUHour") or 0) * 3600, float(told.get("memoryGBHour") or 0) * 3600)


def note(store: Store, pool: str, run: str, used: Resources, month: str) -> bool:
    """Write down what an ended run used -> whether it is news, as far as is known, which the object's bytes tell.
    `pool`: its stream, or CARE. Fails nobody."""
    if not used.vcpu_seconds or not run.isalnum():
        return False
    name = f"{run}.{used.vcpu_seconds:.0f}.{used.memory_seconds:.0f}.json"
    try:
        return put_if_absent(store, f"{jobs_prefix(month, pool)}/{name}", uuid.uuid4().bytes)
    except FirnError as error:
        _log.warning("what the run %s used is not written down: %s", run, error)
        return True


def total(store: Store, pool: str, month: str) -> Resources:
    """What the runs of a pool used in a month; of one that was written down twice the most. Raises
    StorageUnavailable."""
    runs: dict[str, Resources] = {}
    for path in paths(store, jobs_prefix(month, pool)):
        if (found := _NAME.fullmatch(path.rpartition("/")[2])) is not None:
            used = Resources(float(found["vcpu"]), float(found["memory"]))
            runs[found["run"]] = max(runs.get(found["run"], used), used, key=lambda one: one.vcpu_seconds)
    return sum(runs.values(), Resources())
