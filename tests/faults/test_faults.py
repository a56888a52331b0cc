"""Fail the n-th call, for n upward until a run in which nothing failed: whatever fails, nothing is lost, nothing is
there twice, and when it works again everything comes to rest.

The calls are found, not listed: one that is added to the code is failed here by itself.
"""

import inspect
import os
import re
from collections.abc import Callable
from typing import Final, Literal

import pytest

from firn.log.store import Store
from tests.faults.calls import FAULTS, READS, Counting, Fault, WatchedStore
from tests.faults.scenarios import SCENARIOS, Program, Stage
from tests.soak import few_cases

Lasting = Literal["name", "all"] | None
ROUNDS: Final = 4  # of everybody's retries while a fault lasts: more than the attempts of a job
LASTING: Final[tuple[Lasting, ...]] = (None, "name", "all")
# What is tried at a call without an effect: there the other faults are these again.
AT_READS: Final = ("refused", "dies before")


# In the long run each call does all; otherwise a call that fails for ever does so in one of the five ways, or in two:
# alone, or with all others. So does a read.
EVERY: Final = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


@few_cases(34)
@pytest.mark.parametrize("lasting", LASTING, ids=lambda value: value or "once")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_call(scenario: Callable[[Stage], Program], fault: Fault, lasting: Lasting) -> None:
    names = tried(scenario, 0, fault, None).log
    assert names, "the program calls nothing"
    for at, name in enumerate(names, start=1):
        reads = name.split()[0] in READS
        often = 4 if reads else 8
        turn = (
            EVERY or lasting is None or (at + FAULTS.index(fault)) % often == (0 if lasting == "name" else often // 2)
        )
        if turn and (fault in AT_READS or not reads):
            assert tried(scenario, at, fault, lasting).hit == name, "a run is not like the other"


def tried(scenario: Callable[[Stage], Program], at: int, fault: Fault, lasting: Lasting) -> Counting:
    """The scenario's program with the call number `at` (0: none) failing, then everybody who tries again, then the end
    of the fault. -> the gate; its log holds the program's own calls."""
    stage = Stage()
    program = scenario(stage)
    gate = stage.gate
    gate.log.clear()
    gate.at, gate.fault, gate.lasting, gate.hit = at, fault, lasting, None
    try:
        stage.run(program)
        calls = list(gate.log)
        stage.checks.now()
        if lasting is not None and at:
            for _ in range(ROUNDS):
                stage.world.round(stage.run)
                stage.checks.now()
            assert stage.world.quiet() or stage.world.troubles(), "it does not work, and nobody can see it"
        gate.heal()
        stage.world.settle(stage.run)
        stage.checks.at_rest()
    except Exception as error:
        log = "\n  ".join(gate.log)
        error.add_note(f"call {at} of {scenario.__name__}: {fault}, {lasting or 'once'}. All calls:\n  {log}")
        raise
    gate.log = calls
    return gate


def test_no_call_of_the_store_goes_past_the_gate() -> None:
    methods = {name for name, _ in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")}
    assert methods == {name for name in vars(WatchedStore) if not re.match("_|inner|gate", name)}
