from firn.dispatch.retry_policy import MAX_PASSING, Step, next_step


def test_a_range_is_tried_three_times() -> None:
    assert next_step([], []) is Step.RANGE
    assert next_step(["killed", "terminal"], []) is Step.RANGE


def test_a_range_that_kills_every_job_is_narrowed_to_one_epoch() -> None:
    assert next_step(["killed"] * 3, []) is Step.NARROW
    assert next_step(["killed"] * 5, ["killed"] * 2) is Step.NARROW


def test_an_epoch_that_kills_every_job_alone_is_held() -> None:
    assert next_step(["killed"] * 6, ["killed"] * 3) is Step.HOLD
    assert next_step(["killed"] * 3, ["killed"] * 3) is Step.HOLD


def test_runs_that_never_began_or_said_why_they_failed_hold_no_epoch() -> None:
    assert next_step(["terminal"] * 3, ["terminal"] * 3) is Step.STUCK
    assert next_step(["killed", "killed", "killed", "terminal", "terminal", "terminal"], ["terminal"] * 3) is Step.STUCK


def test_what_passes_by_itself_is_tried_for_long_and_not_for_ever() -> None:
    assert next_step(["transient"] * (MAX_PASSING - 1), []) is Step.RANGE
    assert next_step(["transient"] * MAX_PASSING, []) is Step.STUCK


def test_a_run_that_never_began_is_none_of_three_strikes() -> None:
    assert next_step([None] * (MAX_PASSING - 1), []) is Step.RANGE
    assert next_step([None, None, "killed", "killed"], []) is Step.RANGE
    assert next_step([*["killed"] * 3, None, None, None], [None, None, None]) is Step.NARROW
    assert next_step([None] * MAX_PASSING, []) is Step.STUCK
