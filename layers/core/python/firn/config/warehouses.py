"""Warehouses beside the deployment's own, where shards may lie: FIRN_WAREHOUSES names them. Pure.

`eu=s3://acme-eu/lake?region=eu-central-1,us=s3://acme-us/lake?region=us-east-1`: names with their addresses. Of S3 a
bucket's region may follow, and the endpoint of another S3 than the deployment's: `?region=…&endpoint=https://…`. `*` is
of all other names, each of which is a folder there (`*=file:///data/warehouses`). firn.yaml says names alone: a
deployment that tries it out writes to places of its own (docs/adr/0122-warehouses-of-shards.md).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from firn.config.file_sinks import overlap
from firn.config.region import WAREHOUSES
from firn.errors import ConfigError

OTHERS: Final = "*"
OWN: Final = "own"
"""What commands call the deployment's own; no other has that name."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_REGION: Final = re.compile(r"[a-z0-9-]{1,40}")
_SCHEMES: Final = ("s3", "file")
_EXAMPLE: Final = "eu=s3://acme-eu/lake?region=eu-central-1"


@dataclass(frozen=True)
class Warehouse:
    """Where one is. `region`, `endpoint`: of its bucket on S3; "": those of the deployment."""

    address: str
    region: str = ""
    endpoint: str = ""

    @property
    def bucket(self) -> str:
        """Of S3; "" of a folder."""
        return self.address.removeprefix("s3://").partition("/")[0] if self.address.startswith("s3://") else ""


def check_warehouse_name(name: str) -> None:
    """Raises ValueError that says what to write."""
    if not _NAME.fullmatch(name) or name == OWN:
        raise ValueError(
            f"warehouses: {name[:80]!r} is no name of a warehouse; write a-z, 0-9, _ and - only, at most 63 of them, "
            f"and its address in {WAREHOUSES} of the deployment"
        )


@lru_cache(maxsize=8)
def read_warehouses(text: str) -> Mapping[str, Warehouse]:
    """By their names. Raises ConfigError that says what to write."""
    found: dict[str, Warehouse] = {}
    for one in filter(None, (part.strip() for part in text.split(","))):
        name, equals, place = one.partition("=")
        try:
            if name != OTHERS:
                check_warehouse_name(name)
            if not equals:
                raise ValueError("has no address")
            if name in found:
                raise ValueError("is there twice")
            found[name] = _read(place)
        except ValueError as error:
            raise ConfigError(f"{WAREHOUSES}: {name[:80]}: {error}; write such as {_EXAMPLE}") from error
    buckets: dict[str, Warehouse] = {}
    for made in (made for made in found.values() if made.bucket):
        other = buckets.setdefault(made.bucket, made)
        if (made.region, made.endpoint) != (other.region, other.endpoint):
            raise ConfigError(f"{WAREHOUSES}: the bucket {made.bucket} has two regions or endpoints; write one of each")
    return found


def _read(place: str) -> Warehouse:
    from firn.config.storage import read_place

    address, _, query = place.partition("?")
    told = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    if odd := sorted(told.keys() - {"region", "endpoint"}):
        raise ValueError(f"{odd[0][:40]!r} is no setting of a bucket; there are region and endpoint")
    made = Warehouse(read_place(address, _SCHEMES), told.get("region", ""), told.get("endpoint", "").rstrip("/"))
    if told and not made.bucket:
        raise ValueError("region and endpoint are of s3:// alone")
    if "region" in told and not _REGION.fullmatch(made.region):
        raise ValueError(f"{made.region[:60]!r} is no region")
    if "endpoint" in told and (urlsplit(made.endpoint).scheme not in ("http", "https") or "@" in made.endpoint):
        raise ValueError(f"{made.endpoint[:80]!r} is no endpoint, such as https://s3.example.com")
    return made


def beside(own: str) -> str:
    """What the embedded stack says of warehouses: each by its name in a folder beside its own, whatever a deployment
    of the same firn.yaml says."""
    return f"{OTHERS}={own}s" if own.partition("://")[0] in _SCHEMES else ""


def known_warehouses(environment: Mapping[str, str]) -> Mapping[str, Warehouse]:
    """Those of a deployment. Raises as read_warehouses."""
    return read_warehouses(environment.get(WAREHOUSES, ""))


def addresses(told: str) -> list[str]:
    """Where those of S3 and in folders are; `/*` at the end stands for a folder of any name. Raises as
    read_warehouses."""
    return [one.address + ("/*" if name == OTHERS else "") for name, one in sorted(read_warehouses(told).items())]


def on_bucket(bucket: str, told: str) -> Warehouse | None:
    """A warehouse in this bucket that says more of it than the deployment does of all. `told`: what that says of
    warehouses. Raises as read_warehouses."""
    found = (one for one in read_warehouses(told).values() if one.bucket == bucket)
    return next((one for one in found if one.region or one.endpoint), None)


def address_of(name: str, own: str, staging: str, environment: Mapping[str, str]) -> str:
    """Where a warehouse is, by its name. `own`: the deployment's, which "" is; `staging`: where its log is. Raises
    ConfigError for one that the deployment does not know, or whose files could meet those of another place."""
    if not name:
        return own
    known = known_warehouses(environment)
    if name in known:
        found = known[name].address
    elif OTHERS in known:
        found = f"{known[OTHERS].address}/{name}"
    else:
        raise ConfigError(
            f"shards lie in the warehouse {name}, and this deployment knows "
            f"{', '.join(sorted(known)) or 'none beside its own'}: say in {WAREHOUSES} where it is, such as "
            f"{name}=s3://bucket/prefix"
        )
    if found.partition("://")[0] != own.partition("://")[0]:
        raise ConfigError(
            f"the warehouse {name} is {found}, and the deployment's own is {own}: one catalog's tables lie in one kind "
            f"of storage; correct {WAREHOUSES}"
        )
    others = [(f"the warehouse {other}", one.address) for other, one in sorted(known.items()) if other != name]
    others = [(what, place) for what, place in others if name in known or what != f"the warehouse {OTHERS}"]
    for what, place in (("the deployment's own", own), ("the staging area", staging), *others):
        if overlap(found, place):
            raise ConfigError(
                f"{WAREHOUSES}: the warehouse {name} ({found}) lies in {what} ({place}), or holds it; give it a bucket "
                "or a prefix of its own"
            )
    return found
