"""Java's classes by their names. A walk from `jvm.org` to a class asks the JVM at each dot; this asks nothing."""

from collections.abc import Iterator
from typing import Any, Final

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

_PIECE: Final = 4_000  # characters, at most 8 KB of all but the rarest
_MOST_PIECES: Final = 250


def java_class(spark: SparkSession, name: str) -> Any:
    """The class with this full name (`$` before an inner class), to construct or to call its static methods."""
    gateway: Any = spark.sparkContext._gateway
    return JavaClass(name, gateway._gateway_client)


def elements(of: Any) -> Iterator[Any]:
    """What a Java Iterable holds. Python's own `for` over one ends by an exception of Java's, and PySpark asks the JVM
    some hundred times which of its own exceptions that might be."""
    found = of.iterator()
    while found.hasNext():
        yield found.next()


def text_of(buffer: Any) -> str:
    """The text in a java.lang.StringBuffer, in pieces if that is faster.

    An answer of more than 8 KB leaves the JVM in several writes, of which the last waits for the receipt of the first
    (Nagle's algorithm), and that one is put off by 40 ms: as long as some hundred pieces take.
    """
    length = int(buffer.length())
    if length > _MOST_PIECES * _PIECE:
        return str(buffer.toString())
    return "".join(str(buffer.substring(first, min(first + _PIECE, length))) for first in range(0, length, _PIECE))
