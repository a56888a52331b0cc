"""Firn: change streams into Apache Iceberg tables, serverless.

The folders are the way of the data: `changes` (what a change is), `streams` (what the user configures), `staging` (the
durable log), `jobs` (sealing epochs and starting Spark), `cli` (the firn command).
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from firn.producer import Producer as Producer
    from firn_lake.connecting import connect as connect


def __getattr__(name: str) -> Any:
    """Load `Producer` and `connect` only when asked for: the handlers import this package and must stay quick."""
    if name == "Producer":
        from firn.producer import Producer

        return Producer
    if name == "connect":  # the lake's layer, where it is installed
        from firn_lake.connecting import connect

        return connect
    raise AttributeError(f"module 'firn' has no attribute {name!r}")
