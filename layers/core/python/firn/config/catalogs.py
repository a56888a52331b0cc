"""The kinds of Iceberg catalogs, a line of KINDS each: how an address of one looks, and what PyIceberg and Spark are
told of it. Pure: nothing is opened here.

One text is the address of a catalog, as jobs and commands are given it:

    sqlite:////data/catalog.db
    postgresql://user@host:5432/database#firn.credential=secretsmanager:firn/dev/catalog/pg
    glue://  or  glue://123456789012
    https://a.example.org/api,https://b.example.org/api#warehouse=lake

Several places, with commas between, are servers of one catalog: the next is asked where one does not answer. After `#`
come the catalog's own properties, which no request carries. Both engines are given them under the same names. No secret
stands in an address: jobs get it as an argument. It comes by the environment, or from the place of `firn.credential`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from firn.config.region import region_of
from firn.config.written_secrets import is_secret_name, secret_in
from firn.errors import ConfigError

BUSY_TIMEOUT_SECONDS: Final = 30
"""How long a reader or writer of a SQLite file waits for another one, in both engines."""

CONNECT_SECONDS: Final = 5
"""How long a server of a catalog may take to take a connection."""

ANSWER_SECONDS: Final = 60
"""How long a server of a catalog may say nothing before an answer counts as lost."""

LOCK_SECONDS: Final = 60
"""How long a commit waits for another one's lock on the table, in a Hive Metastore, before it is refused."""

CONNECT: Final = "firn.connect-seconds"
ANSWER: Final = "firn.answer-seconds"
LOCK: Final = "firn.lock-seconds"
"""Properties of a catalog that set these waits. Seconds, also with a fraction."""

_WAITS: Final = ((CONNECT, CONNECT_SECONDS), (ANSWER, ANSWER_SECONDS), (LOCK, LOCK_SECONDS))

FROM_ENVIRONMENT: Final = "PYICEBERG_CATALOG__FIRN__"
"""PyIceberg's own prefix: …__OAUTH2_SERVER_URI is the property oauth2-server-uri. Secrets come this way."""

CREDENTIAL: Final = "credential"
"""The property with the secret: CLIENT_ID:SECRET of a REST catalog, the password of a SQL one."""

CREDENTIAL_PLACE: Final = "firn.credential"
"""The property that says where the property `credential` is: secretsmanager:NAME, ssm:/NAME or file:/PATH."""

CREDENTIALS: Final = (
    f"the catalog's credentials: {FROM_ENVIRONMENT}CREDENTIAL (CLIENT_ID:SECRET, or a database's password) or "
    f"{FROM_ENVIRONMENT}TOKEN in the environment, of the jobs too, or what {CREDENTIAL_PLACE} names the place of; "
    "AWS_* for Glue and for requests that AWS signs"
)
"""For the text of an error of whoever is not let in."""


TYPES_REFUSED: Final = "columns have types incompatible with the existing columns"
"""What a Hive Metastore says of a column that gets another type, or another place, in both engines."""

TYPES_ALLOWED: Final = (
    "set metastore.disallow.incompatible.col.type.changes to false in the Hive Metastore's metastore-site.xml (true by "
    "default, which refuses columns whose place has had another type), and restart it"
)
"""What to do then."""

BY_REFERENCE: Final = (
    f"take it out, and write the place of it behind the address, #{CREDENTIAL_PLACE}=secretsmanager:NAME (ssm:/NAME, "
    f"file:/PATH), or set {FROM_ENVIRONMENT}CREDENTIAL in the environment, of the jobs too"
)
"""What to do with a secret in an address: for the text of an error."""

NESSIE: Final = "nessie.is-nessie-catalog"
"""The property by which Nessie tells clients what it is, whatever its address looks like. For both engines."""

