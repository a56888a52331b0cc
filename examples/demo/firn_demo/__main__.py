"""`python -m firn_demo [--keep]`: the same as `firn demo`, with the stack's options for what it runs."""

import argparse
import sys

from firn_demo.demonstration import demonstrate
from firn_demo.storages import STORAGES


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; -> its exit code."""
    parser = argparse.ArgumentParser(prog="firn demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the stack up afterwards (make demo KEEP=1)")
    parser.add_argument("--storage", choices=STORAGES, default="s3", help="where its data is (make demo STORAGE=…)")
    for option in ("--job", "--built"):
        parser.add_argument(option, metavar="FOLDER", help="what the stack runs in place of this checkout (firn_local)")
    given = parser.parse_args(arguments)
    options = [word for name in ("job", "built") if (value := getattr(given, name)) for word in (f"--{name}", value)]
    return demonstrate(given.keep, options, given.storage)


if __name__ == "__main__":
    sys.exit(main())
