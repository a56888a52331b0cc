"""Sessions that read the tables of a MySQL or MariaDB. The only module of the core that loads PyMySQL."""

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from firn.config.pull_source import PostgresAddress
from firn.errors import ConfigError, TransientError
from firn.sources.postgres.connection import tls_context

CONNECT_SECONDS: Final = 10
ANSWER_SECONDS: Final = 800  # for the next bytes of an answer
MOST_BYTES: Final = 1 << 30  # of a value: the protocol's own limit
# Another try gives the same: access, an unknown table or column, SQL that is wrong. The texts of these quote the
# statement and names, and no row.
_WRONG: Final = frozenset(
    {1044, 1045, 1049, 1052, 1054, 1055, 1056, 1060, 1064, 1103, 1109, 1111, 1129, 1130, 1142, 1143, 1146, 1149, 1227,
     1235, 1241, 1242, 1248, 1267, 1271, 1305, 1327, 1370, 1582, 1698, 4031}
)  # fmt: skip
# These too, but their texts may quote a value of a row: a function that fails, a number out of range, a signal.
_OF_A_ROW: Final = frozenset({1139, 1210, 1264, 1265, 1292, 1365, 1366, 1411, 1525, 1583, 1644, 1690, 3141, 4037, 4038})
_NO_TLS: Final = 2026
# Whatever the server's defaults are: zero dates are values here, backslashes escape, and the server waits for a reader
# that waits for commits.
_SETTINGS: Final = (
    "SET SESSION sql_mode = '', time_zone = '+00:00', lock_wait_timeout = 10, net_write_timeout = 900, "
    "wait_timeout = 28800 /*M!100100 , max_statement_time = 0 */",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)
_TOO_LARGE: Final = 1301  # a warning: a function's result would be above max_allowed_packet, and is null instead


class MysqlRefused(ConfigError):
    """The server refused: another try gives the same. `code`: its number."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Session:
    """One connection, in autocommit unless a transaction is begun. All raise MysqlRefused and TransientError."""

    def __init__(self, raw: Any, where: str, password: str) -> None:
        self._raw, self._where, self._password = raw, where, password

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement; %s in it stands for a value, if there are values."""

        def ask() -> list[tuple[Any, ...]]:
            with self._raw.cursor() as cursor:
                cursor.execute(sql, values or None)
                return list(cursor.fetchall())

        found: list[tuple[Any, ...]] = _guarded(ask, self._where, self._password)
        return found

    def value(self, sql: str, *values: Any) -> Any:
        """The one value of a statement."""
        return self.rows(sql, *values)[0][0]

    def each(self, sql: str, take: Callable[..., None]) -> None:
        """`take` is called with the values of each row as it comes. Raises RowTooLarge."""

        def ask() -> None:
            from pymysql.cursors import SSCursor

            cursor = self._raw.cursor(SSCursor)
            cursor.execute(sql)
            for row in cursor:
                take(*row)
            cursor.close()

        _guarded(ask, self._where, self._password)
        if any(code == _TOO_LARGE for _, code, *_ in self.rows("SHOW WARNINGS")):
            raise RowTooLarge(
                f"{self._where}: a row's JSON is larger than the server's max_allowed_packet, above which its "
                "functions give null: raise it (SET GLOBAL max_allowed_packet = 1073741824), or leave the row out with "
                "--where"
            )


class RowTooLarge(ConfigError):
    """The server can't put a row together."""


@contextmanager
def session(address: PostgresAddress, password: str | None, program: str) -> Iterator[Session]:
    """A session of its own, `program` among its connection attributes. Raises MysqlRefused, ConfigError,
    TransientError."""
    where = f"the server at {address}"
    raw = _guarded(lambda: _connect(address, password or "", program), where, password or "", opening=True)
    opened = Session(raw, where, password or "")
    try:
        for setting in _SETTINGS:
            opened.rows(setting)
        yield opened
    finally:
        with suppress(Exception):  # whatever a broken socket raises, it is closed
            raw.close()


def _connect(address: PostgresAddress, password: str, program: str) -> Any:
    import pymysql

    context: ssl.SSLContext | None = tls_context(address)
    return pymysql.connect(
        host=address.host, port=address.port, user=address.user, password=password, database=address.database,
        connect_timeout=CONNECT_SECONDS, read_timeout=ANSWER_SECONDS, charset="utf8mb4", autocommit=True,
        ssl=context, ssl_disabled=context is None, program_name=program, max_allowed_packet=MOST_BYTES,
    )  # fmt: skip


def _guarded(ask: Callable[[], Any], where: str, password: str, *, opening: bool = False) -> Any:
    try:
        import pymysql
    except ImportError:
        raise ConfigError("MySQL and MariaDB need PyMySQL: pip install 'pymysql>=1.2'") from None
    try:
        return ask()
    except pymysql.err.MySQLError as error:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        text = str(error.args[1] if len(error.args) > 1 else error).replace(password or "\0", "***")[:500]
        if code in _OF_A_ROW:
            name = f"error {code}"
            raise MysqlRefused(
                f"{where} says {name} of a value in a row, which is not repeated here: correct --where, or the row",
                code,
            ) from None
        if code in _WRONG:
            raise MysqlRefused(f"{where} says: {text}", code) from None
        if code == _NO_TLS:
            raise MysqlRefused(
                f"{where} can't be reached by TLS ({text}): sslmode in the address says how", code
            ) from None
        what = text if code >= 2000 or opening else f"error {code}"
        raise TransientError(f"{where} could not now ({what}); check host, port, sslmode and that it runs") from None
    except (OSError, RuntimeError) as error:
        doing = "can't be reached" if opening else "broke the connection"
        raise TransientError(
            f"{where} {doing} ({type(error).__name__}): check host, port, sslmode and that it runs"
        ) from None


def quoted(name: str) -> str:
    """An identifier in SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string constant in SQL, by its bytes, whatever the session's mode of escapes is."""
    return f"_utf8mb4 X'{text.encode().hex()}'" if text else "''"


def names(found: Sequence[tuple[Any, ...]]) -> dict[str, str]:
    """What SHOW STATUS and SHOW VARIABLES answer."""
    return {str(name).lower(): str(value) for name, value, *_ in found}
