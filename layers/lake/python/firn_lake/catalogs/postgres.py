"""A SQL catalog in PostgreSQL with bounded waits, and the server's silence as Firn's errors."""

from collections.abc import Callable
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import create_engine, event
from sqlalchemy.engine import ExceptionContext

from firn.config.catalogs import ANSWER, ANSWER_SECONDS, CREDENTIAL_PLACE
from firn.errors import ConfigError, TransientError, UnknownOutcome

_PORT: Final = 5432
_NO_PASSWORD: Final = f"; it got no password: {CREDENTIAL_PLACE} names the place of one"


class PostgresCatalog(SqlCatalog):
    """PyIceberg's SqlCatalog over an engine of our own. Its calls raise TransientError if the server can't be reached
    or does not answer, UnknownOutcome if that was the answer to a COMMIT, and ConfigError if it lets nobody in. Each
    names the server, and none the password."""

    def __init__(self, name: str, **properties: str) -> None:
        Catalog.__init__(self, name, **properties)
        answer = float(self.properties.get(ANSWER, ANSWER_SECONDS))
        # What lay in the pool while the server restarted is found out before it is used. pg8000 has one wait for
        # connections and answers.
        self.engine = create_engine(self.properties["uri"], pool_pre_ping=True, connect_args={"timeout": answer})
        url = self.engine.url
        where = f"PostgreSQL at {url.host}:{url.port or _PORT}"

        @event.listens_for(self.engine, "do_connect")
        def connected(dialect: Any, _record: Any, given: Any, named: dict[str, Any]) -> Any:
            given_none = "" if named.get("password") else _NO_PASSWORD
            named["password"] = named.get("password") or ""  # without any, pg8000 fails before the server refuses
            try:
                return _heard(dialect.connect(*given, **named), dialect.loaded_dbapi.InterfaceError)
            except (OSError, dialect.loaded_dbapi.InterfaceError) as error:
                raise TransientError(f"{where} can't be reached, or does not answer, try again: {error}") from error
            except dialect.loaded_dbapi.Error as error:
                raise ConfigError(f"{where} refuses the connection: {_message(error)}{given_none}") from error

        @event.listens_for(self.engine, "handle_error", retval=True)
        def told(context: ExceptionContext) -> Exception | None:
            error = context.original_exception
            if context.is_pre_ping or not context.is_disconnect:
                return None
            if context.statement is None:
                return UnknownOutcome(
                    f"a COMMIT was sent to {where}, and it is not known whether it was done: {error}. "
                    "Look at the table before you try again"
                )
            # Without its COMMIT nothing of a transaction stays.
            return TransientError(f"{where} does not answer, try again: {error}")

        self._init_catalog()


def _heard(connection: Any, network_error: type[Exception]) -> Any:
    """The connection; a wait that is over ends it as a broken line does. pg8000 lets the socket's TimeoutError through,
    which SQLAlchemy takes for a mistake of ours."""

    def told(call: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*given: Any, **named: Any) -> Any:
            try:
                return call(*given, **named)
            except OSError as error:
                raise network_error(f"network error: {error}") from error

        return asked

    for name in ("execute_simple", "execute_unnamed"):
        setattr(connection, name, told(getattr(connection, name)))
    return connection


def _message(error: Exception) -> str:
    """What the server said (`M`, https://www.postgresql.org/docs/current/protocol-error-fields.html)."""
    said = error.args[0] if error.args else error
    return str(said.get("M", said)) if isinstance(said, dict) else str(said)
