"""`python -m firn_local`: the embedded stack in the foreground."""

import argparse
import os
import sys
from pathlib import Path

from firn.extras import missing

try:
    from firn_local.foreground import up
    from firn_local.other_s3 import NoOtherS3, OtherS3
    from firn_local.stack import Options
    from firn_local.throttle import DEFAULT_RATE
except ModuleNotFoundError as lacking:
    if (told := missing(lacking)) is None:
        raise
    sys.exit(f"firn: {told}")


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run the stack; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m firn_local", description=__doc__)
    parser.add_argument(
        "--dir", type=Path, default=Path(".firn"), help="where data, logs and addresses are (default .firn)"
    )
    parser.add_argument("--s3", action="store_true", help="storage in the S3 endpoint, in memory, instead of files")
    parser.add_argument(
        "--s3-endpoint",
        metavar="URL",
        help="storage in this S3, by AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION",
    )
    parser.add_argument("--port", type=int, default=8181, help="HTTP port, 0 for a free one (default 8181)")
    parser.add_argument("--config", type=Path, default=Path("firn.yaml"), help="the streams (default firn.yaml)")
    parser.add_argument(
        "--no-schedules", dest="schedules", action="store_false", help="run no scheduled function by itself"
    )
    parser.add_argument(
        "--schedule-seconds",
        type=float,
        default=os.environ.get("FIRN_LOCAL_SCHEDULE_SECONDS"),
        help="period of every schedule, instead of the template's (also FIRN_LOCAL_SCHEDULE_SECONDS)",
    )
    parser.add_argument(
        "--rate", type=float, default=DEFAULT_RATE, help="bytes of requests a second that are let in, 0 for all"
    )
    parser.add_argument("--queue-stream", default="", help="stream of queue messages that name none")
    parser.add_argument("--job", type=Path, help="run the job that `make package` put into this folder (build/package)")
    parser.add_argument("--built", type=Path, help="run the functions that `sam build` put into this folder")
    parser.add_argument("--catalog", default="", help="the address of a catalog to use, in place of a SQLite file")
    parser.add_argument("--staging", default="", help="address of the staged data, if not on this machine")
    parser.add_argument("--warehouse", default="", help="address of the tables, if not on this machine")
    given = vars(parser.parse_args(arguments))
    try:
        endpoint = given.pop("s3_endpoint")
        other = None if endpoint is None else OtherS3.at(endpoint, os.environ)
    except NoOtherS3 as error:
        parser.error(str(error))
    return up(Options(**given, other_s3=other))


if __name__ == "__main__":
    sys.exit(main())
