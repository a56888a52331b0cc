"""The secret of a catalog's client, from the place that firn.yaml names (`firn.credential` under catalog.properties).

firn.yaml, jobs and commands are told the place alone; whoever opens the catalog goes there.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from firn.auth.secrets import Secrets
from firn.config.catalogs import CREDENTIAL_PLACE, FROM_ENVIRONMENT, read_address
from firn.errors import ConfigError, TransientError

_SECRETS: Final = Secrets()
_JSON: Final = re.compile(r'\{("\w+":|$)')  # its first word
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
    except TransientError as error:
        raise TransientError(
            f"the catalog's secret at {place}: {error}; the template's roles may read what is below "
            "firn/ENVIRONMENT/catalog/ (docs/deploy-aws.md)"
        ) from error
    if not found:
        raise ConfigError(
            f"there is no secret at {place}: create it with CLIENT_ID:SECRET in it (a database's: its password), or "
            f"correct {CREDENTIAL_PLACE} under catalog.properties in firn.yaml"
        )
    if _JSON.match(found[0]):
        raise ConfigError(
            f"the secret at {place} is JSON, as RDS keeps it, and the text itself is taken: put the password (of a "
            f"REST catalog CLIENT_ID:SECRET) alone into a secret of its own, and name that by {CREDENTIAL_PLACE}"
        )
    return {**environment, _NAME: found[0]}
