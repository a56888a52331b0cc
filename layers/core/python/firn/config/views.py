"""What a view is: a table that is a query over others, `views:` in firn.yaml. Pure.

docs/views.md is the page for users; firn_sql.views has the check of the SQL and the rule of its changes.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

from firn.config.model import TableRule
from firn.config.names import TableName
from firn.config.sql_clock import reads_clock


@dataclass(frozen=True)
class View:
    """One entry of `views:`.

    table    its Iceberg table
    sql      as written
    sources  the tables that its FROM and JOIN name, each once: of streams, of pipelines, or other views
    rule     of its table: to, partition_by, bloom, write, writing, care
    every    seconds between two of its refreshes, by the clock; 0: it is refreshed at each cut. One that goes by the
             clock is refreshed so often though nothing changes
    full     whether all of it is made again each time
    line     of firn.yaml, where its SQL is
    """

    table: TableName
    sql: str
    sources: tuple[TableName, ...]
    rule: TableRule
    every: int = 0
    full: bool = False
    line: int = field(default=0, compare=False)

    @property
    def sha(self) -> str:
        """Which version of the SQL it is: the SHA-256 of its text, in hex."""
        return hashlib.sha256(self.sql.encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def by_clock(self) -> bool:
        """Whether its SQL asks for the time: then its rows are others as time passes."""
        return reads_clock(self.sql)
