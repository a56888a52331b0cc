"""Whose is what jobs used: they commit for many at once."""

from collections import defaultdict
from collections.abc import Mapping

from firn.config.model import Config
from firn.usage.job_account import Resources
from firn.usage.stream_account import NOBODY, Sent


def shared(
    config: Config, sent: Mapping[str, Mapping[str, Sent]], used: Mapping[str, Resources]
) -> dict[str, Resources]:
    """What jobs used, by tenant: by bytes of JSON among the streams that share their jobs. Pure."""
    found: dict[str, Resources] = {}
    pools: defaultdict[str, list[str]] = defaultdict(list)
    for name, stream in config.streams.items():
        pools[stream.job].append(name)
    for streams in pools.values():
        pool = sum((used.get(name, Resources()) for name in streams), Resources())
        sizes: defaultdict[str, int] = defaultdict(int)
        for name in streams:
            for writer, one in sent.get(name, {}).items():
                sizes[writer] += one.bytes
        total = sum(sizes.values())
        for writer, size in sizes.items() if total else ((NOBODY, 1),):
            found[writer] = found.get(writer, Resources()) + pool.share(size / (total or 1))
    return found
