"""`sources:` of firn.yaml as types: databases that Firn reads by itself. Pure."""

from dataclasses import dataclass
from typing import Final, Literal

TlsMode = Literal["disable", "require", "verify-full"]
Plugin = Literal["pgoutput", "wal2json"]
LINGER_SECONDS: Final = 50


@dataclass(frozen=True)
class PostgresAddress:
    """Where a database is and as whom to log in; no password. `root_certificate`: a file of certificates to trust
    beside the system's, "" for none."""

    host: str
    port: int
    user: str
    database: str
    tls: TlsMode = "verify-full"
    root_certificate: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"


@dataclass(frozen=True)
class PullSource:
    """A database's logical slot that feeds a stream.

    publication  by which pgoutput chooses tables; "" with wal2json, which knows none: all that the stream takes
    secret   the place of the password (firn.auth.secrets); "" with `iam`, or where none is asked for
    iam      whether to log in with a token of AWS's instead (Amazon RDS and Aurora)
    linger_seconds  how long a reader stays after the last change
    """

    name: str
    address: PostgresAddress
    slot: str
    publication: str
    stream: str
    secret: str = ""
    iam: bool = False
    linger_seconds: int = LINGER_SECONDS
    plugin: Plugin = "pgoutput"
