"""A REST catalog with bounded waits, with several servers, and with tokens that are renewed in time.

What only reads is asked of the next server where one does not answer. What writes goes to the next only if it can't
have reached the first: once a commit is sent, an answer that does not come leaves open whether it is in the table, and
a second try elsewhere would be blind. That is UnknownOutcome (docs/adr/0028-one-registry-of-catalogs.md).

A request that is refused for its token (401, 419) was not done: it is sent once more with a new one.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from pyiceberg.catalog.rest import OAUTH2_SERVER_URI, Endpoints, RestCatalog
from pyiceberg.io import FileIO
from pyiceberg.table import CommitTableResponse, CreateTableTransaction, Table
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import ConnectTimeout, RequestException
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError

from firn.config.catalogs import (
    ANSWER,
    ANSWER_SECONDS,
    CONNECT,
    CONNECT_SECONDS,
    CREDENTIALS,
    NOT_SIGNED,
    READ_ONLY,
    is_read_only,
    is_signed_by_catalog,
)
from firn.errors import ConfigError, TransientError, UnknownOutcome
from firn_lake.catalogs.rest_tokens import CatalogTokens, without

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_NOT_READY: Final = frozenset({429, 502, 503, 504})
_TOKEN_REFUSED: Final = frozenset({401, 419})
_REFUSED: Final = {
    401: "it does not know who asks (Unauthorized)",
    403: "who asks may not do that (Forbidden)",
    419: "the token has expired (AuthorizationExpired)",
}
_MOST_SAID: Final = 300
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def open_rest(name: str, urls: Sequence[str], properties: Mapping[str, str]) -> RestCatalog:
    """The catalog of these servers. Raises TransientError that names them if none answers; what changes a table in a
    Nessie raises ConfigError."""
    return _RestCatalog(name, tuple(url.rstrip("/") for url in urls), properties)


class _RestCatalog(RestCatalog):
    def __init__(self, name: str, urls: tuple[str, ...], properties: Mapping[str, str]) -> None:
        waits = (
            float(properties.get(CONNECT, CONNECT_SECONDS)),
            float(properties.get(ANSWER, ANSWER_SECONDS)),
        )
        self._servers = _Servers(urls, waits)
        self._tokens: tuple[tuple[str | None, ...], CatalogTokens] | None = None
        super().__init__(name, **{**properties, "uri": urls[0]})

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        self._check_writable()
        done: CommitTableResponse = super().commit_table(table, requirements, updates)
        return done

    def create_table(self, *given: Any, **named: Any) -> Table:
        self._check_writable()
        made: Table = super().create_table(*given, **named)
        return made

    def create_table_transaction(self, *given: Any, **named: Any) -> CreateTableTransaction:
        self._check_writable()
        made: CreateTableTransaction = super().create_table_transaction(*given, **named)
        return made

    def register_table(self, *given: Any, **named: Any) -> Table:
        self._check_writable()
        made: Table = super().register_table(*given, **named)
        return made

    def _load_file_io(self, properties: Mapping[str, str] = _NOTHING, location: str | None = None) -> FileIO:
        """Of a table. Raises ConfigError where its catalog alone may sign requests for its files."""
        if is_signed_by_catalog(properties, {**self.properties, **properties}):
            raise ConfigError(NOT_SIGNED)
        made: FileIO = super()._load_file_io(dict(properties), location)
        return made

    def _check_writable(self) -> None:
        """Raises ConfigError. The properties hold what the server says of itself."""
        if is_read_only(self.properties):
            raise ConfigError(READ_ONLY)

    def _create_session(self) -> Session:
        session = super()._create_session()
        # Of requests that AWS signs PyIceberg mounts its own adapter, which waits for ever: it signs, and no more.
        self._servers.signer = session.adapters.pop(self.uri, None)
        session.mount("http://", self._servers)
        session.mount("https://", self._servers)
        return session

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> CatalogTokens:
        """PyIceberg asks for one for the session that fetches the configuration, and for the one after it."""
        url = self.properties.get(OAUTH2_SERVER_URI) or self.url(Endpoints.get_token, prefixed=False)
        key = (url, *(self.properties.get(name) for name in ("credential", "token", "scope", "audience", "resource")))
        if self._tokens is None or self._tokens[0] != key:
            self._tokens = key, CatalogTokens(self.properties, url, session)
        self._servers.tokens = self._tokens[1]
        return self._tokens[1]


class _Servers(HTTPAdapter):
    """Sends each request to the server that answered last, and what may go elsewhere to the others.

    `tokens`: renews what a server refuses. `signer`: the adapter that signs for AWS, if requests are to be signed.
    """

    tokens: CatalogTokens | None = None
    signer: Any = None

    def __init__(self, urls: tuple[str, ...], waits: tuple[float, float]) -> None:
        super().__init__()
        self._urls = urls
        self._waits = waits
        self._now = 0

    def send(self, request: PreparedRequest, **how: Any) -> Response:  # type: ignore[override]
        """The answer. Raises TransientError if no server did anything, UnknownOutcome if one may have, ConfigError if
        one lets us not in."""
        how["timeout"] = self._waits
        reads = request.method in _READS
        said: list[str] = []
        for place in self._places(request.url or ""):
            sent = request if place is None else self._to(request, place)
            try:
                answer = self._once(sent, reads, how)
            except RequestException as error:
                if not reads and not _never_sent(error):
                    raise self._unknown(sent, _reason(error)) from error
                said.append(f"{_host(sent)}: {_reason(error)}")
                continue
            if not reads and answer.status_code >= 500 and answer.status_code != 501:
                raise self._unknown(sent, f"it answered {answer.status_code}: {_said(sent, answer)}")
            if answer.status_code in _REFUSED:
                raise ConfigError(_refusal(sent, answer))
            if answer.status_code in _NOT_READY:
                said.append(f"{_host(sent)} answered {answer.status_code}")
                answer.close()
                continue
            if place is not None:
                self._now = place
            return answer
        raise TransientError(f"the catalog does not answer, try again: {'; '.join(said)}")

    def add_headers(self, request: PreparedRequest, **how: Any) -> None:
        """Called for each request that is sent, whole as it is."""
        if self.signer is not None:
            self.signer.add_headers(request, **how)

    def _once(self, request: PreparedRequest, reads: bool, how: Mapping[str, Any]) -> Response:
        """The answer, to a second request where the first one's token was refused."""
        answer = self._tried(request, reads, how)
        if answer.status_code in _TOKEN_REFUSED and self.tokens is not None:
            header = self.tokens.renewed(str(request.headers.get("Authorization")))
            if header is not None:
                answer.close()
                request.headers["Authorization"] = header
                return self._tried(request, reads, how)
        return answer

    def _tried(self, request: PreparedRequest, reads: bool, how: Mapping[str, Any]) -> Response:
        try:
            return super().send(request, **how)
        except NoConnection as error:
            # A connection that was kept open since the last request may be dead by now.
            if reads and "Connection aborted" in str(error):
                return super().send(request, **how)
            raise

    def _places(self, url: str) -> Sequence[int | None]:
        """The servers to try, first the one that answered last; None: only where the request says."""
        if not url.startswith(self._urls):
            return (None,)
        count = len(self._urls)
        return [(self._now + step) % count for step in range(count)]

    def _to(self, request: PreparedRequest, place: int) -> PreparedRequest:
        """The request, to another server."""
        base = next(one for one in self._urls if (request.url or "").startswith(one))
        moved = request.copy()
        moved.url = self._urls[place] + (request.url or "").removeprefix(base)
        return moved

    def _unknown(self, request: PreparedRequest, why: str) -> UnknownOutcome:
        return UnknownOutcome(
            f"{request.method} {urlsplit(request.url or '').path} was sent to the catalog at {_host(request)}, and it "
            f"is not known whether it was done: {why}. Look at the table before you try again"
        )