READ_ONLY: Final = (
    "this catalog is a Nessie, and Firn only reads from it: its metadata shows one snapshot of a table, so a commit "
    "can't be told from one that another job has made, and of two first commits both are answered ok and one is lost. "
    "Let streams and pipelines write to a sql, glue, rest or hive catalog (docs/adr/0074-hive-and-nessie.md)"
)


SIGNED_BY_CATALOG: Final = "s3.remote-signing-enabled"
"""The property by which a REST catalog says that each request for a table's files is signed by it, for both engines."""

_SIGNER: Final = "s3.signer"  # PyIceberg's own name for who signs
_VENDED: Final = "s3.access-key-id"

NOT_SIGNED: Final = (
    f"the catalog signs each request for this table's files itself ({SIGNED_BY_CATALOG}) and gives out no keys to "
    "them; Firn reads and writes files by keys. Have it give out keys with a table (vended credentials; write "
    "header.X-Iceberg-Access-Delegation: vended-credentials under catalog.properties), or turn remote signing off for "
    "its warehouse and give jobs and readers keys of their own (docs/catalogs.md)"
)


def is_signed_by_catalog(told: Mapping[str, str], properties: Mapping[str, str]) -> bool:
    """Whether a table's files can be had by requests that its catalog signs alone. `told`: what came with the table;
    `properties`: the catalog's, and what came with the table."""
    signs = properties.get(SIGNED_BY_CATALOG, "").lower() == "true" or bool(properties.get(_SIGNER))
    return signs and not told.get(_VENDED)


def is_read_only(properties: Mapping[str, str]) -> bool:
    """Whether a catalog with these properties, its server's among them, is one that Firn commits nothing to."""
    return properties.get(NESSIE, "").lower() == "true"


@dataclass(frozen=True)
class Address:
    """One catalog: its places (several are one and the same), and its properties. `kind` is a name in KINDS."""

    kind: str
    places: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)


_Told = Callable[[Address, Mapping[str, str]], dict[str, str]]


@dataclass(frozen=True)
class Kind:
    """One kind of catalog.

    name       as `catalog.type` in firn.yaml
    schemes    what addresses of it begin with; `scheme+driver://` counts as `scheme://`
    example    an address, for the text of errors
    default    its address where none is written; "": the deployment's own; None: there has to be one
    several    whether it may have several places
    pyiceberg  address, environment -> PyIceberg's properties, with `type`, without the warehouse
    spark      the same for Iceberg's Java side, with `catalog-impl`
    """

    name: str
    schemes: tuple[str, ...]
    example: str
    default: str | None
    several: bool
    pyiceberg: _Told
    spark: _Told


def read_address(text: str) -> Address:
    """The catalog that an address means. Raises ConfigError, which names the kinds and never a password; also for an
    address that holds a secret."""
    written = text.strip()
    if (held := secret_in(written)) is not None:
        raise ConfigError(f"the catalog's address holds {held} and jobs get it as an argument: {BY_REFERENCE}")
    scheme = written.partition("://")[0].lower() if "://" in written else ""
    kind = next((one for one in KINDS.values() if scheme.partition("+")[0] in one.schemes), None)
    if kind is None:
        said = f"{scheme}:// is the address of no catalog" if scheme else f"catalog URI {text!r} has no scheme"
        raise ConfigError(f"{said}: write {', '.join(one.example for one in KINDS.values())}")
    if scheme.startswith("sqlite"):  # a path may hold any character
        return Address(kind.name, (written,))
    where, _, told = written.partition("#")
    places = tuple(place.strip() for place in where.split(",") if place.strip()) if kind.several else (where,)
    strange = [place for place in places if "://" not in place]
    if strange:
        raise ConfigError(f"{strange[0]!r} in the catalog's address has no scheme: write each as {kind.example}")
    properties = dict(parse_qsl(told, keep_blank_values=True))
    for name, value in properties.items():
        if name != CREDENTIAL_PLACE and is_secret_name(name) and value.lower() not in ("", "true", "false"):
            raise ConfigError(
                f"{name} in the catalog's address is not fetched from a place, {CREDENTIAL_PLACE} alone is: "
                f"{BY_REFERENCE}"
            )
    for name, _ in _WAITS:
        if not re.fullmatch(r"\d+(\.\d+)?", properties.get(name, "1")):
            raise ConfigError(f"the catalog's {name} is {properties[name]!r}: write a number of seconds, such as 30")
    return Address(kind.name, places, properties)


