"""Whether a table's partitioning follows a changed `partition_by` of firn.yaml. Pure.

What firn.yaml asked for last is remembered in the table: a partitioning that someone gave it by hand stays until the
line in firn.yaml changes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from firn.config.partitions import Partition

ASKED: Final = "firn.partition-by"


def asked(wanted: Sequence[Partition]) -> dict[str, str]:
    """The property that remembers them."""
    return {ASKED: json.dumps([str(one) for one in wanted], ensure_ascii=False)}


def differs(wanted: Sequence[Partition], properties: Mapping[str, str], now: Callable[[], Sequence[str]]) -> bool:
    """Whether the table is to be partitioned again. `now`: its current spec in the words of firn.yaml; seldom asked.

    A table from before there was such a property is only where firn.yaml names partitions, and others than it has.
    """
    words = [str(one) for one in wanted]
    if ASKED in properties:
        return bool(words != json.loads(properties[ASKED]))
    return bool(words) and words != list(now())
