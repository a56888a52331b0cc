from hypothesis import given
from hypothesis import strategies as st

from firn_local.throttle import ByteBucket


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_let_in_and_then_the_rate() -> None:
    clock = Clock()
    bucket = ByteBucket(1000, clock)
    assert [bucket.take(1000) for _ in range(3)] == [0, 0, 1]
    clock.now += 0.5
    assert [bucket.take(1500), bucket.take(1)] == [0, 1]
    clock.now += 1.5
    assert bucket.take(1) == 0


def test_a_request_larger_than_the_bucket_is_let_in_and_paid_off() -> None:
    clock = Clock()
    bucket = ByteBucket(1000, clock)
    assert bucket.take(10_000) == 0
    assert bucket.take(1) == 8
    clock.now += 8
    assert bucket.take(1) == 1, "empty is not enough: nothing is left"
    clock.now += 1
    assert bucket.take(1) == 0


def test_no_rate_is_no_limit() -> None:
    bucket = ByteBucket(0)
    assert {bucket.take(10**12) for _ in range(100)} == {0}


@given(st.lists(st.tuples(st.integers(0, 5_000), st.floats(0, 3)), max_size=60))
def test_never_more_than_the_rate_a_burst_and_one_request(requests: list[tuple[int, float]]) -> None:
    clock = Clock()
    bucket = ByteBucket(1000, clock)
    taken = 0
    for size, pause in requests:
        clock.now += pause
        if bucket.take(size) == 0:
            taken += size
        assert taken <= 1000 * (clock.now - 50.0) + 2000 + 5_000 + 1e-6


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=30))
def test_who_waits_as_asked_is_let_in(sizes: list[int]) -> None:
    clock = Clock()
    bucket = ByteBucket(1000, clock)
    for size in sizes:
        waits = 0
        while wait := bucket.take(size):
            clock.now += wait
            waits += 1
            assert waits <= 2
