"""Fail the n-th call, for n upward until a run in which nothing failed: whatever fails, nothing is lost, nothing is
there twice, and when it works again everything comes to rest.

The calls are found, not listed: one that is added to the code is failed here by itself.
"""

import inspect
import re
from collections.abc import Callable
from typing import Literal

import pytest

from firn.staging.store import Store
from tests.faults.calls import FAULTS, Counting, Fault, WatchedStore
from tests.faults.scenarios import SCENARIOS, Program, Stage

ROUNDS = 4  # of everybody's retries while a fault lasts: more than the attempts of a job


@pytest.mark.parametrize("lasting", [None, "name", "all"], ids=["once", "this call for ever", "all calls for ever"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_call(
    scenario: Callable[[Stage], Program], fault: Fault, lasting: Literal["name", "all"] | None
) -> None:
    for at in range(1, 1000):
        stage = Stage()
        program = scenario(stage)
        failing(stage.gate, at, fault, lasting)
        try:
            stage.run(program)
            stage.checks.now()
            for _ in range(ROUNDS if lasting and stage.gate.hit else 0):
                stage.world.round(stage.run)
                stage.checks.now()
            assert stage.world.quiet() or stage.gate.hit is None or not lasting or stage.world.troubles()
            hit = stage.gate.hit
            stage.gate.heal()
            stage.world.settle(stage.run)
            stage.checks.at_rest()
        except Exception as error:
            log = "\n  ".join(stage.gate.log)
            error.add_note(f"call {at} of {scenario.__name__}: {fault}, {lasting or 'once'}. All calls:\n  {log}")
            raise
        if hit is None:
            assert at > 1, "the program called nothing"
            return
    pytest.fail("the calls have no end")


def failing(gate: Counting, at: int, fault: Fault, lasting: Literal["name", "all"] | None) -> None:
    """From here on the gate counts."""
    gate.log.clear()
    gate.at, gate.fault, gate.lasting, gate.hit = at, fault, lasting, None


def test_no_call_of_the_store_goes_past_the_gate() -> None:
    methods = {name for name, _ in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")}
    assert methods == {name for name in vars(WatchedStore) if not re.match("_|inner|gate", name)}
