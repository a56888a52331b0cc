"""A Hive Metastore that is away, that hangs, that is none, and whose answers get lost."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError

import firn_lake
from firn.errors import ConfigError, TransientError, UnknownOutcome
from firn_cli.catalog_check import CatalogCheck
from firn_lake.catalogs.catalog import open_catalog
from tests.hive import ALTER, Metastore, metastore, relayed
from tests.integration.catalogs.test_answers import dead, hanging
from tests.integration.catalogs.test_contract import SCHEMA, ids, rows

pytestmark = pytest.mark.stack
pytest.importorskip("thrift", reason="PyIceberg's Hive client is not installed: run `make setup`")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    with metastore(tmp_path_factory.mktemp("hive")) as one:
        yield one


@pytest.fixture(scope="module")
def table_in(running: Metastore, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Makes a namespace with a table `t`; -> the warehouse."""
    warehouse = f"file://{tmp_path_factory.mktemp('tables')}"

    def make(namespace: str) -> str:
        catalog = opened(warehouse, running.url)
        catalog.create_namespace(namespace)
        catalog.create_table(f"{namespace}.t", SCHEMA)
        return warehouse

    return make


def opened(warehouse: str, *urls: str, answer: float = 20) -> Catalog:
    return open_catalog(f"{','.join(urls)}#firn.answer-seconds={answer}", warehouse, {})


def thrift(url: str) -> str:
    return url.replace("http://", "thrift://")


@contextmanager
def between(url: str, *, reaches: bool) -> Iterator[str]:
    """An address before the metastore's. It passes all on but the first change of a table: it ends the connection
    when that was done (`reaches`), or in place of it."""
    there = (str(urlsplit(url).hostname), int(urlsplit(url).port or 0))
    lost = threading.Event()

    def serve(caller: socket.socket) -> None:
        with caller, socket.create_connection(there) as server, suppress(OSError):
            caller.settimeout(30)
            while data := caller.recv(1 << 20):
                loses = ALTER in data and not lost.is_set()
                if loses and not reaches:
                    lost.set()
                    return
                server.sendall(data)
                answer = server.recv(1 << 20)
                if loses:
                    lost.set()
                    return
                caller.sendall(answer)

    with relayed(serve) as address:
        yield address
        assert lost.is_set()


@pytest.mark.parametrize("kind", ["dead", "hanging"])
def test_a_metastore_that_does_not_answer_is_a_passing_error_that_names_it(kind: str, tmp_path: Path) -> None:
    with hanging() as stuck:
        url = thrift(stuck if kind == "hanging" else dead())
        began = time.monotonic()
        with pytest.raises(TransientError) as caught:
            opened(f"file://{tmp_path}", url, answer=0.3).list_namespaces()
        assert time.monotonic() - began < 10
        assert url in str(caught.value)
        with pytest.raises(UnknownOutcome if kind == "hanging" else TransientError) as caught:
            opened(f"file://{tmp_path}", url, answer=0.3).create_namespace("n")
        assert url in str(caught.value)


def test_what_is_no_metastore_is_said_to_be_none(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)

        def answer() -> None:
            with suppress(OSError), listener.accept()[0] as caller:
                caller.recv(1000)
                caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        url = f"thrift://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(ConfigError, match="is no Hive Metastore") as caught:
            opened(f"file://{tmp_path}", url, answer=5).list_namespaces()
    assert url in str(caught.value)


def test_kerberos_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"hive\.kerberos-authentication is not supported"):
        open_catalog("thrift://127.0.0.1:9#hive.kerberos-authentication=true", f"file://{tmp_path}", {})


def test_where_one_metastore_is_away_the_next_is_asked(running: Metastore, table_in: Callable[[str], str]) -> None:
    catalog = opened(table_in("away"), thrift(dead()), running.url)
    catalog.load_table("away.t").append(rows(1))
    assert ids(catalog.load_table("away.t")) == [1]


def test_a_metastore_that_hangs_in_a_commit_is_a_passing_error(
    running: Metastore, table_in: Callable[[str], str]
) -> None:
    catalog = opened(table_in("paused"), running.url, answer=0.5)
    table = catalog.load_table("paused.t")
    running.pause()
    try:
        began = time.monotonic()
        with pytest.raises(TransientError, match="does not answer"):
            table.append(rows(1))
        assert time.monotonic() - began < 10
    finally:
        running.go_on()


def test_a_commit_whose_answer_is_lost_is_looked_for_and_found(
    running: Metastore, table_in: Callable[[str], str]
) -> None:
    warehouse = table_in("lost")
    with between(running.url, reaches=True) as url:
        opened(warehouse, url).load_table("lost.t").append(rows(1))
    table = opened(warehouse, running.url).load_table("lost.t")
    assert ids(table) == [1]
    began = time.monotonic()
    table.append(rows(2))  # no lock was left behind
    assert time.monotonic() - began < 5


def test_a_commit_that_may_not_have_arrived_is_not_said_to_be_done(
    running: Metastore, table_in: Callable[[str], str]
) -> None:
    warehouse = table_in("gone")
    with between(running.url, reaches=False) as url:
        table = firn_lake.connect(opened(warehouse, url)).table("gone.t")
        with pytest.raises(UnknownOutcome, match="not known whether"):
            table.append(rows(1), id="load-1")
    assert ids(opened(warehouse, running.url).load_table("gone.t")) == []


def test_a_swap_names_the_metadata_that_it_saw(running: Metastore, table_in: Callable[[str], str]) -> None:
    """Even where no lock holds: what another writer did meanwhile is not undone."""
    catalog = opened(table_in("swap"), running.url)
    catalog.load_table("swap.t").append(rows(1))
    client = catalog._client  # type: ignore[attr-defined]
    with client as asked:
        late = asked.get_table(dbname="swap", tbl_name="t")
    catalog.load_table("swap.t").append(rows(2))
    late.parameters["previous_metadata_location"] = late.parameters["metadata_location"]
    from hive_metastore.ttypes import EnvironmentContext

    with client as asked, pytest.raises(CommitFailedException, match="another writer"):
        asked.alter_table_with_environment_context("swap", "t", late, EnvironmentContext(properties={}))
    assert ids(catalog.load_table("swap.t")) == [1, 2]


def test_a_table_in_no_namespace_is_refused(running: Metastore, table_in: Callable[[str], str]) -> None:
    with pytest.raises(NoSuchNamespaceError):
        opened(table_in("some"), running.url).create_table("nowhere.t", SCHEMA)


def test_the_doctor_names_the_setting_by_which_columns_may_get_other_types(tmp_path: Path) -> None:
    warehouse = f"file://{tmp_path}/warehouse"
    with metastore(tmp_path, refuses_types=True) as strict:
        found = {one.name: one for one in CatalogCheck(strict.url, warehouse, {}, "firn_check").checks()}
        assert not opened(warehouse, strict.url).namespace_exists("firn_check")
    assert (found["conflict"].ok, found["types"].ok, found["drop"].ok) == (True, False, True), found
    assert "set metastore.disallow.incompatible.col.type.changes to false" in found["types"].found
    assert "types incompatible" in found["types"].found
