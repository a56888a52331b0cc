"""Senders' secrets, from where firn.yaml says they are. Kept in memory for five minutes, never in a log or a message.

One secret holds one key, or several between white space, all of them valid: so a key is rotated by writing the new one
beside the old, telling the senders, and taking the old one out. Of AWS Secrets Manager the previous version counts too.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from firn.config.secret_addresses import place_of
from firn.errors import ConfigError, TransientError

KEPT: Final = 300.0  # seconds
_NOT_THERE: Final = frozenset({"ResourceNotFoundException", "ParameterNotFound"})
Fetch = Callable[[str], list[str]]  # a place's name of a secret -> its texts, the newest first; none if there is none


class Secrets:
    """Fetches, and keeps what it fetched. Safe to use from several threads: at worst two fetch the same."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, **stores: Fetch) -> None:
        """`stores`: instead of the real ones, in tests of time."""
        self._clock = clock
        self._stores: dict[str, Fetch] = {"secretsmanager": _of_secrets_manager, "ssm": _of_ssm, "file": _of_file}
        self._stores |= stores
        self._kept: dict[str, tuple[float, tuple[str, ...]]] = {}

    def keys(self, place: str) -> tuple[str, ...]:
        """The keys at a place. Raises TransientError if it can't be asked, ConfigError if there is nothing."""
        at, keys = self._kept.get(place, (0.0, ()))
        if keys and self._clock() < at + KEPT:
            return keys
        found = place_of(place)
        texts = self._stores[found.store](found.name)
        keys = tuple(dict.fromkeys(key for text in texts for key in text.split()))
        if not keys:
            raise ConfigError(f"there is no sender's secret at {place}: create it, or correct `auth` in firn.yaml")
        self._kept[place] = self._clock(), keys
        return keys

    def text(self, place: str) -> str:
        """The newest text at a place, whole, and not kept: a file of credentials is one. Raises as `keys`, and
        ValueError, whose text says what to write, for what is no place."""
        found = place_of(place)
        texts = self._stores[found.store](found.name)
        if not texts or not texts[0].strip():
            raise ConfigError(f"there is no secret at {place}")
        return texts[0]


def _of_file(name: str) -> list[str]:
    try:
        return [Path(name).read_text()]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeError) as error:
        raise TransientError(f"the secret file {name} can't be read: {type(error).__name__}") from error


def _of_secrets_manager(name: str) -> list[str]:
    stages = ("AWSCURRENT", "AWSPREVIOUS")
    found = [_asked("secretsmanager", "get_secret_value", SecretId=name, VersionStage=stage) for stage in stages]
    return [text for one in found if (text := one.get("SecretString"))]


def _of_ssm(name: str) -> list[str]:
    found = _asked("ssm", "get_parameter", Name=name, WithDecryption=True)
    return [found["Parameter"]["Value"]] if found else []


def _asked(service: str, operation: str, **arguments: Any) -> Mapping[str, Any]:
    """The service's answer, empty if it knows no such secret. Only a stream with a secret loads boto3."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    # Within API Gateway's 29 seconds, and with time left for the sender's next try.
    limits = Config(connect_timeout=2, read_timeout=4, retries={"max_attempts": 2})
    client: Any = boto3.client  # its stubs know each service by a literal
    try:
        answer: Mapping[str, Any] = getattr(client(service, config=limits), operation)(**arguments)
    except ClientError as error:
        if error.response["Error"]["Code"] in _NOT_THERE:
            return {}
        raise TransientError(f"{service} refused {operation}: {error.response['Error']['Code']}") from error
    except BotoCoreError as error:
        raise TransientError(f"{service} can't be asked: {type(error).__name__}") from error
    return answer
