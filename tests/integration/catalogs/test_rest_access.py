"""Who may ask a REST catalog, and Glue: tokens that end in the middle of things, clients that are refused, and servers
that ask for patience. What is not allowed is told with the setting, and never taken for a failure that passes."""

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError
from pyiceberg.catalog import Catalog

import firn_lake
from firn.errors import ConfigError, TransientError, UnknownOutcome
from firn_cli.catalog_check import CatalogCheck
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.catalogs.glue import told
from firn_local.aws import AwsEndpoint
from tests.integration.catalogs.test_answers import Proxy, hanging
from tests.integration.catalogs.test_contract import SCHEMA, ids, rows
from tests.rest_catalog import RestServer
from tests.token_server import TokenServer

pytestmark = pytest.mark.stack
_HERE = "PYICEBERG_CATALOG__FIRN__"


@pytest.fixture
def endpoint(server: RestServer) -> Iterator[TokenServer]:
    tokens = TokenServer()
    server.tokens = tokens
    yield tokens
    server.tokens, server.status = None, None
    tokens.stop()


@pytest.fixture
def env(endpoint: TokenServer) -> dict[str, str]:
    """As a job has it: the secret in the environment, all else may stand in firn.yaml."""
    return {f"{_HERE}CREDENTIAL": endpoint.credential, f"{_HERE}OAUTH2_SERVER_URI": endpoint.url}


def opened(server: RestServer, folder: Path, env: dict[str, str], answer: float = 20) -> Catalog:
    return open_catalog(f"{server.url}#firn.answer-seconds={answer}", f"file://{folder}/warehouse", env)


def a_table(catalog: Catalog, name: str) -> str:
    catalog.create_namespace(name)
    catalog.create_table(f"{name}.t", SCHEMA)
    return f"{name}.t"


def test_one_token_serves_many_requests(
    server: RestServer, endpoint: TokenServer, env: dict[str, str], tmp_path: Path
) -> None:
    catalog = opened(server, tmp_path, env)
    catalog.load_table(a_table(catalog, "many")).append(rows(1))
    assert ids(catalog.load_table("many.t")) == [1]
    assert len(endpoint.asked) == 1


def test_a_commit_whose_token_was_taken_back_meanwhile_is_made_once_with_a_new_one(
    server: RestServer, endpoint: TokenServer, env: dict[str, str], tmp_path: Path
) -> None:
    catalog = opened(server, tmp_path, env)
    table = catalog.load_table(a_table(catalog, "taken"))
    endpoint.forget()
    table.append(rows(1))
    assert ids(catalog.load_table("taken.t")) == [1]
    assert len(catalog.load_table("taken.t").metadata.snapshots) == 1
    assert len(endpoint.asked) == 2


def test_tokens_of_a_second_are_replaced_before_they_end(
    server: RestServer, endpoint: TokenServer, env: dict[str, str], tmp_path: Path
) -> None:
    endpoint.lives = 1.0
    catalog = opened(server, tmp_path, env)
    table = catalog.load_table(a_table(catalog, "short"))
    for number in range(6):
        table.append(rows(number))
    assert ids(catalog.load_table("short.t")) == list(range(6))


def test_where_no_token_comes_a_commit_was_not_made(
    server: RestServer, endpoint: TokenServer, env: dict[str, str], tmp_path: Path
) -> None:
    catalog = opened(server, tmp_path, env, answer=0.5)
    table = firn_lake.connect(catalog).table(a_table(catalog, "waits"))
    endpoint.forget()
    for hangs, status in ((True, None), (False, 503), (False, 500), (False, 429)):
        endpoint.hangs, endpoint.status = hangs, status
        began = time.monotonic()
        with pytest.raises(TransientError, match="token endpoint"):
            table.append(rows(1), id="load-1")
        assert time.monotonic() - began < 10
    endpoint.hangs, endpoint.status = False, None
    table.append(rows(1), id="load-1")
    assert ids(catalog.load_table("waits.t")) == [1]


def test_a_client_that_is_no_longer_known_is_told_which_setting(
    server: RestServer, endpoint: TokenServer, env: dict[str, str], tmp_path: Path
) -> None:
    catalog = opened(server, tmp_path, env)
    table = catalog.load_table(a_table(catalog, "gone"))
    endpoint.forget()
    endpoint.status = 401
    with pytest.raises(ConfigError, match=f"refuses this client.*{_HERE}CREDENTIAL"):
        table.append(rows(1))
    with pytest.raises(ConfigError, match=f"refuses this client.*{_HERE}CREDENTIAL"):
        opened(server, tmp_path, env)


@pytest.mark.parametrize("status", [401, 403, 419])
def test_what_is_not_allowed_is_final_and_names_the_setting(server: RestServer, tmp_path: Path, status: int) -> None:
    server.tokens = None
    catalog = opened(server, tmp_path, {f"{_HERE}TOKEN": "a-token-of-ours"})
    catalog.create_namespace_if_not_exists("closed")
    table = catalog.create_table(f"closed.t{status}", SCHEMA)
    server.calls.clear()
    server.status = status
    try:
        for ask in (lambda: catalog.load_table(f"closed.t{status}"), lambda: table.append(rows(1))):
            with pytest.raises(ConfigError, match=f"{_HERE}TOKEN") as caught:
                ask()
            assert "a-token-of-ours" not in str(caught.value)
        assert [method for method, _ in server.calls] == ["GET", "POST"], "nothing is tried again"
    finally:
        server.status = None
    assert ids(catalog.load_table(f"closed.t{status}")) == []


