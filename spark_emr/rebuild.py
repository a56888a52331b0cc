"""Entry point of `firn rebuild` on EMR Serverless: one table again from the staged log.

Exit codes: 0 done, 1 it failed (run it again: it goes on where it was) or a check found differing rows, 2 usage.
"""

import argparse
import sys
from collections.abc import Sequence


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line. Exits with 2 if it is wrong."""
    parser = argparse.ArgumentParser(prog="rebuild.py", description=__doc__.splitlines()[0])
    parser.add_argument("--staging", required=True, help="URL of the staging store: s3://…, file://…")
    parser.add_argument("--warehouse", required=True, help="URL below which new tables are created")
    parser.add_argument("--catalog-uri", required=True, help="the catalog: sqlite:///path")
    parser.add_argument("--run", required=True, help="the run's id: names its result in the staging store")
    parser.add_argument("--table", required=True, help="namespace.table, as firn.yaml names it")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--into", help="namespace.table that is not there yet")
    where.add_argument("--in-place", action="store_true", help="on a branch that is then published")
    where.add_argument("--check", action="store_true", help="compare with the table, and leave nothing behind")
    parser.add_argument("--number", type=int, default=0, help="which rebuild in place this is; 0: the next")
    parser.add_argument("--to", help="an epoch's number, or a time: only what was sealed by then; with --into")
    parser.add_argument("--partial", action="store_true", help="what is left of the log; with --into")
    given = parser.parse_args(arguments)
    if given.into is None and (given.to or given.partial):
        parser.error("--to and --partial go with --into: the table itself keeps all that was committed to it")
    if not given.run.isalnum():
        parser.error(f"--run {given.run!r}: letters and digits only")
    return given


def main(arguments: Sequence[str]) -> int:
    """Parses, runs, and stops the session. -> the exit code."""
    given = parse(arguments)
    from firn.config.names import TableName
    from firn_spark import rebuild, session

    request = rebuild.Request(
        given.run,
        TableName.parse(given.table),
        into=None if given.into is None else TableName.parse(given.into),
        in_place=given.in_place,
        check=given.check,
        to=given.to,
        number=given.number,
        partial=given.partial,
    )
    code = rebuild.run(request, given.staging, given.warehouse, given.catalog_uri)
    session.stop()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