def address_of(kind: str, uri: str | None, properties: Mapping[str, str]) -> str:
    """The address of what firn.yaml says under `catalog:`; "" for the deployment's own."""
    of = KINDS[kind]
    where = uri if uri is not None else of.default or ""
    if kind == "nessie":  # its servers are told from those of other REST catalogs
        where = ",".join(_marked(place.strip()) for place in where.split(","))
    told = urlencode(sorted(properties.items()), quote_via=quote)
    return f"{where}#{told}" if where and told and not where.startswith("sqlite") else where


def check_uri(kind: str, uri: str) -> None:
    """Raises ValueError, whose text says what to write, if `uri` is not an address of this kind."""
    of = KINDS[kind]
    known = {*of.schemes, "http", "https"} if kind == "nessie" else set(of.schemes)
    places = uri.split(",") if of.several else [uri]
    if any(
        "://" not in one or one.strip().partition("://")[0].lower().partition("+")[0] not in known for one in places
    ):
        raise ValueError(f"is not an address of a {kind} catalog; write {of.example}")
    if "," in uri and not of.several and not uri.startswith("sqlite"):
        raise ValueError(f"names several places, and a {kind} catalog has one; write {of.example}")


def pyiceberg_properties(address: Address, environment: Mapping[str, str]) -> dict[str, str]:
    """PyIceberg's properties of the catalog, with `type`; the warehouse and storage are not among them."""
    return KINDS[address.kind].pyiceberg(address, environment) | _own(address, environment)


def spark_properties(address: Address, environment: Mapping[str, str]) -> dict[str, str]:
    """The properties of the catalog for Iceberg's Java side, with `catalog-impl` and without Spark's prefix.

    Raises ConfigError for an address that Spark can't use.
    """
    return KINDS[address.kind].spark(address, environment) | _own(address, environment)


def _own(address: Address, environment: Mapping[str, str]) -> dict[str, str]:
    """The address's own properties, and those that the environment adds."""
    added = {
        name.removeprefix(FROM_ENVIRONMENT).lower().replace("__", ".").replace("_", "-"): value
        for name, value in environment.items()
        if name.startswith(FROM_ENVIRONMENT)
    }
    return {**address.properties, **added}


def _sql(address: Address, environment: Mapping[str, str]) -> dict[str, str]:
    uri = address.places[0]
    scheme, _, rest = uri.partition("://")
    if scheme in ("postgresql", "postgres", "postgresql+pg8000"):
        password = _own(address, environment).get(CREDENTIAL)
        user, at, where = rest.rpartition("@")
        if password and at:
            rest = f"{user.partition(':')[0]}:{quote(password, safe='')}@{where}"
        return {"type": "sql", "uri": f"postgresql+pg8000://{rest}"}
    if scheme.startswith("sqlite") and "timeout=" not in urlsplit(uri).query:
        return {"type": "sql", "uri": f"{uri}{'&' if urlsplit(uri).query else '?'}timeout={BUSY_TIMEOUT_SECONDS}"}
    return {"type": "sql", "uri": uri}


