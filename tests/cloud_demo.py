"""`python -m tests.cloud_demo azure|google`: the demo with staging and warehouse on the server of that cloud; it
exits 0 only if every row of every table is equal to PostgreSQL's."""

import os
import sys
import tempfile
from pathlib import Path

from firn_demo.__main__ import main as demo
from tests.clouds import CLOUDS


def main(cloud: str) -> int:
    """-> the demo's exit code."""
    with tempfile.TemporaryDirectory(prefix="firn-cloud-") as folder, CLOUDS[cloud](Path(folder)) as server:
        os.environ.update(server.environment)
        return demo(["--staging", server.url("demo/staging"), "--warehouse", server.url("demo/warehouse")])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
