"""How Firn opens Azure's and Google's storage: account, identity and endpoint, by the environment. Pure but for
secrets, which lie where FIRN_AZURE_… and FIRN_GOOGLE_CREDENTIALS say.

The names are those of the clouds' own libraries, so that ingest (obstore) and jobs (Iceberg's FileIO over the clouds'
Java libraries) read the same ones. Without any, both take the machine's own identity: Azure's managed identity,
Google's metadata server.
https://docs.rs/object_store/latest/object_store/azure/enum.AzureConfigKey.html
https://docs.rs/object_store/latest/object_store/gcp/enum.GoogleConfigKey.html
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from firn.config.written_secrets import secret_in
from firn.errors import ConfigError

AZURE: Final = frozenset({"az", "abfs", "abfss", "azure"})
GOOGLE: Final = frozenset({"gs"})

AZURE_KEY: Final = "AZURE_STORAGE_ACCOUNT_KEY"
AZURE_SAS: Final = "AZURE_STORAGE_SAS_TOKEN"
AZURE_ENDPOINT: Final = "AZURE_STORAGE_ENDPOINT"
_AZURE_NAME: Final = "AZURE_STORAGE_ACCOUNT_NAME"
AZURE_CLIENT_SECRET: Final = "AZURE_CLIENT_SECRET"  # noqa: S105 (its name)
# Where a secret is -> the variable that it stands in for, and what it is.
_PLACES: Final = {
    "FIRN_AZURE_KEY": (AZURE_KEY, "key of a storage account"),
    "FIRN_AZURE_SAS": (AZURE_SAS, "shared access signature"),
    "FIRN_AZURE_CLIENT_SECRET": (AZURE_CLIENT_SECRET, "secret of a service principal"),
}
AZURE_CLIENT: Final = ("AZURE_CLIENT_ID", "AZURE_TENANT_ID")
# Each of these needs both of AZURE_CLIENT.
_PROOFS: Final = (AZURE_CLIENT_SECRET, "AZURE_FEDERATED_TOKEN_FILE")

GOOGLE_EMULATOR: Final = "STORAGE_EMULATOR_HOST"
GOOGLE_KEY_FILE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
GOOGLE_PLACE: Final = "FIRN_GOOGLE_CREDENTIALS"
# Those that obstore reads; of a federated identity it knows nothing (firn.log.google_federation does).
_GOOGLE_KINDS: Final = ("service_account", "authorized_user")

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def expect_no_secret(url: str) -> None:
    """Raises ConfigError, which does not repeat it, if a storage's address holds a secret."""
    if (held := secret_in(url)) is not None:
        raise ConfigError(f"a storage's address holds {held}: take it out, give it by the environment (docs/clouds.md)")