def _refusal(request: PreparedRequest, answer: Response) -> str:
    return (
        f"the catalog at {_host(request)} refuses {request.method} {urlsplit(request.url or '').path}: "
        f"{_REFUSED[answer.status_code]}. Look at {CREDENTIALS}, and at what these may do there. "
        f"It said: {_said(request, answer)}"
    )


def _said(request: PreparedRequest, answer: Response) -> str:
    """The answer's text, which may repeat the request, without the token of that."""
    token = str(request.headers.get("Authorization") or "").rpartition(" ")[2]
    return without(answer.text, token)[:_MOST_SAID].replace("\n", " ")


def _never_sent(error: RequestException) -> bool:
    """Whether there was not even a connection to send over."""
    if isinstance(error, ConnectTimeout):
        return True
    cause = error.args[0] if error.args else None
    reason = cause.reason if isinstance(cause, MaxRetryError) else None
    return isinstance(reason, NewConnectionError | ConnectTimeoutError)


def _reason(error: RequestException) -> str:
    cause: object = error.args[0] if error.args else error
    if isinstance(cause, MaxRetryError) and cause.reason is not None:
        cause = cause.reason
    text = str(cause)
    return text.rpartition(">: ")[2] or text or type(error).__name__


def _host(request: PreparedRequest) -> str:
    parts = urlsplit(request.url or "")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
