"""Azure's blob storage for tests: Azurite, in memory, with one container `lake` of its one account.

`make setup-servers` fetches it (by npm); tests that find none are skipped. It has the blob endpoint alone, not the one
of ADLS Gen2 (dfs): obstore asks the former, and so do reads and writes of Iceberg's ADLSFileIO; only its listings fail,
and Firn's own are obstore's.
"""

import base64
import hashlib
import hmac
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from examples.sources.processes import Server, free_port

ACCOUNT = "devstoreaccount1"
# Published with it, for everybody: https://learn.microsoft.com/azure/storage/common/storage-use-azurite
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
ROOT = Path(__file__).resolve().parents[1]
_MAIN = ROOT / ".cache" / "servers" / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
_VERSION = "2021-08-06"  # of the API


@dataclass(frozen=True)
class Azurite:
    """`endpoint`: its address, with the account."""

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        """What a process that stores there has in its environment."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": self.endpoint,
        }

    def url(self, prefix: str, container: str = "lake") -> str:
        return f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/{prefix}"


def missing() -> str | None:
    """Why there is none here, as a reason to skip; None if there is."""
    if not _MAIN.exists():
        return "Azurite is not installed: run `make setup-servers`"
    return None if shutil.which("node") else "Azurite needs Node.js"


@contextmanager
def azurite(folder: Path) -> Iterator[Azurite]:
    """One that is ready. `folder` gets its log."""
    if why := missing():
        pytest.skip(why)
    port = free_port()
    listen = ("--blobHost", "127.0.0.1", "--blobPort", str(port))
    quiet = ("--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent")
    server = Server("azurite", ["node", _MAIN, *listen, *quiet], folder)
    server.start()
    try:
        found = Azurite(f"http://127.0.0.1:{port}/{ACCOUNT}")
        server.wait(lambda: _made(found, "lake"), 60)
        yield found
    finally:
        server.kill()


def _made(server: Azurite, container: str) -> bool:
    """Make a container, by a request signed as Azure wants it ("Authorize with Shared Key" in its documents)."""
    now = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    empty = "\n" * 12  # the headers that it is not sent
    signed = f"PUT{empty}x-ms-date:{now}\nx-ms-version:{_VERSION}\n/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": now,
        "x-ms-version": _VERSION,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
        "Content-Length": "0",
    }
    try:
        with urlopen(
            Request(f"{server.endpoint}/{container}?restype=container", method="PUT", headers=headers)
        ) as told:
            return bool(told.status == 201)
    except OSError:
        return False
