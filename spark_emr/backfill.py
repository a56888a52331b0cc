"""Entry point of `firn backfill` on EMR Serverless: stages what a source's tables hold already.

Exit codes: 0 done, or cancelled; 1 it failed (run it again: it goes on where it was), 2 usage.
"""

import argparse
import sys
from collections.abc import Sequence


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line. Exits with 2 if it is wrong."""
    parser = argparse.ArgumentParser(prog="backfill.py", description=__doc__.splitlines()[0])
    parser.add_argument("--stream", required=True, help="the stream's name in firn.yaml")
    parser.add_argument("--backfill", required=True, help="the backfill's id: its request is in the staging store")
    parser.add_argument("--staging", required=True, help="URL of the staging store: s3://…, file://…")
    parser.add_argument("--warehouse", required=True, help="URL below which new tables are created")
    parser.add_argument("--catalog-uri", required=True, help="the catalog: sqlite:///path, glue://")
    given = parser.parse_args(arguments)
    if not given.backfill.isalnum():
        parser.error(f"--backfill {given.backfill!r}: letters and digits only")
    return given


def main(arguments: Sequence[str]) -> int:
    """Parses, runs, and stops the session. -> the exit code."""
    given = parse(arguments)
    from firn_spark import backfill_job, session

    code = backfill_job.run(given.stream, given.backfill, given.staging, given.warehouse, given.catalog_uri)
    session.stop()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
