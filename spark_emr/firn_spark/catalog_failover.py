"""Which of a catalog's several servers a job goes to: the first that answers.

Iceberg's Java client knows one. The job stays with it: a commit whose answer got lost there must not be tried on
another one, and a run that fails for it is started again, which comes by here again.
"""

import urllib.error
import urllib.request
from collections.abc import Sequence

from firn.config.catalogs import CONNECT_SECONDS, read_address, servers
from firn.errors import TransientError


def answering(catalog_uri: str, seconds: float = CONNECT_SECONDS) -> str:
    """The address with only its first server that answers within `seconds`; any other address as it is.

    Raises TransientError that says of each why not; ConfigError for what is not an address.
    """
    address = read_address(catalog_uri)
    if len(servers(address)) < 2:
        return catalog_uri
    _, _, own = catalog_uri.partition("#")
    place = address.places[_first(servers(address), seconds)]
    return f"{place}#{own}" if own else place


def _first(urls: Sequence[str], seconds: float) -> int:
    said = []
    for number, url in enumerate(urls):
        try:
            with urllib.request.urlopen(f"{url.rstrip('/')}/v1/config", timeout=seconds):  # noqa: S310 (http or https)
                return number
        except urllib.error.HTTPError as error:
            if error.code < 500:  # it may want credentials, or the warehouse's name: it is there
                return number
            said.append(f"{url} answered {error.code}")
        except OSError as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            said.append(f"{url}: {str(reason) or type(reason).__name__}")
    raise TransientError(f"no server of the catalog answers: {'; '.join(said)}. Try again once one does")
