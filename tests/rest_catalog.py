"""A REST catalog for tests: Iceberg's own handlers in a JVM, behind a small HTTP server of Python's.

`CatalogHandlers` is what Iceberg's reference server calls too, and is in the jars that the jobs use anyway. What stands
here is the routing and the status codes (https://iceberg.apache.org/rest-catalog-spec/). A test can lose an answer.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import pyspark
from py4j import java_gateway
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError, get_return_value

from tests.aws_signatures import Signer
from tests.token_server import TokenServer

ROOT = Path(__file__).resolve().parents[1]
JARS = ROOT / ".cache" / "jars"
_ICEBERG = "org.apache.iceberg"
_JACKSON = f"{_ICEBERG}.shaded.com.fasterxml.jackson"
# What an exception of Iceberg's is in HTTP, as RESTCatalogAdapter has it.
STATUS = {
    "IllegalArgumentException": 400, "ValidationException": 400, "NamespaceNotEmptyException": 409,
    "NotAuthorizedException": 401, "ForbiddenException": 403, "NoSuchNamespaceException": 404,
    "NoSuchTableException": 404, "NoSuchViewException": 404, "NoSuchIcebergTableException": 404,
    "UnsupportedOperationException": 406, "AlreadyExistsException": 409, "CommitFailedException": 409,
    "UnprocessableEntityException": 422, "CommitStateUnknownException": 500,
}  # fmt: skip


class Iceberg:
    """Iceberg's handlers over a JdbcCatalog on SQLite, in a JVM of `jvm`'s. `files`: Iceberg's properties by
    which it reaches tables in object storage itself; of an S3 those of its FileIO may be left out."""

    def __init__(self, jvm: Any, database: Path, warehouse: str, files: Mapping[str, str] | None = None) -> None:
        self._jvm = jvm
        self.overrides: dict[str, str] = {}
        self._handlers = jvm.org.apache.iceberg.rest.CatalogHandlers
        settings = jvm.java.util.HashMap()
        told = {"uri": f"jdbc:sqlite:{database}?busy_timeout=30000&journal_mode=WAL", "warehouse": warehouse}
        told |= {"jdbc.schema-version": "V1", "io-impl": f"{_ICEBERG}.hadoop.HadoopFileIO"}
        if files:
            told |= {"io-impl": f"{_ICEBERG}.aws.s3.S3FileIO", **files}
        for name, value in told.items():
            settings.put(name, value)
        self._catalog = jvm.org.apache.iceberg.jdbc.JdbcCatalog()
        self._catalog.setConf(jvm.org.apache.hadoop.conf.Configuration())
        self._catalog.initialize("behind-rest", settings)
        self._json = self._mapper()

    def _mapper(self) -> Any:
        jackson = getattr(self._jvm, f"{_JACKSON}.databind.ObjectMapper")
        mapper = jackson()
        names = getattr(self._jvm, f"{_JACKSON}.databind.PropertyNamingStrategies$KebabCaseStrategy")
        mapper.setPropertyNamingStrategy(names())
        accessor = getattr(self._jvm, f"{_JACKSON}.annotation.PropertyAccessor")
        visibility = getattr(self._jvm, f"{_JACKSON}.annotation.JsonAutoDetect$Visibility")
        mapper.setVisibility(accessor.valueOf("FIELD"), visibility.valueOf("ANY"))
        feature = getattr(self._jvm, f"{_JACKSON}.databind.DeserializationFeature")
        mapper.configure(feature.valueOf("FAIL_ON_UNKNOWN_PROPERTIES"), False)
        self._jvm.org.apache.iceberg.rest.RESTSerializers.registerAll(mapper)
        return mapper

    def answer(self, method: str, parts: list[str], query: dict[str, str], body: str) -> tuple[int, str]:
        """(status, JSON) of a request below /v1/."""
        match method, parts:
            case "GET", ["config"]:
                return 200, json.dumps({"defaults": {}, "overrides": self.overrides})
            case "GET", ["namespaces"]:
                parent = self._namespace(query["parent"]) if query.get("parent") else self._namespace("")
                return self._ok(self._handlers.listNamespaces(self._catalog, parent))
            case "POST", ["namespaces"]:
                return self._ok(
                    self._handlers.createNamespace(self._catalog, self._read("CreateNamespaceRequest", body))
                )
            case "GET" | "HEAD", ["namespaces", name]:
                return self._ok(self._handlers.loadNamespace(self._catalog, self._namespace(name)))
            case "DELETE", ["namespaces", name]:
                self._handlers.dropNamespace(self._catalog, self._namespace(name))
                return 204, ""
            case "GET", ["namespaces", name, "tables"]:
                return self._ok(self._handlers.listTables(self._catalog, self._namespace(name)))
            case "POST", ["namespaces", name, "tables"]:
                request = self._read("CreateTableRequest", body)
                stage = self._handlers.stageTableCreate if request.stageCreate() else self._handlers.createTable
                return self._ok(stage(self._catalog, self._namespace(name), request))
            case "GET" | "HEAD", ["namespaces", name, "tables", table]:
                return self._ok(self._handlers.loadTable(self._catalog, self._table(name, table)))
            case "POST", ["namespaces", name, "tables", table]:
                request = self._read("UpdateTableRequest", body)
                return self._ok(self._handlers.updateTable(self._catalog, self._table(name, table), request))
            case "DELETE", ["namespaces", name, "tables", table]:
                purge = query.get("purgeRequested", "").lower() == "true"
                drop = self._handlers.purgeTable if purge else self._handlers.dropTable
                drop(self._catalog, self._table(name, table))
                return 204, ""
            case "POST", ["tables", "rename"]:
                self._handlers.renameTable(self._catalog, self._read("RenameTableRequest", body))
                return 204, ""
            case "POST", ["namespaces", _, "tables", _, "metrics"]:
                return 204, ""
        return 404, _error(404, "NotFoundException", f"no route for {method} {'/'.join(parts)}")

    def _ok(self, response: Any) -> tuple[int, str]:
        return 200, str(self._json.writeValueAsString(response))

    def _read(self, kind: str, body: str) -> Any:
        name = f"{_ICEBERG}.rest.requests.{kind}"
        # Spark's jars are known to the thread's own class loader only.
        return self._json.readValue(body, self._jvm.py4j.reflection.ReflectionUtil.classForName(name))

    def _namespace(self, text: str) -> Any:
        parts = [part for part in text.split("\x1f") if part]
        levels = self._jvm.org.apache.iceberg.rest.RESTUtil.decodeNamespace("%1F".join(parts)) if parts else None
        return levels if levels is not None else self._jvm.org.apache.iceberg.catalog.Namespace.empty()

    def _table(self, namespace: str, name: str) -> Any:
        return self._jvm.org.apache.iceberg.catalog.TableIdentifier.of(self._namespace(namespace), name)


class RestServer:
    """A server on loopback. `url` is its address; `lose` decides of each (method, path) whether it is done and its
    answer lost, `calls` are those that came, `authorizations` what they came with, `overrides` what it tells clients
    of itself. `tokens`: who may ask; `signer`: whose signature each request must have, `refused`: those that had
    not; `vends`: properties that are sent with each table to who asks for them, such as credentials; `apart`: likewise,
    as storage credentials of the table's location."""

    def __init__(self, iceberg: Iceberg) -> None:
        self.calls: list[tuple[str, str]] = []
        self.authorizations: list[str | None] = []
        self.lose: Callable[[str, str], bool] = lambda _method, _path: False
        self.status: int | None = None
        self.tokens: TokenServer | None = None
        self.signer: Signer | None = None
        self.refused: list[str] = []
        self.vends: dict[str, str] = {}
        self.apart: dict[str, str] = {}
        self.overrides = iceberg.overrides
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout: ClassVar[int] = 60

            def handle_any(self) -> None:
                parts = urlsplit(self.path)
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = sent.decode()
                outer.calls.append((self.command, parts.path))
                outer.authorizations.append(self.headers.get("Authorization"))
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                below = [unquote(one) for one in parts.path.removeprefix("/v1/").split("/")]
                try:
                    if outer.tokens is not None and not outer.tokens.knows(self.headers.get("Authorization")):
                        status, text = 401, _error(401, "NotAuthorizedException", "the token is not known, or expired")
                    elif outer.signer is not None and (
                        why := outer.signer.refusal(self.command, outer.url + self.path, dict(self.headers), sent)
                    ):
                        outer.refused.append(f"{self.command} {self.path}: {why}")
                        status, text = 403, _error(403, "ForbiddenException", why)
                    elif outer.status is not None:
                        status, text = outer.status, _error(outer.status, "ServiceUnavailableException", "not now")
                    else:
                        status, text = iceberg.answer(self.command, below, query, body)
                        if self.headers.get("X-Iceberg-Access-Delegation") and status == 200:
                            text = outer.with_keys(text)
                except Py4JJavaError as error:
                    kind = error.java_exception.getClass().getSimpleName()
                    status = STATUS.get(kind, 500)
                    text = _error(status, kind, str(error.java_exception.getMessage()))
                if outer.lose(self.command, parts.path):
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                data = b"" if self.command == "HEAD" else text.encode()
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = do_HEAD = handle_any

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def with_keys(self, text: str) -> str:
        """The answer, with what comes with a table if it is about one."""
        told = json.loads(text or "{}")
        if "metadata" not in told or not (self.vends or self.apart):
            return text
        more: dict[str, Any] = {"config": {**(told.get("config") or {}), **self.vends}}
        if self.apart:
            prefix = str(told["metadata"]["location"])
            more["storage-credentials"] = [{"prefix": prefix, "config": self.apart}]
        return json.dumps(told | more)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _error(status: int, kind: str, text: str) -> str:
    return json.dumps({"error": {"message": text, "type": kind, "code": status}})


