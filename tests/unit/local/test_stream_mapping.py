"""A batch of a stream is brought as Lambda's mapping would: from what failed, by halves, until taken or given up."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from firn_local.environment import TEMPLATE
from firn_local.functions import FunctionError
from firn_local.stack import local_parameters
from firn_local.stream_mapping import bring, first_failed
from firn_local.template import StreamMapping, read

FULL = StreamMapping("f", report_failures=True, bisect=True)


class Brought:
    """What a function was triggered with, and what was given up."""

    def __init__(self, act: Callable[[Sequence[int], int], Any], stop_after: int = 1000) -> None:
        self.batches: list[list[int]] = []
        self.given_up: list[tuple[list[int], str]] = []
        self._act, self._waits, self._stop_after = act, 0, stop_after

    def __call__(self, records: Sequence[int], settings: StreamMapping = FULL, now: float = 100) -> "Brought":
        def invoke(part: Sequence[int]) -> Any:
            self.batches.append(list(part))
            return self._act(part, len(self.batches))

        def wait(_: float) -> bool:
            self._waits += 1
            return self._waits >= self._stop_after

        bring(
            records, settings, invoke, number=str, made=float, wait=wait, now=lambda: now,
            give_up=lambda part, why: self.given_up.append((list(part), why)),
        )  # fmt: skip
        return self


def failed(*numbers: int) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": str(number)} for number in numbers]}


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        (None, None), ({}, None), (failed(), None), ({"batchItemFailures": None}, None), (failed(2), 1),
        (failed(3, 2), 1), (failed(9), 0), ({"batchItemFailures": [{"itemIdentifier": ""}]}, 0),
        ({"batchItemFailures": [7]}, 0), ("text", 0), ({"batchItemFailures": "2"}, 0),
    ],
)  # fmt: skip
def test_the_lowest_number_of_the_answer_counts(answer: Any, place: int | None) -> None:
    assert first_failed(["1", "2", "3"], answer, report_failures=True) == place
    assert first_failed(["1", "2", "3"], answer, report_failures=False) is None


def test_a_batch_comes_again_from_the_record_that_failed() -> None:
    assert Brought(lambda part, n: failed(3) if n == 1 else None)([1, 2, 3, 4]).batches == [[1, 2, 3, 4], [3, 4]]


def test_what_makes_the_function_fail_is_found_by_halves_and_blocks_nothing_before_it() -> None:
    def act(part: Sequence[int], _: int) -> None:
        if 3 in part:
            raise FunctionError("Unhandled", {})

    done = Brought(act)([1, 2, 3, 4], StreamMapping("f", report_failures=True, bisect=True, retries=2))
    assert done.batches == [[1, 2, 3, 4], [1, 2], [3, 4], [3], [3], [3], [4]]
    assert done.given_up == [([3], "RetryAttemptsExhausted")]


def test_without_bisecting_the_whole_batch_comes_again() -> None:
    def act(_: Sequence[int], n: int) -> None:
        if n < 3:
            raise FunctionError("Handled", {})

    assert Brought(act)([1, 2], StreamMapping("f")).batches == [[1, 2]] * 3


def test_what_is_too_old_is_given_up_and_the_rest_comes() -> None:
    done = Brought(lambda part, n: None)([10, 50, 99], StreamMapping("f", max_age=60))
    assert (done.batches, done.given_up) == ([[50, 99]], [([10], "RecordAgeExceeded")])


def test_when_the_stack_stops_nothing_more_is_brought() -> None:
    assert Brought(lambda part, n: failed(1), stop_after=2)([1, 2]).batches == [[1, 2], [1, 2]]


def test_the_templates_mappings_never_lose_a_record_by_themselves() -> None:
    mappings = read(TEMPLATE, local_parameters(TEMPLATE, {"EmrApplicationId": "00local"})).mappings
    assert set(mappings) == {"kinesis", "dynamodb", "kafka"}
    for kind in ("kinesis", "dynamodb"):
        one = mappings[kind]
        assert (one.report_failures, one.bisect, one.retries, one.max_age) == (True, True, -1, -1)
