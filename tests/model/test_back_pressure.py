"""A full backlog, from the 429 to the commit that ends it, with the real programs over memory."""

from collections.abc import Callable

import pytest

from firn.log import layout
from firn.log.store import paths
from tests.faults.scenarios import (
    Program,
    Stage,
    a_delivery_while_the_backlog_is_full,
    a_full_backlog,
    a_request_while_the_backlog_is_full,
    the_retry_of_a_request_while_the_backlog_is_full,
)
from tests.model.world import STREAM


@pytest.mark.parametrize("scenario", [a_request_while_the_backlog_is_full, a_delivery_while_the_backlog_is_full])
def test_nothing_is_taken_while_the_backlog_is_full_and_nothing_is_lost(scenario: Callable[[Stage], Program]) -> None:
    stage = Stage()
    program = scenario(stage)
    staged = paths(stage.world.disk, layout.staged_prefix(STREAM))
    stage.run(program)
    assert not stage.world.parcels[-1].acknowledged
    assert paths(stage.world.disk, layout.staged_prefix(STREAM)) == staged
    stage.checks.now()
    stage.land()
    assert stage.world.parcels[-1].acknowledged
    stage.checks.at_rest()


def test_what_was_taken_before_is_acknowledged_while_the_backlog_is_full() -> None:
    stage = Stage()
    stage.run(the_retry_of_a_request_while_the_backlog_is_full(stage))
    assert stage.world.parcels[0].acknowledged
    assert stage.world.shut()


def test_the_commit_opens_the_gate() -> None:
    stage = Stage()
    stage.run(a_full_backlog(stage))
    assert not stage.world.shut()
    stage.checks.at_rest()
