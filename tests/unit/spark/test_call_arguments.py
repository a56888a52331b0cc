"""What py4j converts is converted as before, and of what nothing is done with nobody is asked."""

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.java_collections import ListConverter, MapConverter, SetConverter

from firn_spark.call_arguments import ask_less


class Counting(SetConverter):  # type: ignore[misc]  # py4j says no types
    asked = 0

    def can_convert(self, value: Any) -> bool:
        self.asked += 1
        return bool(super().can_convert(value))


def client(*converters: Any) -> Any:
    found = SimpleNamespace(converters=list(converters))
    gateway: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(_gateway_client=found)))
    ask_less(gateway)
    ask_less(gateway)
    return found


@pytest.mark.parametrize("plain", ["text", 5, 2.5, True, None, b"bytes", bytearray(b"more")])
def test_nobody_is_asked_of_what_stays_as_it_is(plain: Any) -> None:
    first = Counting()
    (one,) = client(first, ListConverter(), MapConverter()).converters
    assert (one.can_convert(plain), first.asked) == (False, 0)


@pytest.mark.parametrize("value", [{1, 2}, [1], {"a": 1}, (1, 2), object()])
def test_others_are_converted_by_whoever_did_before(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    every = [SetConverter(), MapConverter(), ListConverter()]
    for one in every:
        monkeypatch.setattr(type(one), "convert", lambda self, value, client: (type(self), value))
    (mine,) = client(*every).converters
    takes = [type(one) for one in every if one.can_convert(value)]
    assert mine.can_convert(value) is bool(takes)
    if takes:
        assert mine.convert(value, None) == (takes[0], value)


def test_without_converters_there_is_none() -> None:
    assert client().converters == []
