"""The optional parts of the Python package, and which of them an import that failed belongs to.

`pip install firn-cdc` alone posts and reads nothing but rows: producers and the code of the functions. `cli` is the
command, `lake` reads and writes tables, `local` is the embedded stack, `spark` what commits.
"""

from collections.abc import Mapping
from typing import Final

from firn.errors import FirnError

DISTRIBUTION: Final = "firn-cdc"

EXTRA_OF: Final[Mapping[str, str]] = {
    "typer": "cli",
    "rich": "cli",
    "boto3": "cli",
    "botocore": "cli",
    "pg8000": "cli",
    "pymysql": "cli",
    "pyiceberg": "lake",
    "pyarrow": "lake",
    "duckdb": "lake",
    "sqlalchemy": "lake",
    "sqlglot": "lake",
    "xxhash": "lake",
    "moto": "local",
    "waitress": "local",
    "werkzeug": "local",
    "pyspark": "spark",
    "py4j": "spark",
    "fastavro": "avro",
    "thrift": "hive",
}
"""Top-level module -> the extra that brings it; where several do, the one that most people want with it."""

BY_CHOICE: Final = frozenset({"avro", "hive"})
"""Extras that most people need nothing of: nobody is told that they are lacking, but whoever uses them."""


class MissingExtra(FirnError, ImportError):
    """A part of Firn is not installed. The text names the command that installs it."""


def missing(error: ImportError) -> MissingExtra | None:
    """What an import that failed lacks; None if no extra would bring it."""
    module = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(module)
    if extra is None or not isinstance(error, ModuleNotFoundError):
        return None
    return MissingExtra(f"this needs {module}, which is not installed here: pip install '{DISTRIBUTION}[{extra}]'")
