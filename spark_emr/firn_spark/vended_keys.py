"""Keys to a table's files that its catalog gave out with the table ("vended credentials" of Iceberg's REST catalogs).

The JVM's FileIO has them by itself, and asks for new ones before they end. What Python reads and writes takes them from
here: in the driver as they came with the table when it was last looked at, in tasks as they were when the tasks were
planned (firn_spark.arrow). Only for S3. Source: Iceberg's REST catalog specification, LoadTableResult.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from firn.config.catalogs import NOT_SIGNED, SIGNED_BY_CATALOG, is_signed_by_catalog
from firn.config.region import WAREHOUSES, region_of, s3_endpoint
from firn.config.warehouses import on_bucket
from firn.errors import TransientError
from firn.log.store import Store, open_store
from firn.tables.locations import spelled

_KEY: Final = "s3.access-key-id"
_NAMES: Final = (_KEY, "s3.secret-access-key", "s3.session-token", "client.region", "s3.region", "s3.endpoint")
_ENDS: Final = "s3.session-token-expires-at-ms"
_S3: Final = ("s3://", "s3a://", "s3n://")
_FILE_IO: Final = "org.apache.iceberg.aws.s3.S3FileIO"
_BESIDE: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


# What storages, SDKs and firn.log.store say of keys that have ended; and of any that are not let in.
_ENDED: Final = ("ExpiredToken", "token has expired", "token included in the request is expired", "RequestExpired")
_NOT_LET_IN: Final = (
    "check the credentials and the bucket's policy", "AccessDenied", "Forbidden", "InvalidAccessKeyId",
    "Status Code: 403", "Status Code: 400", "non-2xx status code: 40",
)  # fmt: skip


@dataclass(frozen=True)
class _Life:
    """When a table's keys came, and when the catalog says that they end (None: it does not say), in seconds. `names`:
    those of the keys, which are no secrets."""

    names: frozenset[str]
    came: float
    ends: float | None


@dataclass(frozen=True)
class Keys:
    """What obstore is told of one S3, for what begins with `prefix`, of the table at `owner`; nothing where the job's
    own keys are good for it. Its text shows no secret."""

    owner: str
    prefix: str
    options: tuple[tuple[str, str], ...] = field(repr=False)

    def told(self) -> dict[str, Any]:
        """For open_store. obstore would add a session token of the environment to keys that came without one."""
        options: dict[str, Any] = dict(self.options)
        pair = {name: options.pop(name, "") for name in ("access_key_id", "secret_access_key")}
        held = {**pair, "token": options.pop("token", None), "expires_at": None}
        return options | {"credential_provider": lambda: held}


_known: dict[str, dict[str, Keys]] = {}  # by the table's location, and by prefix: as it was last looked at
_lives: dict[str, _Life] = {}  # by the table's name


def remember(java: Any, name: str, location: str, properties: Mapping[str, str]) -> None:
    """Notes the keys that came with an org.apache.iceberg.Table at `location`, in place of those that came with it
    before. `name`, `properties`: the table's. Raises TransientError where the catalog gives out none and signs requests
    itself: no table is at fault, and what Python reads and writes can't be signed so."""
    before, owner = _lives.pop(name, None), spelled(location)
    if not location.startswith(_S3):
        return
    io = java.io()
    if str(io.getClass().getName()) != _FILE_IO:
        return
    given = [io.properties(), *(one.config() for one in io.credentials() or ())]
    own = _told(given[0])
    places = [spelled(one) for one in (location, *(properties[name] for name in _BESIDE if name in properties))]
    found = dict.fromkeys(places, own)
    apart = [(str(one.prefix()), own | _told(one.config())) for one in io.credentials() or ()]
    every = {name: value for _, more in apart for name, value in more.items()} | own
    if is_signed_by_catalog(every, {SIGNED_BY_CATALOG: str(io.properties().get(SIGNED_BY_CATALOG) or "")}):
        raise TransientError(NOT_SIGNED)
    for prefix, more in sorted(apart, key=lambda one: len(one[0])):
        # `s3` alone is every bucket: of which table's files, the table says. And where a prefix is wider than the
        # table, another one below it has keys of its own to its files.
        whole = not prefix.partition("://")[2]
        found |= dict.fromkeys([one for one in places if whole or _is_below(spelled(prefix), one)], more)
        found |= {} if whole else {spelled(prefix): more}
    _known[owner] = {
        prefix: Keys(owner, prefix, tuple(sorted(_options(told, os.environ, prefix).items())) if _KEY in told else ())
        for prefix, told in found.items()
    }
    if names := frozenset(told[_KEY] for told in found.values() if _KEY in told):
        came = before.came if before is not None and before.names == names else time.time()  # it was only looked again
        _lives[name] = _Life(names, came, min(filter(None, map(_end, given)), default=None))


