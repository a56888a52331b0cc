"""What is wrong with where a stack is told to keep its data, before anything is started or written. Pure."""

import re
from typing import Final

from firn.config.catalogs import READ_ONLY, is_read_only, pyiceberg_properties, read_address
from firn.config.storage import read_place, read_staging
from firn.errors import ConfigError
from firn_local.stack import Options

PLACES: Final = ("gs", "abfss", "file")  # S3 is the stack's own, or --s3-endpoint's: there is one pair of keys


def refusal(options: Options) -> str | None:
    """What to write instead of options that contradict each other, or that name no place; None: they are fine."""
    if options.s3 and options.other_s3 is not None:
        return "--s3 keeps data in memory and --s3-endpoint in another S3: leave one of them out"
    if options.s3 and options.staging:
        return (
            "--s3 forgets the tables when the stack stops, and what is at --staging would say that they are committed: "
            "leave out --s3, and add --warehouse if they are to be elsewhere too"
        )
    if options.s3 and options.catalog and not options.warehouse:
        return (
            "--s3 forgets the tables' files when the stack stops, and the catalog at --catalog would still name them: "
            "leave out --s3, or add --warehouse"
        )
    if options.other_s3 is not None and options.staging and options.warehouse:
        return "nothing would be kept by --s3-endpoint, as --staging and --warehouse are elsewhere: leave one out"
    for name, url, read in (
        ("--staging", options.staging, read_staging), ("--warehouse", options.warehouse, read_place)
    ):  # fmt: skip
        try:
            _ = url and read(url, PLACES)
        except ValueError as error:
            return f"{name}: {error}"
    why = _refused_catalog(options.catalog) if options.catalog else None
    return None if why is None else f"--catalog: {why}"


def _refused_catalog(text: str) -> str | None:
    try:
        address = read_address(text)
    except ConfigError as error:
        return str(error)
    if address.kind == "glue":
        return (
            "glue:// is this stack's own Glue, in memory: it forgets the tables when the stack stops, and what is "
            "staged would say that they are committed. Name a REST catalog, a Hive Metastore or a PostgreSQL, or leave "
            "--catalog out"
        )
    if address.kind == "sql" and re.match(r"\s*sqlite[^:]*:///?(?!/)", text):
        return (
            "the path of a SQLite file must be absolute, since jobs run in folders of their own; write "
            "sqlite:////path/to/catalog.db, with four slashes"
        )
    return READ_ONLY if is_read_only(pyiceberg_properties(address, {})) else None
