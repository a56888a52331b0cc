"""Publish firn.yaml to the staging store: `python -m firn_local.publish STAGING_URL FIRN_YAML`.

A process of its own: it needs the AWS environment of the functions, and what it loads must not stay in the stack.
Exit code 2, and the reason on standard error, when the file is wrong or can't be stored.
"""

import sys
from pathlib import Path

from firn.deployment.config_text import config_text
from firn.errors import FirnError
from firn.log.published_configs import publish
from firn.log.store import open_store
from firn_sql.configured import check_pipelines


def main(staging: str, path: str) -> int:
    """Check the file, store it by its hash and point to it. Returns the exit code."""
    try:
        publish(open_store(staging), config_text(Path(path)), path, check_pipelines)
    except FirnError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
