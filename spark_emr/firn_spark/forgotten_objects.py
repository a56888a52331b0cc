"""Java objects that Python forgets, let go of by the JVM many at a time.

py4j tells the JVM of each object alone, in a thread of its own: of the messages of a small table's commit that was more
than a third.
"""

import logging
from typing import Any, Final

from py4j.clientserver import JavaClient
from py4j.protocol import ENTRY_POINT_OBJECT_ID, GATEWAY_SERVER_OBJECT_ID
from pyspark.sql import SparkSession

_MOST: Final = 64  # that wait to be let go of: some are large
_KEPT: Final = frozenset({ENTRY_POINT_OBJECT_ID, GATEWAY_SERVER_OBJECT_ID})

logger = logging.getLogger(__name__)


class _Forgotten:
    """In the place of JavaClient.garbage_collect_object."""

    def __init__(self, client: JavaClient, names: Any, java: Any) -> None:
        """`names`: of the objects that the JVM holds for Python, as a java.util.Set; `java`: the package."""
        self._client = client
        self._names = names
        self._java = java
        self._ids: list[str] = []

    def __call__(self, target_id: str, enqueue: bool = True) -> None:
        """As py4j's: a finalizer enqueues, and py4j's thread for it comes with `enqueue` False, one after the other."""
        if enqueue:
            self._client.finalizer_deque.appendleft((self._client, target_id))
            return
        if target_id not in _KEPT:
            self._ids.append(target_id)
        if self._ids and (len(self._ids) >= _MOST or not self._client.finalizer_deque):
            self._let_go()

    def _let_go(self) -> None:
        ids, self._ids = self._ids, []
        try:
            self._names.removeAll(self._java.util.Collections.list(self._java.util.StringTokenizer(" ".join(ids))))
        except Exception:  # the JVM has ended, or is about to; py4j's thread goes on
            logger.debug("objects were not let go of", exc_info=True)


def forget_together(spark: SparkSession) -> None:
    """From here on. Where the session's gateway is not one with a thread for each of Python's, nothing changes."""
    gateway: Any = spark.sparkContext._gateway
    client = gateway._gateway_client
    if not isinstance(client, JavaClient) or isinstance(client.garbage_collect_object, _Forgotten):
        return
    names = gateway.java_gateway_server.getGateway().getBindings().keySet()
    client.garbage_collect_object = _Forgotten(client, names, gateway.jvm.java)