def with_cloud_secrets(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The environment with the secrets of Azure that it names the places of (secretsmanager:NAME, ssm:/NAME or
    file:/PATH): the account's key (FIRN_AZURE_KEY), a signature (FIRN_AZURE_SAS), a service principal's secret
    (FIRN_AZURE_CLIENT_SECRET). Raises ConfigError if there is none, or the text is no place; TransientError if it can't
    be asked."""
    places = {name: environment.get(name, "") for name in _PLACES}
    found = {_PLACES[name][0]: _secret_at(place, name) for name, place in places.items() if place}
    return {**environment, **found} if found else environment


@cache
def _secret_at(place: str, name: str) -> str:
    from firn.auth.secrets import Secrets

    try:
        found = Secrets().keys(place)
    except ValueError as error:
        raise ConfigError(f"{name} {error}") from error
    except ConfigError as error:
        raise ConfigError(f"there is no {_PLACES[name][1]} at {place}, which {name} names") from error
    return found[0]


def azure_options(url: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """What obstore is told of a container at `abfss://container@account.dfs.core.windows.net/…` or `az://container/…`,
    beside what it reads itself. Raises ConfigError for half of an identity, for a key that is none or another
    account's, and where no account is named."""
    account = azure_account(url, environment)
    named = environment.get(_AZURE_NAME, "")
    key = environment.get(AZURE_KEY, "")
    if key and named and named != account:
        raise ConfigError(
            f"{AZURE_KEY} is the key of {named} ({_AZURE_NAME}), and {url} lies in {account}: use an identity that may "
            "read and write both, such as AZURE_CLIENT_ID with AZURE_TENANT_ID and FIRN_AZURE_CLIENT_SECRET"
        )
    if key and not _is_base64(key):
        raise ConfigError(f"{AZURE_KEY} is not a storage account's key: copy the whole of it, with the = at its end")
    if (signature := environment.get(AZURE_SAS)) and "sig" not in dict(parse_qsl(signature.lstrip("?"))):
        raise ConfigError(f"{AZURE_SAS} is not a shared access signature: copy the whole of it, with sv=… and sig=…")
    for proof in _PROOFS:
        if environment.get(proof) and (lacking := [name for name in AZURE_CLIENT if not environment.get(name)]):
            raise ConfigError(f"{proof} is set and {' and '.join(lacking)} is not: set all three, or none")
    told: dict[str, Any] = {} if "@" in urlsplit(url).netloc else {"account_name": account}  # it takes it once only
    if key:
        told["account_key"] = key
    elif signature:
        told["sas_key"] = signature.lstrip("?")
    elif secret := environment.get(AZURE_CLIENT_SECRET):  # obstore reads the environment, and no place
        told |= {name.removeprefix("AZURE_").lower(): environment[name] for name in AZURE_CLIENT}
        told["client_secret"] = secret
    if endpoint := azure_endpoint(environment):
        told["endpoint"] = endpoint
    return told


def azure_account(url: str, environment: Mapping[str, str]) -> str:
    """The storage account of the address; AZURE_STORAGE_ACCOUNT_NAME where it names none. Raises ConfigError."""
    found = re.match(r"[^@]+@([^.]+)", urlsplit(url).netloc)
    account = found[1] if found else environment.get(_AZURE_NAME, "")
    if not account:
        raise ConfigError(
            f"{url} names no storage account: write abfss://container@account.dfs.core.windows.net/prefix, or set "
            f"{_AZURE_NAME}"
        )
    return account


def azure_endpoint(environment: Mapping[str, str]) -> str:
    """Where blobs are asked for instead of Azure: an emulator's address, with its account; "" for Azure itself."""
    return environment.get(AZURE_ENDPOINT, "").rstrip("/")


def google_options(environment: Mapping[str, str]) -> dict[str, Any]:
    """What obstore is told of Google's storage, beside what it reads itself. Raises ConfigError if there is no file of
    credentials where GOOGLE_APPLICATION_CREDENTIALS or FIRN_GOOGLE_CREDENTIALS says, or it is of a kind that Firn does
    not take; TransientError if the place can't be asked."""
    if emulator := google_emulator(environment):
        # obstore takes no address of a server but by such a key; the server asks for none of it.
        key = {"gcs_base_url": emulator, "disable_oauth": True, "client_email": "", "private_key": "",
               "private_key_id": ""}  # fmt: skip
        return {"service_account_key": json.dumps(key)}
    named = google_credentials(environment)
    if named is None:
        return {}
    where, text = named
    found = _json_object(text)
    kind = found.get("type")
    if kind == "external_account":
        from firn.log.google_federation import FederatedIdentity

        return {"credential_provider": FederatedIdentity(found, where)}
    if kind not in _GOOGLE_KINDS:
        what = f"of type {kind!r}" if isinstance(kind, str) else "that is no key"
        raise ConfigError(
            f"{where}, a file {what}: write that of a service account's key or of a workload identity federation, or "
            "leave it out where the machine has an identity of its own"
        )
    if not environment.get(GOOGLE_PLACE):
        return {}  # obstore reads the file itself
    if kind != "service_account":
        raise ConfigError(
            f"{where}, a user's own credentials: name their file by {GOOGLE_KEY_FILE} on the user's machine, and a "
            "service account's key or a workload identity federation here"
        )
    return {"service_account_key": text}


def google_credentials(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """(where it is, for people; what a credentials file says); None where the machine's own identity counts. Raises as
    google_options."""
    if place := environment.get(GOOGLE_PLACE, ""):
        return f"{GOOGLE_PLACE} names {place}", _text_at(place)
    if file := environment.get(GOOGLE_KEY_FILE, ""):
        try:
            return f"{GOOGLE_KEY_FILE} names {file}", Path(file).read_text()
        except OSError as error:
            raise ConfigError(
                f"{GOOGLE_KEY_FILE} names {file}, which can't be read ({error.strerror}): write a key file's path"
            ) from error
        except UnicodeError:
            return f"{GOOGLE_KEY_FILE} names {file}", ""
    return None


@cache
def _text_at(place: str) -> str:
    from firn.auth.secrets import Secrets

    try:
        return Secrets().text(place)
    except ValueError as error:
        raise ConfigError(f"{GOOGLE_PLACE} {error}") from error
    except ConfigError as error:
        raise ConfigError(f"there are no credentials of Google at {place}, which {GOOGLE_PLACE} names") from error


def _json_object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:  # never told: it would quote what it is about
        return {}
    return found if isinstance(found, dict) else {}


def google_emulator(environment: Mapping[str, str]) -> str:
    """The address of an emulator (STORAGE_EMULATOR_HOST, as Google's libraries have it); "" for Google itself."""
    found = environment.get(GOOGLE_EMULATOR, "").rstrip("/")
    return found if not found or "://" in found else f"http://{found}"


def is_loopback(endpoint: str) -> bool:
    """Whether it is on this machine: only there plain HTTP is spoken."""
    return urlsplit(endpoint).hostname in _LOOPBACK


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False
