"""A Nessie for tests, in memory. Its tables are in an S3 of the test's: it knows no folders.

`make setup-servers` fetches it; tests that find none, or no Java of 21 or newer, are skipped.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from examples.sources.processes import Server, free_port
from tests.java_homes import find_java

ROOT = Path(__file__).resolve().parents[1]
NESSIE = ROOT / ".cache" / "servers" / "nessie"
_JAVA = 21
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def java() -> str | None:
    """A java that is new enough; None without any."""
    return find_java("FIRN_JAVA_NESSIE", _JAVA)


def missing() -> str | None:
    """Why there is no Nessie here, as a reason to skip; None if there is."""
    if not list(NESSIE.glob("nessie-quarkus-*.jar")):
        return "Nessie is not installed: run `make setup-servers`"
    return None if java() else f"Nessie needs Java {_JAVA} or newer: install one, or name its java in FIRN_JAVA_NESSIE"


@contextmanager
def nessie(folder: Path, s3: dict[str, str], location: str) -> Iterator[str]:
    """One whose warehouse `w` is at `location`, in the S3 that the AWS_* of `s3` name. -> the address of its branch
    main by Iceberg's REST. `folder` gets its log."""
    command, jar = java() or "java", next(NESSIE.glob("nessie-quarkus-*.jar"))
    port, own = free_port(), free_port()
    options = "nessie.catalog.service.s3.default-options"
    told = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": own,
        "quarkus.otel.sdk.disabled": "true",
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "w",
        "nessie.catalog.warehouses.w.location": location,
        f"{options}.region": s3["AWS_REGION"],
        f"{options}.path-style-access": "true",
        f"{options}.endpoint": s3["AWS_ENDPOINT_URL"],
        f"{options}.access-key": "urn:nessie-secret:quarkus:s3",
        "s3.name": s3["AWS_ACCESS_KEY_ID"],
        "s3.secret": s3["AWS_SECRET_ACCESS_KEY"],
    }
    settings = [f"-D{name}={value}" for name, value in told.items()]
    server = Server("nessie", [command, *_JVM, *settings, "-jar", jar], folder)
    server.start()
    try:
        server.wait(lambda: _answers(f"http://127.0.0.1:{port}/api/v2/config"), 120)
        yield f"http://127.0.0.1:{port}/iceberg/main"
    finally:
        server.kill()


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