def _sql_spark(address: Address, environment: Mapping[str, str]) -> dict[str, str]:
    # V1 and the catalog's name make the rows of PyIceberg's SqlCatalog("firn") and of Spark's the same rows.
    told = {"catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog", "jdbc.schema-version": "V1"}
    uri = address.places[0]
    told["uri"] = jdbc_uri(uri)
    if not uri.startswith("sqlite"):
        if user := urlsplit(uri).username:
            told["jdbc.user"] = unquote(user)
        if password := _own(address, environment).get(CREDENTIAL):
            told["jdbc.password"] = password
        waits = {name: float(address.properties.get(name, seconds)) for name, seconds in _WAITS}
        # The driver counts whole seconds, and 0 is for ever.
        told |= {"jdbc.connectTimeout": f"{max(1, waits[CONNECT]):.0f}"}
        told |= {"jdbc.socketTimeout": f"{max(1, waits[ANSWER]):.0f}"}
    return told


def jdbc_uri(uri: str) -> str:
    """A SQL catalog's address, spelled as SQLAlchemy spells it, as JDBC's: without user and password; of SQLite with
    the time-out and the journal that both engines share. Raises ConfigError."""
    scheme, _, rest = uri.partition("://")
    if scheme.startswith("sqlite") and len(rest) > 1:
        return f"jdbc:sqlite:{rest[1:]}?busy_timeout={BUSY_TIMEOUT_SECONDS * 1000}&journal_mode=WAL"
    parts = urlsplit(uri)
    if scheme.startswith("postgres") and parts.hostname and parts.path.strip("/"):
        return f"jdbc:postgresql://{parts.hostname}:{parts.port or 5432}{parts.path}"
    raise ConfigError("the SQL catalog's address names no database: write sqlite:///path/to/catalog.db or "
                      "postgresql://host/database")  # fmt: skip


_GLUE = "glue://"

REGION: Final = "client.region"
"""The property of a catalog that names the region of its AWS clients, in both engines; else it is the environment's."""


def glue_region(properties: Mapping[str, str]) -> str | None:
    """The region of Glue that a catalog's properties name; None for the environment's. Raises ConfigError where they
    name two: Iceberg's Java side knows one for all its clients, PyIceberg another of Glue."""
    of_glue, of_all = properties.get("glue.region"), properties.get(REGION)
    if of_glue and of_all and of_glue != of_all:
        raise ConfigError(
            f"the catalog's glue.region is {of_glue} and its {REGION} is {of_all}: two catalogs; write {REGION}"
        )
    return of_all or of_glue


def _glue(address: Address, environment: Mapping[str, str]) -> dict[str, str]:
    told = _own(address, environment)
    names = {
        "glue.endpoint": _first(environment, "AWS_ENDPOINT_URL_GLUE", "AWS_ENDPOINT_URL"),
        "glue.region": glue_region(told) or region_of(environment),
        "glue.access-key-id": environment.get("AWS_ACCESS_KEY_ID"),
        "glue.secret-access-key": environment.get("AWS_SECRET_ACCESS_KEY"),
        "glue.session-token": environment.get("AWS_SESSION_TOKEN"),
        "glue.id": address.places[0].removeprefix(_GLUE),
    }
    return {"type": "glue"} | {name: value for name, value in names.items() if value}


def _glue_spark(address: Address, environment: Mapping[str, str]) -> dict[str, str]:
    """AWS Glue; commits are optimistic, by the version of Glue's table."""
    names = {
        REGION: glue_region(_own(address, environment)) or region_of(environment),
        "glue.id": address.places[0].removeprefix(_GLUE),
        "glue.endpoint": _first(environment, "AWS_ENDPOINT_URL_GLUE", "AWS_ENDPOINT_URL"),
    }
    told = {"catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog"}
    return told | {name: value for name, value in names.items() if value}


def _rest(address: Address, _environment: Mapping[str, str]) -> dict[str, str]:
    return {"type": "rest", "uri": _plain(address.places[0])}


