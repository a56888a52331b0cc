"""Catalogs that are away, that hang, and whose answers get lost."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyiceberg.catalog import Catalog

import firn_lake
from firn.config.catalogs import FROM_ENVIRONMENT, NESSIE
from firn.errors import ConfigError, TransientError, UnknownOutcome
from firn_cli.catalog_check import CatalogCheck
from firn_cli.check_parts import Check
from firn_lake.catalogs.catalog import open_catalog
from firn_spark.catalog_failover import answering
from tests.integration.catalogs.test_contract import SCHEMA, ids, rows
from tests.postgresql import as_catalog, postgresql
from tests.rest_catalog import RestServer

pytestmark = pytest.mark.stack


@pytest.fixture(autouse=True)
def quiet(server: RestServer) -> Iterator[None]:
    yield
    server.lose, server.status, server.tokens = (lambda _method, _path: False), None, None
    server.overrides.clear()


def dead() -> str:
    """An address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def hanging() -> Iterator[str]:
    """An address where connections are taken, and nothing is ever said."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def opened(tmp_path: Path, *urls: str, answer: float = 20) -> Catalog:
    return open_catalog(f"{','.join(urls)}#firn.answer-seconds={answer}", f"file://{tmp_path}/warehouse", {})


def test_where_one_server_is_away_the_next_is_asked(server: RestServer, tmp_path: Path) -> None:
    catalog = opened(tmp_path, dead(), server.url)
    catalog.create_namespace("away")  # a write too: it never reached the first
    table = catalog.create_table("away.t", SCHEMA)
    table.append(rows(1))
    assert ids(catalog.load_table("away.t")) == [1]


def test_where_one_server_hangs_the_next_is_asked(server: RestServer, tmp_path: Path) -> None:
    with hanging() as stuck:
        began = time.monotonic()
        catalog = opened(tmp_path, stuck, server.url, answer=0.3)
        catalog.list_namespaces()
        assert time.monotonic() - began < 5
        # The one that answered is asked first from now on.
        began = time.monotonic()
        catalog.list_namespaces()
        assert time.monotonic() - began < 0.3


def test_a_server_that_is_not_ready_is_passed_over_for_reads(server: RestServer, tmp_path: Path) -> None:
    catalog = opened(tmp_path, server.url)
    server.status = 503
    with pytest.raises(TransientError, match="answered 503") as caught:
        catalog.list_namespaces()
    assert server.url in str(caught.value)


@pytest.mark.parametrize("kind", ["dead", "hanging"])
def test_a_catalog_that_does_not_answer_is_a_passing_error_that_names_it(kind: str, tmp_path: Path) -> None:
    with hanging() as stuck:
        url = stuck if kind == "hanging" else dead()
        began = time.monotonic()
        with pytest.raises(TransientError) as caught:
            opened(tmp_path, url, answer=0.3)
        assert time.monotonic() - began < 3
    assert url in str(caught.value)
    assert ("timed out" if kind == "hanging" else "refused") in str(caught.value)


def test_a_commit_whose_answer_is_lost_is_tried_nowhere_else(server: RestServer, tmp_path: Path) -> None:
    with hanging() as stuck:
        catalog = opened(tmp_path, server.url, stuck)
        catalog.create_namespace("lost")
        table = catalog.create_table("lost.t", SCHEMA)
        server.calls.clear()
        server.lose = lambda method, path: method == "POST" and path.endswith("/tables/t")
        with pytest.raises(UnknownOutcome, match="not known whether") as caught:
            table.append(rows(1))
    assert server.url in str(caught.value)
    assert [call for call in server.calls if call[0] == "POST"] == [("POST", "/v1/namespaces/lost/tables/t")]
    # It was done: a second try would have made the row twice. Its files are all there.
    assert ids(catalog.load_table("lost.t")) == [1]


def test_an_append_with_an_id_is_safe_to_say_again_after_a_lost_answer(server: RestServer, tmp_path: Path) -> None:
    catalog = opened(tmp_path, server.url)
    catalog.create_namespace("again")
    catalog.create_table("again.t", SCHEMA)
    table = firn_lake.connect(catalog).table("again.t")
    server.lose = lambda method, path: method == "POST" and path.endswith("/tables/t")
    with pytest.raises(UnknownOutcome):
        table.append(rows(1, 2), id="load-1")
    server.lose = lambda _method, _path: False
    table.append(rows(1, 2), id="load-1")
    assert ids(catalog.load_table("again.t")) == [1, 2]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_commit_that_is_answered_by_an_error_of_the_server_is_not_tried_again(
    server: RestServer, tmp_path: Path, status: int
) -> None:
    catalog = opened(tmp_path, server.url, dead())
    catalog.create_namespace_if_not_exists("unsure")
    table = catalog.create_table(f"unsure.t{status}", SCHEMA)
    server.calls.clear()
    server.status = status
    with pytest.raises(UnknownOutcome, match=str(status)):
        table.append(rows(1))
    assert [method for method, _ in server.calls] == ["POST"]


@pytest.mark.parametrize("kind", ["dead", "hanging"])
def test_glue_that_does_not_answer_is_an_error_that_names_it(kind: str, tmp_path: Path) -> None:
    with hanging() as stuck:
        url = stuck if kind == "hanging" else dead()
        env = {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-x-1"}
        catalog = open_catalog("glue://#firn.answer-seconds=0.3", f"file://{tmp_path}/warehouse", env)
        began = time.monotonic()
        with pytest.raises(TransientError) as caught:
            catalog.list_tables("lake")
        assert url in str(caught.value)
        with pytest.raises(UnknownOutcome if kind == "hanging" else TransientError) as caught:
            catalog.create_namespace("lake")
        assert url in str(caught.value)
        assert time.monotonic() - began < 20


def test_a_job_goes_to_the_first_server_that_answers(server: RestServer) -> None:
    with hanging() as stuck:
        found = answering(f"{dead()},{stuck},{server.url}#warehouse=w", seconds=0.2)
        assert found == f"{server.url}#warehouse=w"
        with pytest.raises(TransientError, match=r"refused.*timed out"):
            answering(f"{dead()},{stuck}", seconds=0.2)
    assert answering("sqlite:////x/c.db") == "sqlite:////x/c.db"
    server.status = 401
    assert answering(f"{server.url},{dead()}") == server.url


class Proxy:
    """Stands before a server. `lose(said)` of what a client says: it goes on, and nothing comes back any more."""

    def __init__(self, port: int) -> None:
        self.lose: Callable[[bytes], bool] = lambda _said: False
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                self._open += [client, server]
                lost = threading.Event()
                threading.Thread(target=self._pass, args=(client, server, lost, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, lost, False), daemon=True).start()

    def _pass(self, source: socket.socket, to: socket.socket, lost: threading.Event, asks: bool) -> None:
        with suppress(OSError):
            while said := source.recv(65_536):
                if asks and self.lose(said):
                    lost.set()
                if asks or not lost.is_set():
                    to.sendall(said)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with postgresql() as address:
        yield as_catalog(address, tmp_path_factory.mktemp("postgres") / "secret")


def at(address: str, port: int) -> str:
    """The same by another port, with little patience."""
    parts = urlsplit(address)
    told = f"{parts.fragment}&firn.answer-seconds=0.5".lstrip("&")
    return parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}", fragment=told).geturl()


@pytest.mark.parametrize("kind", ["dead", "hanging"])
def test_a_postgresql_that_does_not_answer_is_a_passing_error_that_names_it(kind: str, tmp_path: Path) -> None:
    with hanging() as stuck:
        port = urlsplit(stuck if kind == "hanging" else dead()).port
        began = time.monotonic()
        address, secret = at("postgresql://u@x/lake", port or 0), {f"{FROM_ENVIRONMENT}CREDENTIAL": "secret"}
        with pytest.raises(TransientError, match=f"127.0.0.1:{port}") as caught:
            open_catalog(address, f"file://{tmp_path}/warehouse", secret)
        assert time.monotonic() - began < 3
    assert "secret" not in str(caught.value)


def test_a_postgresql_that_lets_nobody_in_says_why(postgres: str, tmp_path: Path) -> None:
    nowhere = postgres.replace("/lake#", "/nowhere#")
    warehouse, wrong = f"file://{tmp_path}/warehouse", {f"{FROM_ENVIRONMENT}CREDENTIAL": "wr0ng/@"}
    with pytest.raises(ConfigError, match=r"authentication failed.*; it got no password: firn.credential names "):
        open_catalog(postgres.partition("#")[0], warehouse, {})
    for address, environment in ((nowhere, {}), (postgres, wrong)):
        with pytest.raises(ConfigError, match=r"refuses the connection: .*(does not exist|authentication failed)") as e:
            open_catalog(address, warehouse, environment)
        assert "wr0ng" not in str(e.value)


@pytest.mark.parametrize("done", [False, True])
def test_a_commit_that_postgresql_does_not_answer_is_unknown(postgres: str, tmp_path: Path, done: bool) -> None:
    """It is said in two messages: `commit`, to be understood (`P`), and then to be done (`E`)."""
    said_so: list[bytes] = []

    def of_the_commit(said: bytes) -> bool:
        said_so.extend([said] if b"commit\0" in said else [])
        return bool(said_so) and (not done or b"E\0\0\0\t" in said)

    proxy = Proxy(urlsplit(postgres).port or 0)
    try:
        catalog = open_catalog(at(postgres, proxy.port), f"file://{tmp_path}/warehouse", {})
        catalog.create_namespace_if_not_exists("silent")
        table = catalog.create_table(f"silent.t{done}", SCHEMA)
        proxy.lose = of_the_commit
        with pytest.raises(UnknownOutcome, match="not known whether"):
            table.append(rows(1))
        proxy.lose = lambda said: b"SELECT" in said.upper()
        with pytest.raises(TransientError, match="does not answer"):
            catalog.load_table(f"silent.t{done}")
        proxy.lose = lambda _said: False
        assert ids(catalog.load_table(f"silent.t{done}")) == ([1] if done else [])
    finally:
        proxy.close()


@pytest.mark.parametrize("known_by", ["its address", "what it says"])
def test_a_nessie_is_read_and_nothing_is_committed_to_it(server: RestServer, tmp_path: Path, known_by: str) -> None:
    plain = opened(tmp_path, server.url)
    name = f"nessie{len(known_by)}"
    plain.create_namespace(name)
    plain.create_table(f"{name}.t", SCHEMA).append(rows(1))
    if known_by == "what it says":
        server.overrides[NESSIE] = "true"
    catalog = opened(tmp_path, server.url if known_by == "what it says" else f"nessie+{server.url}")
    table = catalog.load_table(f"{name}.t")
    assert ids(table) == [1]
    server.calls.clear()
    for write in (
        lambda: table.append(rows(2)),
        lambda: firn_lake.connect(catalog).table(f"{name}.t").append(rows(2), id="load-1"),
        lambda: catalog.create_table(f"{name}.other", SCHEMA),
        lambda: catalog.create_table_transaction(f"{name}.other", SCHEMA),
        lambda: catalog.register_table(f"{name}.other", table.metadata_location),
    ):
        with pytest.raises(ConfigError, match="is a Nessie, and Firn only reads from it"):
            write()
    assert not [call for call in server.calls if call[0] == "POST"]
    assert ids(plain.load_table(f"{name}.t")) == [1]


def doctor(tmp_path: Path, address: str) -> dict[str, Check]:
    check = CatalogCheck(address, f"file://{tmp_path}/warehouse", {}, "firn_check")
    return {one.name: one for one in check.checks()}


@pytest.mark.parametrize("status", [401, 403])
def test_the_doctor_of_a_catalog_that_lets_nobody_in_says_where_credentials_go(
    server: RestServer, tmp_path: Path, status: int
) -> None:
    server.status = status
    found = doctor(tmp_path, server.url)
    assert (found["reach"].ok, found["create"].found, found["drop"].found) == (False, "not tried", "not tried")
    assert "PYICEBERG_CATALOG__FIRN__TOKEN" in found["reach"].advice


def test_the_doctor_of_a_catalog_that_hangs_does_not_hang(tmp_path: Path) -> None:
    with hanging() as stuck:
        began = time.monotonic()
        found = doctor(tmp_path, f"{stuck}#firn.answer-seconds=0.3")
        assert time.monotonic() - began < 5
    assert (found["reach"].ok, found["drop"].found) == (False, "not tried")
    assert stuck in found["reach"].found


def test_the_doctor_of_a_catalog_that_loses_an_answer_drops_what_it_made(server: RestServer, tmp_path: Path) -> None:
    server.lose = lambda method, path: method == "POST" and path.endswith("/firn_check/tables")
    found = doctor(tmp_path, server.url)
    assert (found["create"].ok, found["writers"].found, found["drop"].ok) == (False, "not tried", True)
    assert "not known whether" in found["create"].found
    assert not opened(tmp_path, server.url).namespace_exists("firn_check")


def test_the_doctor_makes_nothing_in_a_nessie_and_says_why(server: RestServer, tmp_path: Path) -> None:
    server.overrides[NESSIE] = "true"
    server.calls.clear()
    found = doctor(tmp_path, server.url)
    assert (found["reach"].ok, found["create"].ok, found["drop"].found) == (True, False, "not tried")
    assert "is a Nessie, and Firn only reads from it" in found["create"].found
    assert {method for method, _ in server.calls} <= {"GET", "HEAD"}
