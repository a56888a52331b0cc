"""AWS Glue's catalog with bounded waits, and its silence as Firn's errors."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final

import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError, HTTPClientError
from pyiceberg.catalog.glue import GlueCatalog

from firn.config.catalogs import ANSWER, ANSWER_SECONDS, CONNECT, CONNECT_SECONDS, CREDENTIALS
from firn.errors import ConfigError, TransientError, UnknownOutcome

_MOST_SAID: Final = 300
_TRIES: Final = 3
"""How often the AWS client asks; it waits for a third of the time each."""

_REFUSED: Final = frozenset(
    {"AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException", "InvalidClientTokenId",
     "InvalidSignatureException", "IncompleteSignature", "MissingAuthenticationToken", "SignatureDoesNotMatch",
     "InvalidAccessKeyId", "OptInRequired", "NotAuthorized"}
)  # fmt: skip
_SLOWER: Final = frozenset({"ThrottlingException", "Throttling", "RequestLimitExceeded", "TooManyRequestsException"})
_SERVER: Final = frozenset({"InternalServiceException", "InternalFailure", "OperationTimeoutException",
                            "ServiceUnavailable", "ServiceUnavailableException"})  # fmt: skip


def open_glue(name: str, properties: Mapping[str, Any]) -> GlueCatalog:
    """Glue's catalog. Its calls raise TransientError if Glue can't be reached, asks for patience, or does not answer a
    question, UnknownOutcome if it does not answer what changes a table, ConfigError if it does not let us in. All name
    its address."""
    session = botocore.session.Session()
    connect, answer = (float(properties.get(CONNECT, CONNECT_SECONDS)), float(properties.get(ANSWER, ANSWER_SECONDS)))
    session.set_default_client_config(Config(connect_timeout=connect, read_timeout=answer / _TRIES))
    retries: dict[str, Any] = {"glue.max-retries": _TRIES - 1}  # as botocore counts them: after the first
    catalog = GlueCatalog(name, **{**retries, **properties, "botocore_session": session})
    catalog.glue = _Client(catalog.glue)
    return catalog


class _Client:
    """A boto3 client, whose silence is told in Firn's errors."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return told(found, name, str(self._client.meta.endpoint_url)) if callable(found) else found


def told(call: Callable[..., Any], name: str, endpoint: str) -> Callable[..., Any]:
    """A call of the client that raises what `open_glue` says. `name`: of the call, in the client's words."""

    @wraps(call)
    def asked(*given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except (ConnectTimeoutError, EndpointConnectionError) as error:
            raise TransientError(f"Glue at {endpoint} can't be reached, try again: {error}") from error
        except HTTPClientError as error:
            if name.startswith("get_"):
                raise TransientError(f"Glue at {endpoint} does not answer, try again: {error}") from error
            raise _unknown(name, endpoint, error) from error
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            # The names of all databases can be listed, tables only in those that the role was given (GlueDatabases in
            # template.yaml): for it the others hold nothing.
            if name == "get_tables" and code == "AccessDeniedException":
                return {"TableList": []}
            # Of a second try: the version that it met may be what the first one made, whose answer was lost.
            tries = error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0)
            if tries and code == "ConcurrentModificationException":
                raise _unknown(name, endpoint, error) from error
            raise _meaning(str(code), name, endpoint, error) from error

    return asked


def _meaning(code: str, name: str, endpoint: str, error: ClientError) -> Exception:
    """What Glue's refusal of a call is in Firn's errors; itself where it speaks of the table."""
    if code in _REFUSED:
        return ConfigError(f"Glue at {endpoint} refuses {name} ({code}): look at {CREDENTIALS}, and at the policy of "
                           f"the role that they are. It said: {_text(error)}")  # fmt: skip
    if code in _SLOWER:
        return TransientError(f"Glue at {endpoint} asks for patience, try again: {_text(error)}")
    if code in _SERVER and name.startswith("get_"):
        return TransientError(f"Glue at {endpoint} does not answer, try again: {_text(error)}")
    return _unknown(name, endpoint, error) if code in _SERVER else error


def _text(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", ""))[:_MOST_SAID]


def _unknown(name: str, endpoint: str, error: Exception) -> UnknownOutcome:
    return UnknownOutcome(
        f"{name} was sent to Glue at {endpoint}, and it is not known whether it was done: {error}. Look at the table "
        "before you try again"
    )