@contextmanager
def _own_errors(gateway: JavaGateway) -> Iterator[None]:
    """Where Spark has run in this process before, PySpark asks the JVM of its session about every error of any JVM."""
    told = java_gateway.get_return_value

    def returned(answer: str, client: Any, *rest: Any) -> Any:
        return (get_return_value if client is gateway._gateway_client else told)(answer, client, *rest)

    java_gateway.get_return_value = returned
    try:
        yield
    finally:
        java_gateway.get_return_value = told


@contextmanager
def own_jvm(more: Iterable[Path] = ()) -> Iterator[Any]:
    """A small JVM with Iceberg in it, and `more` jars, where no Spark runs."""
    spark_jars = Path(pyspark.__file__).parent / "jars"
    needed = ("hadoop-client", "slf4j-api", "py4j", "commons-logging", "jcl-over-slf4j", "scala-library")
    jars = [*JARS.glob("*.jar"), *more, *(jar for jar in spark_jars.glob("*.jar") if jar.name.startswith(needed))]
    py4j = next(spark_jars.glob("py4j*.jar"))
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
    port, process = launch_gateway(
        jarpath=str(py4j), classpath=os.pathsep.join(map(str, jars)), javaopts=options, die_on_exit=True,
        return_proc=True, redirect_stdout=subprocess.DEVNULL, redirect_stderr=sys.stderr,
    )  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        with _own_errors(gateway):
            yield gateway.jvm
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(20)


@contextmanager
def rest_server(
    folder: Path, jvm: Any, warehouse: str = "", files: Mapping[str, str] | None = None
) -> Iterator[RestServer]:
    """A server whose tables are below `folder`, or at `warehouse` in object storage."""
    server = RestServer(Iceberg(jvm, folder / "rest.db", warehouse or f"file://{folder}/warehouse", files))
    yield server
    server.stop()
