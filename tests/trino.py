"""Trino for tests: one server on the loopback address, which reads tables of a SQL catalog as any other Trino would.

It is large and wants a newer Java than Spark: `make setup-trino` fetches it, and tests that find none are skipped.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from examples.sources.processes import free_port
from tests.java_homes import find_java

ROOT: Final = Path(__file__).resolve().parents[1]
TRINO: Final = ROOT / ".cache" / "trino"
JARS: Final = ROOT / ".cache" / "jars"
_JAVA: Final = 24  # what Trino 476 runs on, or newer
_SECONDS: Final = 300
_JVM: Final = (
    "-Xmx1G",
    "--add-modules=jdk.incubator.vector",
    "-XX:+EnableDynamicAgentLoading",
    "-Djdk.attach.allowAttachSelf=true",
)

Ask = Callable[[str], list[dict[str, Any]]]


class TrinoError(Exception):
    """What Trino said of a statement."""


def java() -> str | None:
    """A java that is new enough; None without any."""
    return find_java("FIRN_JAVA_TRINO", _JAVA)


def missing() -> str | None:
    """Why there is no Trino here, as a reason to skip; None if there is."""
    if not (TRINO / "plugin" / "iceberg").is_dir():
        return "Trino is not installed: run `make setup-trino`"
    return None if java() else f"Trino needs Java {_JAVA} or newer: install one, or name its java in FIRN_JAVA_TRINO"


@contextmanager
def trino(folder: Path, catalog: dict[str, str]) -> Iterator[Ask]:
    """A server whose catalog `iceberg` has these settings. -> what runs a statement and gives its rows.

    folder  an empty one, for its settings and its log (`log`)
    """
    port = free_port()
    plugins = folder / "plugin" / "iceberg"
    shutil.copytree(TRINO / "plugin" / "iceberg", plugins, copy_function=os.symlink)
    for jar in JARS.glob("sqlite-jdbc-*.jar"):
        (plugins / jar.name).symlink_to(jar)
    write(folder / "etc" / "catalog" / "iceberg.properties", {"connector.name": "iceberg"} | catalog)
    write(
        folder / "etc" / "config.properties",
        {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": str(port),
            "discovery.uri": f"http://127.0.0.1:{port}",
            "plugin.dir": str(folder / "plugin"),
            "catalog.config-dir": str(folder / "etc" / "catalog"),
            "node.environment": "test",
            "node.id": "one",
            "node.bind-ip": "127.0.0.1",
            "node.internal-address": "127.0.0.1",
        },
    )
    command = [java() or "java", *_JVM, "-cp", str(TRINO / "server" / "lib" / "*")]
    command += [f"-Dconfig={folder}/etc/config.properties", "io.trino.server.TrinoServer"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as server:
        try:
            _wait(server, port, folder / "log")
            yield lambda sql: _asked(port, sql)
        finally:
            server.kill()


def sql_catalog(uri: str, warehouse: str) -> dict[str, str]:
    """The settings of a catalog in a SQLite file (`sqlite:///…`), as `trino` takes them."""
    jdbc = "iceberg.jdbc-catalog."
    return {
        "iceberg.catalog.type": "jdbc",
        f"{jdbc}driver-class": "org.sqlite.JDBC",
        f"{jdbc}connection-url": uri.replace("sqlite:///", "jdbc:sqlite:"),
        f"{jdbc}catalog-name": "firn",
        f"{jdbc}default-warehouse-dir": warehouse,
        "fs.native-local.enabled": "true",
        "local.location": "/",
    }


def write(file: Path, settings: dict[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


def _wait(server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            if not json.loads(urlopen(f"http://127.0.0.1:{port}/v1/info", timeout=5).read())["starting"]:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"Trino did not start:\n{log.read_text()[-3000:]}")


def _asked(port: int, sql: str) -> list[dict[str, Any]]:
    """As `_rows`. A server that has just begun, or is slow, has not found itself as a node: then nothing was run."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return _rows(port, sql)
        except TrinoError as error:
            if "No nodes available" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def _rows(port: int, sql: str) -> list[dict[str, Any]]:
    """Raises TrinoError."""
    rows: list[dict[str, Any]] = []
    columns: list[dict[str, str]] = []
    request = Request(
        f"http://127.0.0.1:{port}/v1/statement",
        data=sql.encode(),
        headers={
            "X-Trino-User": "test",
            "X-Trino-Catalog": "iceberg",
            "X-Trino-Time-Zone": "UTC",
            "X-Trino-Client-Capabilities": "PARAMETRIC_DATETIME",  # without it times come in milliseconds
        },
    )
    while True:
        told = json.loads(urlopen(request, timeout=_SECONDS).read())
        if "error" in told:
            raise TrinoError(told["error"]["message"])
        columns = told.get("columns") or columns
        for row in told.get("data", ()):
            pairs = zip(columns, row, strict=True)
            rows.append({column["name"]: _value(column["type"], value) for column, value in pairs})
        if "nextUri" not in told:
            return rows
        request = Request(told["nextUri"])


def _value(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind.startswith("decimal"):
        return Decimal(value)
    if kind.startswith("timestamp"):
        return datetime.fromisoformat(value.replace(" UTC", "+00:00"))
    return date.fromisoformat(value) if kind == "date" else value
