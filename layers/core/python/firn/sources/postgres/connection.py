"""A connection to PostgreSQL: TLS, password or token, its session's settings. The only module that loads pg8000."""

import os
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from firn.auth.secrets import Secrets
from firn.config.pull_source import PostgresAddress
from firn.errors import ConfigError, TransientError
from firn.sources.postgres.value_texts import SESSION

CONNECT_SECONDS: Final = 10
ANSWER_SECONDS: Final = 800  # for a statement; a long transaction is decoded before its first row comes
# A session whose client is gone without a word ends by itself, and its lease with it (idle_session_timeout: from 14).
_ENDS: Final = {
    "tcp_keepalives_idle": "15",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "idle_in_transaction_session_timeout": "15min",
    "statement_timeout": "0",
    "lock_timeout": "10s",
    "idle_session_timeout": "5min",
}
_WRONG: Final = ("28", "3D", "42", "0A", "54", "25006", "55000")  # SQLSTATE: another try gives the same
_NOT_LET_IN: Final = "28P01"

# Their texts quote values: invalid input, a number out of range, a constraint, what a function raises.
_OF_A_ROW: Final = ("22", "23", "P0")


class PostgresRefused(ConfigError):
    """PostgreSQL refused: another try gives the same. `sqlstate`: its code."""

    def __init__(self, text: str, sqlstate: str) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


class PostgresBusy(TransientError):
    """PostgreSQL could not now. `sqlstate`: its code, "" if the connection broke."""

    def __init__(self, text: str, sqlstate: str = "") -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


class Connection:
    """An open connection. `run` raises PostgresRefused or PostgresBusy, whose texts hold no secret and no row."""

    def __init__(
        self,
        address: PostgresAddress,
        password: str | None,
        name: str,
        secrets: tuple[str, ...] = (),
        *,
        replication: bool = False,
    ) -> None:
        """`name`: what pg_stat_activity shows. `secrets`: what no text may hold. `replication`: it takes commands of
        the replication protocol too, and no parameters. Raises as `run`."""
        self.address = address
        self._secrets = tuple(filter(None, (password, *secrets)))
        self._unlocked = password is None  # nobody gave one
        self._raw = self._guarded(lambda: _open(address, password, name, replication), opening=True)
        version = str(self.run("SHOW server_version_num")[0][0])
        self.version = int(version) // 10_000
        for setting, value in (SESSION | _ENDS).items():
            if setting != "idle_session_timeout" or self.version >= 14:
                self.run(f"SET {setting} = '{value}'")

    def run(self, sql: str, **parameters: Any) -> list[list[Any]]:
        """The rows of a statement."""
        rows: list[list[Any]] | None = self._guarded(lambda: self._raw.run(sql, **parameters))
        return rows or []

    def copy(self, sql: str, take: Callable[[bytes], None]) -> None:
        """A COPY … TO STDOUT: `take` is called with each row as it comes."""
        # As it is: `run` would look for placeholders in it, and find some in constants with backslashes, and in slices.
        self._guarded(lambda: self._raw.execute_unnamed(sql, stream=_Taking(take)))

    def close(self) -> None:
        """Close it; one that is broken is closed already."""
        with suppress(Exception):  # whatever a broken socket raises, it is closed
            self._raw.close()

    def _guarded(self, ask: Any, *, opening: bool = False) -> Any:
        from pg8000.exceptions import DatabaseError, InterfaceError

        where = f"PostgreSQL at {self.address}"
        try:
            return ask()
        except DatabaseError as error:
            said: Mapping[str, str] = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
            code = said.get("C", "")
            if code.startswith(_OF_A_ROW) and not opening:
                text = f"{where} says that a value of a row is wrong (SQLSTATE {code}), and it is not repeated here"
                raise PostgresRefused(f"{text}: correct the condition that reads it, or the row", code) from None
            text = self._clean(f"{where} says: {said.get('M', 'no reason')}")
            if hint := said.get("H"):
                text = f"{text} ({self._clean(hint)})"
            if code == _NOT_LET_IN and self._unlocked:
                text = f"{text}; no password was given"
            raise (PostgresRefused if code.startswith(_WRONG) else PostgresBusy)(text, code) from None
        except ssl.SSLCertVerificationError as error:
            raise PostgresRefused(
                f"{where} has a certificate that is not trusted ({error.verify_message}): write sslrootcert=/path of "
                "its authority's certificate into the address in firn.yaml",
                "",
            ) from None
        except (InterfaceError, OSError) as error:
            doing = "can't be reached" if opening else "broke the connection"
            raise PostgresBusy(
                f"{where} {doing} ({self._clean(str(error))[:300]}); check host, port, sslmode and that it runs"
            ) from None

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


@dataclass(frozen=True)
class _Taking:
    """What the driver takes for a file."""

    write: Callable[[bytes], None]


def _open(address: PostgresAddress, password: str | None, name: str, replication: bool) -> Any:
    from pg8000.native import Connection as Raw

    context = tls_context(address)
    plain = socket.create_connection((address.host, address.port), CONNECT_SECONDS)
    try:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        opened = Raw(
            address.user,
            host=address.host,  # which the certificate has to name
            sock=plain,
            database=address.database,
            password=password or "",  # without any, pg8000 fails by itself before the server refuses
            ssl_context=context or False,
            application_name=name,
            replication="database" if replication else None,
        )
    except BaseException:
        plain.close()
        raise
    opened._usock.settimeout(ANSWER_SECONDS)  # the TLS socket, where there is one
    return opened


def tls_context(address: PostgresAddress) -> ssl.SSLContext | None:
    """How the connection is encrypted, None: not at all. Raises ConfigError if the certificates can't be read."""
    if address.tls == "disable":
        return None
    context = ssl.create_default_context()
    if address.tls == "require":  # encrypted, whoever it is, as libpq means it
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if address.root_certificate:
        try:
            context.load_verify_locations(address.root_certificate)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"sslrootcert {address.root_certificate} can't be read ({type(error).__name__}): write the path of a "
                "file of certificates in PEM"
            ) from error
    return context


def password_of(address: PostgresAddress, secret: str, iam: bool, secrets: Secrets) -> str | None:
    """What to log in with: the secret at its place, a token of AWS's for `iam`, None where neither is asked for.

    Raises TransientError, ConfigError.
    """
    if iam:
        return _token(address)
    if not secret:
        return None
    try:
        return secrets.keys(secret)[0]
    except ConfigError:
        raise ConfigError(
            f"there is no password at {secret}: create it, or correct the source's `secret` in firn.yaml"
        ) from None


def _token(address: PostgresAddress) -> str:
    """A token for Amazon RDS, good for 15 minutes and for this address and user alone."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        client: Any = boto3.client("rds", region_name=region)
        token: str = client.generate_db_auth_token(DBHostname=address.host, Port=address.port, DBUsername=address.user)
    except (BotoCoreError, ClientError) as error:
        raise TransientError(f"no token for RDS could be made: {type(error).__name__}") from error
    return token
