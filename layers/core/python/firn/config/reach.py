"""What a deployment's jobs can reach: over which network, and which of Glue's databases. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from firn.config.catalogs import Address, glue_region, read_address, shown
from firn.config.model import Config, TableRule
from firn.errors import ConfigError

# AWS's own Iceberg REST endpoints, by the first words of their hosts. What else lies in that domain may be anybody's
# (…execute-api.REGION.amazonaws.com), and on the internet.
_REST: Final = ("glue", "glue-fips", "s3tables", "s3tables-fips")
_AWS: Final = ("amazonaws.com", "amazonaws.com.cn")


@dataclass(frozen=True)
class Reach:
    """A deployment's limits for what firn.yaml says.

    catalog    the deployment's own catalog, which wins over the one in firn.yaml; "" for the latter
    region     its jobs have no network and reach AWS's endpoints of this region only; "": they have one
    databases  patterns of the Glue databases that it may use (GlueDatabases); none: whichever there are
    warehouses  what it says of those beside its own, where shards may lie (firn.config.warehouses)
    """

    catalog: str = ""
    region: str = ""
    databases: tuple[str, ...] = ()
    warehouses: str = ""

    def check(self, config: Config) -> None:
        """Raises ConfigError, which names the field and what to do, if jobs could not work by this configuration."""
        field = "CatalogUri of the deployment" if self.catalog else "catalog in firn.yaml"
        why = unreachable(self.catalog or config.catalog.address, self.region, field)
        if why is not None:
            raise ConfigError(why)
        for stream in config.streams.values():
            for rule in stream.targets:
                if rule.to and (why := barred(_namespace(rule), self.databases)) is not None:
                    raise ConfigError(f"stream {stream.name}, table {rule.source!r}, to {rule.to!r}: {why}")
                if rule.shard is not None and (why := self._lies_nowhere(rule.shard.warehouses.values())) is not None:
                    raise ConfigError(f"stream {stream.name}, table {rule.source!r}, shard.warehouses: {why}")

    def _lies_nowhere(self, names: Iterable[str]) -> str | None:
        """Why jobs can't write to one of these warehouses; None if they can."""
        from firn.config.warehouses import OTHERS, read_warehouses  # few files name any

        for name in sorted(set(names)):
            known = read_warehouses(self.warehouses)
            found = known.get(name) or known.get(OTHERS)
            if found is None:
                return (
                    f"this deployment knows no warehouse {name} ({', '.join(sorted(known)) or 'none'}): say where it "
                    "is in the template's Warehouses, name its bucket in WarehouseBuckets and deploy"
                )
            if self.region and found.region not in ("", self.region):
                return (
                    f"the warehouse {name} is in {found.region}, and this deployment's jobs have no network: they "
                    f"reach {self.region} alone. Deploy it with SubnetIds and SecurityGroupIds (docs/deploy-aws.md)"
                )
        return None


def unreachable(uri: str, region: str, field: str = "CatalogUri, or catalog in firn.yaml") -> str | None:
    """Why jobs without a network, in that region, can't reach the catalog; None if they can, or have one (region "").

    `field`: where the address is written. No password is shown. Raises ConfigError for what is not a catalog's address.
    """
    if not region or not uri or _of_aws(read_address(uri), region):
        return None
    return (
        f"{field}: {shown(uri)} can't be reached, because this deployment's jobs have no network: on EMR Serverless "
        f"they reach AWS's own endpoints in {region} and nothing else. Deploy it with SubnetIds and SecurityGroupIds "
        "from which the catalog can be reached (docs/deploy-aws.md, Networks), or with CatalogUri=glue:// and "
        "GlueDatabases"
    )


def _of_aws(address: Address, region: str) -> bool:
    """Whether it is Glue's, or an Iceberg REST endpoint of AWS's own, in that region."""
    if address.kind == "glue":
        return (glue_region(address.properties) or region) == region
    own = {f"{service}.{region}.{domain}" for service in _REST for domain in _AWS}
    return address.kind == "rest" and all(urlsplit(place).hostname in own for place in address.places)


def barred(namespace: str, databases: Sequence[str]) -> str | None:
    """Why tables of that namespace are not for this deployment; None if they are. `databases`: as in Reach.

    A namespace of which only a pattern is known is barred if no name that fits it can be among them.
    """
    if not databases or any(meet(namespace, one) for one in databases):
        return None
    return (
        f"the namespace {namespace} is not one of GlueDatabases ({', '.join(databases)}), the databases that this "
        "deployment may use: add it to that parameter of template.yaml and deploy, or write another namespace in `to`"
    )


def databases_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The databases that a job may use, as template.yaml tells its driver (FIRN_GLUE_DATABASES); none: all."""
    return databases_in(environment.get("FIRN_GLUE_DATABASES", ""))


def databases_in(text: str) -> tuple[str, ...]:
    """GlueDatabases as the template hands it on: patterns with commas between, "" for no limit."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _namespace(rule: TableRule) -> str:
    """The namespace of the rule's tables, with `*` where only a change's own table says what it is."""
    if not rule.is_pattern:
        return rule.target(rule.source).namespace
    schema, dot, table = rule.source.partition(".")
    if not dot or "*" in schema:  # which may also stand for a dot
        schema, table = schema.partition("*")[0] + "*" if dot else "*", "*"
    return rule.to.partition(".")[0].replace("{schema}", schema).replace("{table}", table)


@cache
def meet(one: str, other: str) -> bool:
    """Whether some name fits both patterns: `*` is any run of characters and `?` any one, as in the ARNs of IAM."""
    if one.startswith("*"):
        return meet(one[1:], other) or (other != "" and meet(one, other[1:]))
    if other.startswith("*"):
        return meet(other, one)
    if not one or not other:
        return one == other
    return (one[0] == other[0] or "?" in (one[0], other[0])) and meet(one[1:], other[1:])
