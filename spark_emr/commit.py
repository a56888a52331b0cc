"""Entry point of the commit job on EMR Serverless: commits sealed epochs to their tables, and then what comes.

Exit codes: 0 all in but for what is quarantined, 1 a table or the job failed (run it again: nothing is applied twice),
2 usage.
"""

import argparse
import sys
from collections.abc import Sequence


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line. Exits with 2 if it is wrong."""
    parser = argparse.ArgumentParser(prog="commit.py", description=__doc__.splitlines()[0])
    parser.add_argument("--stream", required=True, help="the stream's name in firn.yaml")
    parser.add_argument("--staging", required=True, help="URL of the staging store: s3://…, file://…")
    parser.add_argument("--warehouse", required=True, help="URL below which new tables are created")
    parser.add_argument("--catalog-uri", required=True, help="the catalog: sqlite:///path")
    parser.add_argument("--first", required=True, type=int, help="first epoch of the range")
    parser.add_argument("--last", required=True, type=int, help="last epoch of the range, included")
    parser.add_argument("--attempt", type=int, default=1, help="which try of this range it is, from 1")
    given = parser.parse_args(arguments)
    if not 1 <= given.first <= given.last:
        parser.error(f"--first {given.first} --last {given.last} is not a range of epochs: write 1 <= first <= last")
    return given


def main(arguments: Sequence[str]) -> int:
    """Parses, runs, and stops the session. -> the exit code."""
    given = parse(arguments)
    from firn_spark import commit, session

    code = commit.run(
        given.stream, given.staging, given.warehouse, given.catalog_uri, given.first, given.last, attempt=given.attempt,
        lingering=True,
    )  # fmt: skip
    session.stop()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
