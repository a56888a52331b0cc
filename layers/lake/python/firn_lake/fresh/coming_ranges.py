"""In which ranges the epochs of a stream that wait will be committed, and under what: as dispatch and the job divide
them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from firn.commit.range_parts import appending
from firn.config.model import StreamConfig
from firn.dispatch.schema_ranges import versions


@dataclass(frozen=True)
class ComingRange:
    """Epochs that run under the same schemas and SQL. `settings`: those of the newest configuration among them."""

    epochs: frozenset[int]
    settings: StreamConfig


def coming(own: Mapping[int, StreamConfig]) -> list[ComingRange]:
    """The ranges, in order. `own`: by epoch, what its own configuration says of the stream."""
    found = []
    for _, judged in groupby(sorted(own), key=lambda n: versions(own[n])):
        mine = tuple(judged)
        for _, some in groupby(mine, key=lambda n: appending(own[n].pipelines)):
            part = tuple(some)
            settings = replace(own[mine[-1]], pipelines=own[part[-1]].pipelines)
            found.append(ComingRange(frozenset(part), settings))
    return found
