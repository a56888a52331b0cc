"""A Hive Metastore for tests, over a PostgreSQL of its own: Derby stops where several commit at once.

`make setup-servers` fetches it; tests that find none are skipped. What its archive leaves to Hadoop's installation is
among PySpark's jars.
"""

import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyspark
import pytest

from examples.sources.processes import Server, free_port
from tests.postgresql import postgresql

ROOT = Path(__file__).resolve().parents[1]
HIVE = ROOT / ".cache" / "servers" / "hive"
ALTER = b"alter_table_with_environment_context"
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN", f"-Dmetastore.home={HIVE}")
_REFUSES_TYPES = "metastore.disallow.incompatible.col.type.changes"
_NOT_FROM_SPARK = ("hive", "spark", "datanucleus", "derby", "jdo", "javax.jdo", "log4j")


class Metastore:
    """`url` is its address. `pause` leaves its connections open and says nothing; `go_on` takes that back. After `kill`
    (SIGKILL) `restart` brings it back at the same address."""

    def __init__(self, port: int, server: Server) -> None:
        self.url, self._server = f"thrift://127.0.0.1:{port}", server

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        self._server.kill()

    def restart(self) -> None:
        self._server.start()
        self._server.wait(lambda: _listens(int(urlsplit(self.url).port or 0)), 60)

    def _signal(self, which: signal.Signals) -> None:
        assert self._server.pid is not None
        os.kill(self._server.pid, which)


def missing() -> str | None:
    """Why there is no metastore here, as a reason to skip; None if there is."""
    if not (HIVE.parent / ".firn-setup").exists():
        return "Hive is not installed: run `make setup-servers`"
    return None if shutil.which("java") else "Hive needs Java"


@contextmanager
def metastore(
    folder: Path, timeout: str = "300s", stores: Sequence[str] = (), *, refuses_types: bool = False
) -> Iterator[Metastore]:
    """One with an empty schema, whose warehouse is `folder`/warehouse. `folder` also gets its settings and its logs.
    `timeout`: how long the holder of a lock may say nothing; as by default, the metastore itself looks for none.
    `stores`: buckets and containers (s3://bucket) at which tables may lie too, which it never asks; see `_stores`.
    `refuses_types`: of columns that change their type or place, as by default."""
    if why := missing():
        pytest.skip(why)
    port = free_port()
    with postgresql() as address:
        told = _settings(address, port, folder / "warehouse", timeout) | _stores(stores, folder)
        (folder / "metastore-site.xml").write_text(_written(told | {_REFUSES_TYPES: str(refuses_types).lower()}))
        java = ["java", *_JVM, "-cp", _class_path(folder)]
        tool = "org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool"
        environment = {"METASTORE_HOME": str(HIVE), "METASTORE_CONF_DIR": str(folder)}
        made = subprocess.run(
            [*java, tool, "-dbType", "postgres", "-initSchema"],
            cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
        command = [*java, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
        server = Server("metastore", command, folder, environment=environment)
        server.start()
        try:
            server.wait(lambda: _listens(port), 60)
            yield Metastore(port, server)
        finally:
            server.kill()


@contextmanager
def relayed(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """An address before a metastore's: `serve` has each connection that is made there, in a thread of its own."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"thrift://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def dying(running: Metastore, *, done: bool) -> Iterator[str]:
    """An address before the metastore's. At the first change of a table that comes by there the metastore is killed,
    when it has done that (`done`) or before it hears of it, and started again."""
    port, hit = int(urlsplit(running.url).port or 0), threading.Event()
    again: list[threading.Thread] = []

    def die() -> None:
        running.kill()
        again.append(threading.Thread(target=running.restart))
        again[0].start()

    def serve(caller: socket.socket) -> None:
        with caller, suppress(OSError), socket.create_connection(("127.0.0.1", port)) as server:
            caller.settimeout(60)
            while data := caller.recv(1 << 20):
                now = ALTER in data and not hit.is_set()
                if now:
                    hit.set()
                if not now or done:
                    server.sendall(data)
                    answer = server.recv(1 << 20)
                if now:
                    die()
                    return
                caller.sendall(answer)

    with relayed(serve) as url:
        yield url
        assert hit.is_set(), "no table was changed"
        again[0].join(60)


def _class_path(folder: Path) -> str:
    from_spark = (Path(pyspark.__file__).parent / "jars").glob("*.jar")
    jars = [str(jar) for jar in from_spark if not jar.name.startswith(_NOT_FROM_SPARK)]
    driver = next((ROOT / ".cache" / "jars").glob("postgresql-*.jar"))
    return ":".join([str(folder), f"{HIVE}/lib/*", *sorted(jars), str(driver)])


def _settings(address: str, port: int, warehouse: Path, timeout: str) -> dict[str, str]:
    database = urlsplit(address)
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://127.0.0.1:{database.port}{database.path}",
        "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
        "javax.jdo.option.ConnectionUserName": database.username or "",
        "javax.jdo.option.ConnectionPassword": unquote(database.password or ""),
        "metastore.warehouse.dir": f"file://{warehouse}-managed",  # it takes no others' tables there
        "metastore.warehouse.external.dir": f"file://{warehouse}",
        "metastore.thrift.bind.host": "127.0.0.1",
        "metastore.thrift.port": str(port),
        "metastore.event.db.notification.api.auth": "false",
        "metastore.housekeeping.threads.on": "false",
        "metastore.txn.timeout": timeout,
    }


def _written(told: Mapping[str, str]) -> str:
    rows = "".join(f"<property><name>{name}</name><value>{value}</value></property>\n" for name, value in told.items())
    return f"<configuration>\n{rows}</configuration>\n"


def _stores(stores: Sequence[str], folder: Path) -> dict[str, str]:
    """Settings for tables in object storage. A metastore makes the folder of a namespace or table by Hadoop's file
    system of the address's scheme, and knows none for s3, gs and abfss without the cloud's own connector. Here such an
    address is a folder on this machine for it, by Hadoop's own "ViewFileSystem Overload Scheme": it makes an empty
    folder there, and tables' files are written by others, who ask the storage."""
    told = {"fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.LocalFileSystem"} if stores else {}
    for number, store in enumerate(stores):
        scheme, _, authority = store.partition("://")
        told[f"fs.{scheme}.impl"] = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
        (folder / f"store-{number}").mkdir()
        told[f"fs.viewfs.mounttable.{authority}.linkMergeSlash"] = f"file://{folder}/store-{number}"
    return told


def _listens(port: int) -> bool:
    """Asked by a whole client: a port that is open alone may belong to one that is not ready."""
    from firn.errors import TransientError
    from firn_lake.catalogs.catalog import open_catalog

    try:
        open_catalog(f"thrift://127.0.0.1:{port}#firn.answer-seconds=5", "file:///tmp", {}).list_namespaces()
    except TransientError:
        return False
    return True
