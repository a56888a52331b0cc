"""A Hive Metastore with bounded waits and several servers, and its silence as Firn's errors.

PyIceberg's own client waits for ever, and stays with the first address. Its commit takes the metastore's lock, as
Iceberg's Java side does, and then swaps the table without saying what it saw; here the swap also names the metadata
that the table must still have (HIVE-26882), so that a lock that ended meanwhile loses no commit.
"""

import threading
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final
from urllib.parse import urlsplit

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    EnvironmentContext,
    InvalidObjectException,
    InvalidOperationException,
    LockResponse,
    MetaException,
)
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError
from pyiceberg.typedef import Identifier
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from firn.config.catalogs import (
    ANSWER,
    ANSWER_SECONDS,
    CONNECT,
    CONNECT_SECONDS,
    LOCK,
    LOCK_SECONDS,
    TYPES_ALLOWED,
    TYPES_REFUSED,
)
from firn.errors import ConfigError, FirnError, TransientError, UnknownOutcome
from firn_lake.catalogs import hive_locks

_PORT: Final = 9083
_WRITES: Final = ("create_", "alter_", "drop_")
_CALLS: Final = (*_WRITES, "get_", "lock", "check_lock", "show_locks", "unlock", "set_ugi")
_METADATA: Final = "metadata_location"
_NONSENSE: Final = (TTransportException.NEGATIVE_SIZE, TTransportException.SIZE_LIMIT)
_MOVED: Final = "The table has been modified"


def open_hive(name: str, properties: Mapping[str, Any]) -> HiveCatalog:
    """The catalog of the metastores in `uri`, commas between. Its calls raise TransientError if none can be reached or
    a question is not answered, UnknownOutcome if that was a change, ConfigError if what answers is no metastore that
    Firn can use. Each names the server. Raises ConfigError for Kerberos, which was not tried."""
    if str(properties.get("hive.kerberos-authentication", "false")).lower() == "true":
        raise ConfigError("hive.kerberos-authentication is not supported: give firn a metastore without it, by a "
                          "network that only Firn and its jobs reach")  # fmt: skip
    return _HiveCatalog(name, **properties)


class _HiveCatalog(HiveCatalog):
    def _wait_for_lock(self, database_name: str, table_name: str, lockid: int, open_client: Any) -> LockResponse:
        seconds = float(self.properties.get(LOCK, LOCK_SECONDS))
        return hive_locks.wait(open_client, database_name, table_name, lockid, seconds)

    @staticmethod
    def _create_hive_client(properties: dict[str, str]) -> Any:
        return _Metastores(properties)

    def purge_table(self, identifier: str | Identifier) -> None:
        """Drops the table and its files; PyIceberg leaves it out for Hive. Raises NoSuchTableError."""
        MetastoreCatalog.purge_table(self, identifier)


