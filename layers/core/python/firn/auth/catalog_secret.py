"""The secret of a catalog's client, from the place that firn.yaml names (`firn.credential` under catalog.properties).

firn.yaml, jobs and commands are told the place alone; whoever opens the catalog goes there.
"""

from collections.abc import Callable, Mapping
from typing import Final

from firn.auth.secrets import Secrets
from firn.config.catalogs import CREDENTIAL_PLACE, FROM_ENVIRONMENT, read_address
from firn.errors import ConfigError

_SECRETS: Final = Secrets()
_NAME: Final = f"{FROM_ENVIRONMENT}CREDENTIAL"


def catalog_environment(
    catalog_uri: str, environment: Mapping[str, str], keys: Callable[[str], tuple[str, ...]] = _SECRETS.keys
) -> Mapping[str, str]:
    """The environment with the credential that the catalog's address names the place of; as it is where it names none,
    or where the environment has one itself. `keys`: what is at a place.

    Raises TransientError if the place can't be asked, ConfigError if it is none or there is nothing.
    """
    place = read_address(catalog_uri).properties.get(CREDENTIAL_PLACE)
    if not place or environment.get(_NAME):
        return environment
    try:
        found = keys(place)
    except ValueError as error:
        raise ConfigError(f"{CREDENTIAL_PLACE} under catalog.properties {error}") from None
    except ConfigError:
        found = ()
    if not found:
        raise ConfigError(
            f"there is no secret at {place}: create it with CLIENT_ID:SECRET in it (a database's: its password), or "
            f"correct {CREDENTIAL_PLACE} under catalog.properties in firn.yaml"
        )
    return {**environment, _NAME: found[0]}
