"""Arguments of calls into the JVM, handed over for less."""

from collections.abc import Sequence
from types import NoneType
from typing import Any, Final

from pyspark.sql import SparkSession

_PLAIN: Final = frozenset({str, int, float, bool, bytes, bytearray, NoneType})


class _Converters:
    """py4j's converters of arguments as one, which takes no time for what none of them takes. They are asked one after
    the other of each argument, texts and numbers too, and some look for methods by a walk through its classes."""

    def __init__(self, every: Sequence[Any]) -> None:
        self._every = every

    def can_convert(self, value: Any) -> bool:
        """Whether one of them does."""
        return value.__class__ not in _PLAIN and any(one.can_convert(value) for one in self._every)

    def convert(self, value: Any, client: Any) -> Any:
        """What the first that does makes of it."""
        return next(one for one in self._every if one.can_convert(value)).convert(value, client)


def ask_less(spark: SparkSession) -> None:
    """Calls into the JVM from here on cost less."""
    client: Any = spark.sparkContext._gateway._gateway_client
    if client.converters and not isinstance(client.converters[0], _Converters):
        client.converters = [_Converters(client.converters)]
