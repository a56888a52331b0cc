"""No body, however it is made, costs more than 2 s of CPU or 256 MB, is answered with a 5xx, or takes the good messages
beside it along."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import soak
from tests.attacks.hostile_bodies import ATTACKS
from tests.soak import long_only

ROOT = Path(__file__).parents[2]
MOST_CPU, MOST_MEMORY = 2.0, 256.0
# Lambda answers with 6 MB at most; this is what the first hundred errors may take.
MOST_ANSWER = 150_000

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a peak of memory")


def told(*arguments: str) -> list[Any]:
    """What the functions, in a process of their own, said and took."""
    command = [sys.executable, "-m", "tests.attacks.ingest_attack", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2_000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


def within(found: list[Any]) -> list[Any]:
    """Those that took too much."""
    return [
        one
        for one in found
        if one["cpu"] > MOST_CPU
        or one["megabytes"] > MOST_MEMORY
        or one["answer"] > MOST_ANSWER
        or one["status"] >= 500
    ]


@long_only
def test_bodies_made_to_cost_much_are_refused_before_the_work_or_taken_within_the_bounds() -> None:
    found = told("ATTACKS")
    for one in found:
        print("{name:45} {sent:>9,} B {status} {cpu:6.3f} s {megabytes:6.1f} MB  {error}".format(**one))
    assert within(found) == []
    assert {one["name"]: one["status"] for one in found if one["status"] not in ATTACKS[one["name"]][0]} == {}
    assert {one["name"] for one in found} == set(ATTACKS)
    # A 413 says what to do.
    assert [one for one in found if one["status"] == 413 and ": " not in one["message"]] == []


def test_mutated_bodies_are_never_a_5xx_nor_dear() -> None:
    count = soak.times(60, 10_000)
    found = told("MUTATED", str(soak.SEED * 1_000_000), str(count))
    statuses = Counter(one["status"] for one in found)
    cpu, memory = max(one["cpu"] for one in found), max(one["megabytes"] for one in found)
    print(f"{count} bodies: {dict(statuses)}, at most {cpu:.2f} s of CPU and {memory:.0f} MB; 5xx: 0 asserted")
    assert within(found) == []
    assert len(found) == count
    assert statuses[202] > count // 10  # the mutations leave enough to be taken


@long_only
def test_a_queue_message_of_too_many_events_is_one_dead_letter_and_the_good_ones_are_staged() -> None:
    too_many, together = told("QUEUE")
    print(f"22 of 85,000 events and a good one: {too_many}; 12 of 20,000 and a good one: {together}")
    (only,) = too_many
    assert (only["again"], only["staged"], only["dead"]) == (0, 1, 22)
    # Those that only together are too many come again, a few at a time, until all are in.
    assert len(together) > 2
    assert (together[-1]["again"], together[-1]["staged"], together[-1]["dead"]) == (0, 1, 240_000)
    assert max(one["cpu"] for one in [only, *together]) < MOST_CPU
    assert max(one["megabytes"] for one in [only, *together]) < MOST_MEMORY
