"""Firn: change streams into Apache Iceberg tables, serverless.

The folders are subsystems, from the bottom up: `changes` (what a change is and what it does to a row), `config`
(firn.yaml), `log` (the durable log), `ingest`, `tables` (what a table is and will be), then a folder for each use case:
`dispatch`, `commit`, `rebuild`, `audit`, `maintenance`. docs/architecture.md has the table and its arrows.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from firn.producer import Producer as Producer
    from firn_lake.connection import connect as connect


def __getattr__(name: str) -> Any:
    """Load `Producer` and `connect` only when asked for: the handlers import this package and must stay quick."""
    if name == "Producer":
        from firn.producer import Producer

        return Producer
    if name == "connect":
        from firn_lake import connect

        return connect
    raise AttributeError(f"module 'firn' has no attribute {name!r}")