class _Metastores:
    """A connection for each `with`, of each thread its own: to the server that answered last, else to the next."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._places = [place.strip() for place in properties["uri"].split(",")]
        self._connect = float(properties.get(CONNECT, CONNECT_SECONDS))
        self._answer = float(properties.get(ANSWER, ANSWER_SECONDS))
        ugi = properties.get("ugi")
        self._ugi = ugi.split(":") if ugi else None
        self._now = 0
        self._open = threading.local()

    def __enter__(self) -> "_Session":
        said = []
        for step in range(len(self._places)):
            number = (self._now + step) % len(self._places)
            try:
                transport = self._connected(self._places[number])
            except (TTransportException, OSError) as error:
                said.append(f"{self._places[number]}: {error}")
                continue
            asked = _Session(transport, self._places[number])
            try:
                if self._ugi:
                    asked.set_ugi(*self._ugi)
            except TransientError as error:
                said.append(str(error))
                continue
            self._now = number
            self._mine().append(transport)
            return asked
        raise TransientError(f"the Hive Metastore can't be reached, try again: {'; '.join(said)}")

    def __exit__(self, *_error: object) -> None:
        self._mine().pop().close()

    def _mine(self) -> list[TBufferedTransport]:
        if not hasattr(self._open, "transports"):
            self._open.transports = []
        transports: list[TBufferedTransport] = self._open.transports
        return transports

    def _connected(self, place: str) -> TBufferedTransport:
        parts = urlsplit(place)
        socket = TSocket(parts.hostname, parts.port or _PORT)
        socket.setTimeout(self._connect * 1000)
        transport = TBufferedTransport(socket)
        transport.open()
        socket.setTimeout(self._answer * 1000)
        return transport


class _Session:
    """An open connection to one metastore. Its calls raise Firn's errors."""

    def __init__(self, transport: TBufferedTransport, place: str) -> None:
        self._transport, self._place = transport, place
        self._client = Client(TBinaryProtocol(transport))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return self._translated(found, name) if name.startswith(_CALLS) else found

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: EnvironmentContext
    ) -> None:
        """Swaps the table, if its metadata is what `new_tbl` was made from."""
        seen = new_tbl.parameters.get(f"previous_{_METADATA}")
        moved = (dbname, tbl_name) != (new_tbl.dbName, new_tbl.tableName)
        must = new_tbl.parameters.get(_METADATA) if moved else seen
        if must:
            expected = {"expected_parameter_key": _METADATA, "expected_parameter_value": must}
            environment_context.properties = {**(environment_context.properties or {}), **expected}
        name = "alter_table_with_environment_context"
        try:
            self._translated(self._client.alter_table_with_environment_context, name)(
                dbname=dbname, tbl_name=tbl_name, new_tbl=new_tbl, environment_context=environment_context
            )
        except UnknownOutcome:
            if not self._found(new_tbl):
                raise  # it may be done yet: the lock stays, until the metastore ends it

    def _found(self, table: Any) -> bool:
        """Whether the metastore, asked over a new connection, has the table as it was to become."""
        try:
            self._transport.close()
            self._transport.open()
            now = self.get_table(dbname=table.dbName, tbl_name=table.tableName)
        except (FirnError, TException, OSError):
            return False
        return bool(now.parameters.get(_METADATA) == table.parameters.get(_METADATA))

    def _translated(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        @wraps(call)
        def asked(*given: Any, **named: Any) -> Any:
            try:
                return call(*given, **named)
            except (TTransportException, OSError) as error:
                if getattr(error, "type", None) in _NONSENSE and not name.startswith(_WRITES):
                    raise self._none(error) from error
                self._transport.close()  # an answer that comes late must not be taken for that of the next call
                if name == "unlock":  # the commit is done, or its own error says why not; the metastore ends the lock
                    return None
                if name.startswith(_WRITES):
                    raise self._unknown(name, error) from error
                raise TransientError(
                    f"the Hive Metastore at {self._place} does not answer, try again: {error}"
                ) from error
            except MetaException as error:
                # Thrift's errors can't be raised through a context manager: none may leave this module.
                if _MOVED in str(error.message):
                    raise CommitFailedException("the table was changed by another writer meanwhile") from error
                if name == "drop_database":
                    raise
                if name.startswith(_WRITES):
                    raise self._unknown(name, error.message) from error
                raise TransientError(f"the Hive Metastore at {self._place} answers {name}: {error.message}") from error
            except InvalidOperationException as error:
                if TYPES_REFUSED not in str(error.message):
                    raise
                told = " ".join(str(error.message).split())
                raise ConfigError(f"the Hive Metastore at {self._place} refuses: {told}; {TYPES_ALLOWED}") from error
            except InvalidObjectException as error:
                raise NoSuchNamespaceError(str(error.message)) from error
            except TApplicationException as error:
                if error.type != TApplicationException.UNKNOWN_METHOD and name.startswith(_WRITES):
                    raise self._unknown(name, error) from error
                raise ConfigError(f"the Hive Metastore at {self._place} does not know {name} ({error}): use 4.0.0 or "
                                  "3.1.3; 4.0.1 left it out") from error  # fmt: skip
            except TProtocolException as error:
                if name.startswith(_WRITES):
                    raise self._unknown(name, error) from error
                raise self._none(error) from error

        return asked

    def _none(self, why: Exception) -> ConfigError:
        return ConfigError(f"what answers at {self._place} is no Hive Metastore: {why}")

    def _unknown(self, name: str, why: object) -> UnknownOutcome:
        return UnknownOutcome(
            f"{name} was sent to the Hive Metastore at {self._place}, and it is not known whether it was done: {why}. "
            "Look at the table before you try again"
        )
