"""Keys to a table's files that its catalog gave out with the table ("vended credentials" of Iceberg's REST catalogs).

The JVM's FileIO has them by itself, and asks for new ones before they end. What Python reads and writes takes them from
here: in the driver as they came with the table when it was last looked at, in tasks as they were when the tasks were
planned (firn_spark.arrow). Only for S3. Source: Iceberg's REST catalog specification, LoadTableResult.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from firn.config.region import region_of, s3_endpoint
from firn.log.store import Store, open_store
from firn.tables.locations import spelled

_KEY: Final = "s3.access-key-id"
_NAMES: Final = (_KEY, "s3.secret-access-key", "s3.session-token", "client.region", "s3.region", "s3.endpoint")
_S3: Final = ("s3://", "s3a://", "s3n://")
_FILE_IO: Final = "org.apache.iceberg.aws.s3.S3FileIO"
_BESIDE: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


@dataclass(frozen=True)
class Keys:
    """What obstore is told of one S3, for what begins with `prefix`. Its text shows no secret."""

    prefix: str
    options: tuple[tuple[str, str], ...] = field(repr=False)


_known: dict[str, Keys] = {}


def remember(java: Any, location: str, properties: Mapping[str, str]) -> None:
    """Notes the keys that came with an org.apache.iceberg.Table at `location`, in place of those that came with it
    before. `properties`: the table's."""
    if not location.startswith(_S3):
        return
    io = java.io()
    if str(io.getClass().getName()) != _FILE_IO:
        return
    own = _told(io.properties())
    places = [location, *(properties[name] for name in _BESIDE if name in properties)]
    for place in places:
        _note(place, own)
    for one in io.credentials() or ():
        more = own | _told(one.config())
        prefix = str(one.prefix())
        # `s3` alone is every bucket: of which table's files, the table says.
        for place in [prefix] if prefix.partition("://")[2] else places:
            _note(place, more)


def _told(properties: Any) -> dict[str, str]:
    """What counts of a java.util.Map; each name is a question to the JVM."""
    found = {name: properties.get(name) for name in _NAMES}
    return {name: str(value) for name, value in found.items() if value is not None}


def _note(place: str, properties: Mapping[str, str]) -> None:
    prefix = spelled(place)
    if _KEY in properties:
        _known[prefix] = Keys(prefix, tuple(sorted(_options(properties, os.environ).items())))
    else:
        _known.pop(prefix, None)


def _options(properties: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Iceberg's properties of S3FileIO as obstore's options. Raises ConfigError where no region is named."""
    told = {
        "access_key_id": properties[_KEY],
        "secret_access_key": properties.get("s3.secret-access-key", ""),
        "token": properties.get("s3.session-token", ""),
        "region": properties.get("client.region") or properties.get("s3.region") or region_of(environment),
        "endpoint": properties.get("s3.endpoint") or s3_endpoint(environment),
    }
    return {name: value for name, value in told.items() if value}


def of(location: str) -> Keys | None:
    """The keys to a file; None where its catalog gave none, and the job's own are good for it."""
    known, place = dict(_known), spelled(location)  # other threads look at other tables
    # Of s3://lake/t there are no keys to s3://lake/t2.
    found = [prefix for prefix in known if f"{place}/".startswith(f"{prefix}/")]
    return known[max(found, key=len)] if found else None


def store_at(location: str, root: str = "") -> Store:
    """The store at `root`, or at the location itself, with the keys to the location. Raises as open_store."""
    keys = of(location)
    return open_store(root or location, keys=dict(keys.options) if keys is not None else None)


def planned() -> Sequence[Keys]:
    """All keys, to go along with tasks."""
    return tuple(dict(_known).values())


def take(keys: Sequence[Keys]) -> None:
    """In a task: these are the keys."""
    for one in keys:
        _known[one.prefix] = one
