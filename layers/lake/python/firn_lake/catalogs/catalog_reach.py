"""See that the catalog of FIRN_CATALOG_URI answers: `python -m firn_lake.catalogs.catalog_reach`.

A process of its own: what it loads must not stay in the stack. Exit code 2, and the reason on standard error, when the
catalog can't be reached or does not let the stack in.
"""

import os
import sys

from firn.errors import FirnError
from firn_lake.catalogs.catalog import open_catalog


def main() -> int:
    """Ask for the namespaces, as everything starts with them. Returns the exit code."""
    try:
        open_catalog(os.environ["FIRN_CATALOG_URI"], os.environ["FIRN_WAREHOUSE"]).list_namespaces()
    except FirnError as error:
        print(error, file=sys.stderr)
    except Exception as error:  # noqa: BLE001 (what a server is that is no catalog shows in any of them)
        print(f"it does not answer as a catalog: {type(error).__name__}: {error}"[:500], file=sys.stderr)
    else:
        return 0
    return 2


if __name__ == "__main__":
    sys.exit(main())
