"""`python -m firn_demo [--keep]`: the same as `firn demo`, with the stack's options for what it runs."""

import argparse
import sys

from firn_demo.demonstration import demonstrate


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; -> its exit code."""
    parser = argparse.ArgumentParser(prog="firn demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the stack up afterwards (make demo KEEP=1)")
    for option in ("--job", "--built"):
        parser.add_argument(option, metavar="FOLDER", help="what the stack runs in place of this checkout (firn_local)")
    for option in ("--staging", "--warehouse"):
        parser.add_argument(option, metavar="URL", help="where it stores in place of this machine (docs/clouds.md)")
    given = parser.parse_args(arguments)
    named = ("job", "built", "staging", "warehouse")
    options = [word for name in named if (value := getattr(given, name)) for word in (f"--{name}", value)]
    return demonstrate(given.keep, options)


if __name__ == "__main__":
    sys.exit(main())
