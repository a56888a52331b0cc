"""What a pipeline is: SQL between a source table of a stream and a target, `pipelines:` in firn.yaml. Pure.

docs/pipelines.md is the page for users; firn_sql has the check of the SQL and the engine that runs it.
"""

import hashlib
from dataclasses import dataclass, field

from firn.config.file_sinks import FileSink
from firn.config.model import TableRule
from firn.config.names import TableName


@dataclass(frozen=True)
class Pipeline:
    """One entry of `pipelines:`.

    sql     as written
    source  the source table that its FROM names, as the stream's rules call it
    rule    of its target table: to, mode, key, partition_by, write, bloom, care; None for files
    files   None for a table
    joins   the tables that its rows are joined with as they are committed, by their Iceberg names
    line    of firn.yaml, where its SQL is
    """

    name: str
    sql: str
    source: str
    rule: TableRule | None
    files: FileSink | None
    joins: tuple[TableName, ...] = ()
    line: int = field(default=0, compare=False)

    @property
    def sha(self) -> str:
        """Which version of the SQL it is: the SHA-256 of its text, in hex."""
        return hashlib.sha256(self.sql.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def target(self) -> TableName | None:
        """Its table; None for files."""
        return None if self.rule is None else TableName.parse(self.rule.to)

    @property
    def is_mirror(self) -> bool:
        """Whether its table mirrors the source's own mirror; else each event adds rows."""
        return self.rule is not None and self.rule.keyed
