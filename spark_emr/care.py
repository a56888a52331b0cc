"""Entry point of the care job on EMR Serverless: compacts tables, expires them, removes orphans, computes statistics.

Exit codes: 0 done, or nothing to do; 1 a table could not be cared for (it is as it was; run it again), 2 usage.
"""

import argparse
import sys
from collections.abc import Sequence

from firn.maintenance.schedule import KINDS


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line. Exits with 2 if it is wrong."""
    parser = argparse.ArgumentParser(prog="care.py", description=__doc__.splitlines()[0])
    parser.add_argument("--staging", required=True, help="URL of the staging store: s3://…, file://…")
    parser.add_argument("--warehouse", required=True, help="URL below which new tables are created")
    parser.add_argument("--catalog-uri", required=True, help="the catalog: sqlite:///path, glue://")
    parser.add_argument("--run", required=True, help="the run's id: names its result in the staging store")
    parser.add_argument("--do", required=True, help=f"of {', '.join(KINDS)}, with commas between")
    parser.add_argument("--table", action="append", default=[], help="namespace.table; several times for several")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--all", action="store_true", help="whatever pays, not only what an hour's budget allows")
    given = parser.parse_args(arguments)
    if not given.run.isalnum():
        parser.error(f"--run {given.run!r}: letters and digits only")
    given.do = tuple(given.do.split(","))
    if unknown := [kind for kind in given.do if kind not in KINDS]:
        parser.error(f"--do {unknown[0]!r}: there are {', '.join(KINDS)}")
    if not given.table:
        parser.error("--table is missing: name at least one")
    return given


def main(arguments: Sequence[str]) -> int:
    """Parses, runs, and stops the session. -> the exit code."""
    given = parse(arguments)
    from firn.config.names import TableName
    from firn_spark import maintenance_job, session

    tables = tuple(TableName.parse(name) for name in given.table)
    request = maintenance_job.Request(given.run, given.do, tables, dry_run=given.dry_run, all=given.all)
    code = maintenance_job.run(request, given.staging, given.warehouse, given.catalog_uri)
    session.stop()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