def _told(properties: Any) -> dict[str, str]:
    """What counts of a java.util.Map; each name is a question to the JVM."""
    found = {name: properties.get(name) for name in _NAMES}
    return {name: str(value) for name, value in found.items() if value is not None}


def _end(properties: Any) -> float | None:
    told = str(properties.get(_ENDS) or "")
    return int(told) / 1000 if told.isdecimal() and len(told) < len("9" * 19) else None


def ended(tables: Sequence[str], error: str, now: float) -> str | None:
    """Why work on one of these tables (by name) failed with `error`, if it is that the keys, as they came when the work
    began, did not live until its end; None if it is not. By itself that does not pass."""
    for table in tables:
        life = _lives.get(table)
        over = life is not None and life.ends is not None and life.ends <= now
        words = (*_ENDED, *_NOT_LET_IN) if over else _ENDED
        if life is None or not any(word in error for word in words):
            continue
        lived = (life.ends or now) - life.came
        return (
            f"the catalog's keys to the files of {table} lived {'' if life.ends else 'at most '}{lived:.0f} s, and "
            f"ended while it was worked on, {now - life.came:.0f} s after they came: let the catalog give keys that "
            "live longer, or commit less at once (commit.max_size of the stream in firn.yaml)"
        )
    return None


def _options(properties: Mapping[str, str], environment: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Iceberg's properties of S3FileIO as obstore's options, for what begins with `prefix`. Raises ConfigError where no
    region is named."""
    own = on_bucket(prefix.removeprefix("s3://").partition("/")[0], environment.get(WAREHOUSES, ""))
    told = {
        "access_key_id": properties[_KEY],
        "secret_access_key": properties.get("s3.secret-access-key", ""),
        "token": properties.get("s3.session-token", ""),
        "region": properties.get("client.region")
        or properties.get("s3.region")
        or (own.region if own else "")
        or region_of(environment),
        "endpoint": properties.get("s3.endpoint") or (own.endpoint if own else "") or s3_endpoint(environment),
    }
    return {name: value for name, value in told.items() if value}


def of(location: str, owner: str) -> Keys | None:
    """The keys to a file of the table that lies at `owner`; None where its catalog gave none, and the job's own are
    good for it. No path says whose file it is: those of several tables may lie in one folder."""
    mine, folder = _known.get(spelled(owner), {}), spelled(location)
    while (found := mine.get(folder)) is None and "/" in folder:  # of s3://lake/t there are none to s3://lake/t2
        folder = folder.rpartition("/")[0]
    return found if found is not None and found.options else None


def _is_below(folder: str, place: str) -> bool:
    return f"{place}/".startswith(f"{folder}/")


def store_at(location: str, owner: str, root: str = "") -> Store:
    """The store at `root`, or at the location itself, with the keys to the location. `owner`: as `of` has it. Raises as
    open_store."""
    keys = of(location, owner)
    return open_store(root or location, keys=keys.told() if keys is not None else None)


def planned() -> Sequence[Keys]:
    """All keys, to go along with tasks."""
    found = tuple(one for some in dict(_known).values() for one in some.values())  # other threads look at other tables
    return found if any(one.options for one in found) else ()


def take(keys: Sequence[Keys]) -> None:
    """In a task: these are the keys, and no others that an earlier task on its worker had."""
    _known.clear()
    for one in keys:
        _known.setdefault(one.owner, {})[one.prefix] = one