def test_a_catalog_that_asks_for_patience_has_done_nothing(server: RestServer, tmp_path: Path) -> None:
    catalog = opened(server, tmp_path, {})
    table = catalog.load_table(a_table(catalog, "slow"))
    server.status = 429
    try:
        for ask in (lambda: catalog.load_table("slow.t"), lambda: table.append(rows(1))):
            with pytest.raises(TransientError, match="answered 429"):
                ask()
    finally:
        server.status = None


def test_requests_that_aws_signs_are_signed_and_wait_no_longer_than_others(
    server: RestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the signature is right tests/unit/lake/test_signed_requests.py says."""
    own = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-x-1"}
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    told = "rest.sigv4-enabled=true&rest.signing-name=glue&rest.signing-region=eu-x-1&firn.answer-seconds=0.5"
    told += "&client.region=eu-x-1"
    server.authorizations.clear()
    catalog = open_catalog(f"{server.url}#{told}", f"file://{tmp_path}/warehouse", own)
    catalog.load_table(a_table(catalog, "signed")).append(rows(1))
    assert ids(catalog.load_table("signed.t")) == [1]
    assert {str(one)[:29] for one in server.authorizations} == {"AWS4-HMAC-SHA256 Credential=k"}
    with hanging() as stuck:
        began = time.monotonic()
        with pytest.raises(TransientError, match="timed out"):
            open_catalog(f"{stuck}#{told}", f"file://{tmp_path}/warehouse", own)
        assert time.monotonic() - began < 5


def test_nothing_is_sent_as_a_token_where_there_is_none(server: RestServer, tmp_path: Path) -> None:
    server.authorizations.clear()
    opened(server, tmp_path, {}).list_namespaces()
    assert set(server.authorizations) == {None}


def test_the_doctor_says_of_a_refused_client_where_its_credentials_go(
    server: RestServer, endpoint: TokenServer, env: dict[str, str], tmp_path: Path
) -> None:
    wrong = {**env, f"{_HERE}CREDENTIAL": "firn:wrong"}
    found = {one.name: one for one in CatalogCheck(server.url, f"file://{tmp_path}", wrong, "firn_check").checks()}
    assert (found["reach"].ok, found["create"].found) == (False, "not tried")
    assert "PYICEBERG_CATALOG__FIRN__TOKEN" in found["reach"].advice
    right = {one.name: one for one in CatalogCheck(server.url, f"file://{tmp_path}", env, "firn_check").checks()}
    assert right["drop"].ok is True


def glue_says(code: str, name: str) -> Exception:
    def call() -> None:
        raise ClientError({"Error": {"Code": code, "Message": "as it is"}, "ResponseMetadata": {}}, name)  # type: ignore[typeddict-item]

    with pytest.raises(Exception) as caught:  # noqa: PT011 (which one is what is asked)
        told(call, name, "https://glue.eu-central-1.amazonaws.com")()
    return caught.value


@pytest.mark.parametrize(
    ("code", "name", "kind"),
    [
        ("AccessDeniedException", "get_table", ConfigError),
        ("ExpiredTokenException", "update_table", ConfigError),
        ("UnrecognizedClientException", "get_databases", ConfigError),
        ("ThrottlingException", "get_table", TransientError),
        ("ThrottlingException", "update_table", TransientError),
        ("InternalServiceException", "get_table", TransientError),
        ("InternalServiceException", "update_table", UnknownOutcome),
        ("EntityNotFoundException", "get_table", ClientError),
    ],
)
def test_what_glue_refuses_is_told_by_what_helps(code: str, name: str, kind: type[Exception]) -> None:
    """A table's error is PyIceberg's to read."""
    error = glue_says(code, name)
    assert type(error) is kind
    if kind is not ClientError:
        assert "https://glue.eu-central-1.amazonaws.com" in str(error)
    if kind is ConfigError:
        assert "AWS_*" in str(error)


@pytest.fixture
def glue() -> Iterator[AwsEndpoint]:
    running = AwsEndpoint()
    running.start()
    yield running
    running.stop()


def test_glue_that_does_not_know_who_asks_is_final_and_names_the_setting(glue: AwsEndpoint, tmp_path: Path) -> None:
    right = dict(glue.credentials)
    catalog = open_catalog("glue://", f"file://{tmp_path}", right)
    a_table(catalog, "closed")
    stranger = open_catalog("glue://", f"file://{tmp_path}", {**right, "AWS_SECRET_ACCESS_KEY": "wrong"})
    for ask in (lambda: stranger.load_table("closed.t"), lambda: stranger.create_namespace("other")):
        with pytest.raises(ConfigError, match=r"refuses .* \(AccessDeniedException\): look at .*AWS_\*"):
            ask()
    assert ("other",) not in catalog.list_namespaces()


def test_a_commit_that_glue_does_not_answer_is_unknown_and_its_files_stay(glue: AwsEndpoint, tmp_path: Path) -> None:
    right = dict(glue.credentials)
    proxy = Proxy(urlsplit(right["AWS_ENDPOINT_URL"]).port or 0)
    try:
        behind = {**right, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
        catalog = open_catalog("glue://#firn.answer-seconds=1.5", f"file://{tmp_path}", behind)
        table = catalog.load_table(a_table(catalog, "silent"))
        proxy.lose = lambda said: b"AWSGlue.UpdateTable" in said
        with pytest.raises(UnknownOutcome, match="not known whether"):
            table.append(rows(1))
    finally:
        proxy.close()
    assert ids(open_catalog("glue://", f"file://{tmp_path}", right).load_table("silent.t")) == [1]