def _rest_spark(address: Address, _environment: Mapping[str, str]) -> dict[str, str]:
    connect, answer, _ = (float(address.properties.get(name, default)) for name, default in _WAITS)
    return {
        "catalog-impl": "org.apache.iceberg.rest.RESTCatalog",
        "uri": _plain(address.places[0]),
        "rest.client.connection-timeout-ms": str(int(connect * 1000)),
        "rest.client.socket-timeout-ms": str(int(answer * 1000)),
        # A new token is got as the first one was. Exchanging the old one is another grant, which many servers have not.
        "token-exchange-enabled": "false",
    }


def _nessie(address: Address, environment: Mapping[str, str]) -> dict[str, str]:
    return _rest(address, environment) | {NESSIE: "true"}


def _nessie_spark(address: Address, environment: Mapping[str, str]) -> dict[str, str]:
    return _rest_spark(address, environment) | {NESSIE: "true"}


def _hive(address: Address, _environment: Mapping[str, str]) -> dict[str, str]:
    return {"type": "hive", "uri": ",".join(address.places)}


def _hive_spark(address: Address, _environment: Mapping[str, str]) -> dict[str, str]:
    # Hive's client has one wait for connections and answers, of 600 s if it is not told; it counts whole seconds.
    answer = float(address.properties.get(ANSWER, ANSWER_SECONDS))
    lock = float(address.properties.get(LOCK, LOCK_SECONDS))
    return {
        "catalog-impl": "org.apache.iceberg.hive.HiveCatalog",
        "uri": ",".join(address.places),
        "hadoop.hive.metastore.client.socket.timeout": f"{max(1, answer):.0f}s",
        "hadoop.iceberg.hive.lock-timeout-ms": str(int(lock * 1000)),
    }


def servers(address: Address) -> Sequence[str]:
    """The URLs of a catalog that is asked over HTTP; none for the others."""
    return tuple(_plain(place) for place in address.places) if address.kind in ("rest", "nessie") else ()


def shown(uri: str) -> str:
    """An address for people: without a password, and without the properties."""
    return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1@", uri.partition("#")[0])


# What tells one catalog of a server from another; all else in an address says how it is reached.
_WHICH: Final = {"rest": ("prefix", "warehouse"), "nessie": ("prefix", "warehouse"), "glue": ("glue.endpoint",)}


def identity(uri: str, environment: Mapping[str, str] | None = None) -> str:
    """Which catalog an address means: one text for one catalog, and no secret in it. Of a REST server with several it
    says which, of Glue the account and the region. `environment`: which may name these too. Raises ConfigError."""
    address = read_address(uri)
    told = _own(address, environment or {})
    which = {name: told[name] for name in _WHICH.get(address.kind, ()) if told.get(name)}
    where = shown(uri)
    if address.kind == "glue":
        where = f"{_GLUE}{told.get('glue.id') or address.places[0].removeprefix(_GLUE)}"
        if region := glue_region(told) or _first(environment or {}, "AWS_REGION", "AWS_DEFAULT_REGION"):
            which[REGION] = region
    return f"{where}#{urlencode(sorted(which.items()), safe='/:')}" if which else where


def _first(environment: Mapping[str, str], *names: str) -> str | None:
    return next((environment[name] for name in names if environment.get(name)), None)


def _marked(place: str) -> str:
    return place if place.startswith("nessie+") else f"nessie+{place}"


def _plain(place: str) -> str:
    return place.removeprefix("nessie+")


KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("sql", ("sqlite", "postgresql", "postgres"), "sqlite:///path/to/catalog.db", "", False, _sql, _sql_spark),
        Kind("glue", ("glue",), _GLUE, _GLUE, False, _glue, _glue_spark),
        Kind("rest", ("http", "https"), "https://catalog.example.org/", None, True, _rest, _rest_spark),
        Kind("hive", ("thrift",), "thrift://metastore:9083", None, True, _hive, _hive_spark),
        # Nessie speaks Iceberg's REST, and is only read.
        Kind("nessie", ("nessie",), "nessie+https://nessie.example.org/iceberg", None, True, _nessie, _nessie_spark),
    )
}
"""Name -> kind, in the order in which people are told of them."""
