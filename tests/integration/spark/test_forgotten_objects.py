"""Objects that Python forgets don't stay in the JVM, and the others do."""

import gc
import time

from pyspark.sql import SparkSession

from firn_spark import forgotten_objects
from firn_spark.forgotten_objects import forget_together


def test_the_jvm_lets_go_of_what_python_has_forgotten_and_of_nothing_else(spark: SparkSession) -> None:
    gateway = spark.sparkContext._gateway
    forget_together(spark)
    forget_together(spark)  # once is enough
    held = gateway.java_gateway_server.getGateway().getBindings()
    calls = 0
    let_go = forgotten_objects._Forgotten._let_go

    def counted(self: forgotten_objects._Forgotten) -> None:
        nonlocal calls
        calls += 1
        let_go(self)

    forgotten_objects._Forgotten._let_go = counted
    try:
        kept = [gateway.jvm.java.lang.StringBuilder(str(n)) for n in range(50)]
        gone = [gateway.jvm.java.lang.StringBuilder(str(n)) for n in range(500)]
        ids = [one._target_id for one in gone]
        assert all(held.containsKey(one) for one in ids[::50])
        del gone
        gc.collect()
        end = time.monotonic() + 30
        while any(held.containsKey(one) for one in ids[::50]) and time.monotonic() < end:
            time.sleep(0.1)
    finally:
        forgotten_objects._Forgotten._let_go = let_go
    assert not any(held.containsKey(one) for one in ids)
    assert calls < 100, "one for each object would be 500"
    assert [one.toString() for one in kept] == [str(n) for n in range(50)]
    assert held.containsKey("GATEWAY_SERVER")
