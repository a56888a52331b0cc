"""`python -m tests.cloud_demo azure|google [mixed]`: the demo with staging and warehouse on the server of that cloud.

It exits 0 only if every row of every table is equal to PostgreSQL's. Mixed: staged data stays in the stack's own S3.
"""

import os
import sys
import tempfile
from pathlib import Path

from firn_demo.__main__ import main as demo
from tests.clouds import CLOUDS


def main(cloud: str, mixed: str = "") -> int:
    """-> the demo's exit code."""
    with tempfile.TemporaryDirectory(prefix="firn-cloud-") as folder, CLOUDS[cloud](Path(folder)) as server:
        os.environ.update(server.environment)
        staging = [] if mixed else ["--staging", server.url("demo/staging")]
        return demo([*staging, "--warehouse", server.url("demo/warehouse")])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
