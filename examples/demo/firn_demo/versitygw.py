"""A versitygw: an S3 server over a folder, on loopback, as a process that ends with us. For the demo and for tests.

`make setup-versitygw` builds it. https://github.com/versity/versitygw/wiki/Quickstart
"""

import os
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from firn.errors import FirnError
from firn_local.environment import REPOSITORY

PROGRAM: Final = REPOSITORY / ".cache" / "storages" / "versitygw"
REGION: Final = "us-east-1"
_START_SECONDS: Final = 30.0


class VersitygwLacks(FirnError):
    """It is not here, or does not start. The text says what to do."""


def missing() -> str | None:
    """Why there is none here; None if there is."""
    if PROGRAM.with_name("versitygw.firn-setup").exists() and PROGRAM.exists():
        return None
    return "versitygw is not built: run `make setup-versitygw` (it needs Go)"


@contextmanager
def versitygw(folder: Path, *buckets: str, secret_key: str = "", region: str = REGION) -> Iterator[dict[str, str]]:
    """One whose objects are below `folder`, with `buckets` in it, which takes no request for another region. -> the
    AWS_* by which clients reach it, and no other service: its keys are its own. Raises VersitygwLacks."""
    if why := missing():
        raise VersitygwLacks(why)
    keys = {"ROOT_ACCESS_KEY": "firn-test", "ROOT_SECRET_KEY": secret_key or secrets.token_urlsafe(24)}
    for name in ("sidecar", *(f"data/{bucket}" for bucket in buckets or ("",))):
        (folder / name).mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Attributes of objects are files beside them: not every file system has room for them in its own.
    posix = ("posix", "--sidecar", str(folder / "sidecar"), str(folder / "data"))
    with (folder / "versitygw.log").open("wb") as log:
        process = subprocess.Popen(
            [str(PROGRAM), "--port", f"127.0.0.1:{port}", "--region", region, *posix],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **keys},
        )
    try:
        _wait(process, f"http://127.0.0.1:{port}", folder / "versitygw.log")
        yield {
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": keys["ROOT_ACCESS_KEY"],
            "AWS_SECRET_ACCESS_KEY": keys["ROOT_SECRET_KEY"],
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    finally:
        process.kill()
        process.wait()


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=2).close()  # noqa: S310 (loopback)
        except urllib.error.HTTPError:
            return  # who asks without a signature is refused, by an S3 that is ready
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise VersitygwLacks(f"versitygw did not start within {_START_SECONDS:.0f} s:\n{log.read_text()[-2000:]}")
