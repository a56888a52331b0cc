"""`sources:` of firn.yaml from the YAML tree."""

import re
from collections.abc import Mapping
from typing import Final, get_args
from urllib.parse import parse_qs, unquote, urlsplit

from firn.config import quantities
from firn.config.model import StreamConfig
from firn.config.problems import Section
from firn.config.pull_source import LINGER_SECONDS, Plugin, PostgresAddress, PullSource, TlsMode
from firn.config.secret_addresses import checked_place

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_SLOT: Final = re.compile(r"[a-z0-9_]{1,63}")  # what PostgreSQL takes
_KEYS: Final = ("postgres", "slot", "publication", "stream", "secret", "iam", "linger", "plugin")
_TLS: Final[tuple[TlsMode, ...]] = get_args(TlsMode)
_PLUGINS: Final[tuple[Plugin, ...]] = get_args(Plugin)
_EXAMPLE: Final = "postgresql://user@host:5432/database"


def read_sources(section: Section, streams: Mapping[str, StreamConfig]) -> dict[str, PullSource]:
    """The sources by name; every problem is noted. `streams`: those of the file, which sources feed."""
    found: dict[str, PullSource] = {}
    fed: dict[str, str] = {}
    read: dict[tuple[str, int, str], str] = {}
    for name in section.names:
        one = section.section(name)
        if not _NAME.fullmatch(name):
            section.note(name, "is not a name of a source; write a-z, 0-9, _ and - only, such as shop")
        source = _source(name, one, streams)
        if source is None:
            continue
        if source.stream in fed:
            one.note("stream", f"{source.stream} is fed by {fed[source.stream]} too: the positions of two databases do "
                     "not compare; give each a stream of its own")  # fmt: skip
        fed.setdefault(source.stream, name)
        address = source.address
        slot = ("loopback" if is_loopback(address.host) else address.host.lower(), address.port, source.slot)
        if slot in read:
            one.note("slot", f"{source.slot} at {address.host}:{address.port} is read by {read[slot]} too: what one "
                     "reads the other never sees; give each its own, or leave one of the two out")  # fmt: skip
        read.setdefault(slot, name)
        found[name] = source
    return found


def _source(name: str, section: Section, streams: Mapping[str, StreamConfig]) -> PullSource | None:
    section.allow_only(_KEYS)
    if not section.has("postgres"):
        section.note("postgres", f"is missing; write postgres: {_EXAMPLE}")
        return None
    address = section.parsed("postgres", parse_address, None, _EXAMPLE)
    slot = section.text("slot", "a slot's name, such as firn_shop") or f"firn_{re.sub('[^a-z0-9_]', '_', name)}"[:63]
    if not _SLOT.fullmatch(slot):
        section.note("slot", "is not a name of a slot; PostgreSQL takes a-z, 0-9 and _, 63 of them at most")
    plugin = section.parsed("plugin", parse_plugin, _PLUGINS[0], " or ".join(_PLUGINS))
    publication = section.text("publication", "a publication's name, such as firn") or "firn"
    if plugin == "wal2json":
        if section.has("publication"):
            section.note("publication", "is nothing that wal2json knows: leave it out. The rules of the stream say "
                         "which tables are taken")  # fmt: skip
        publication = ""
    if len(publication.encode()) > 63 or "\0" in publication:
        section.note("publication", "is longer than PostgreSQL's names, 63 bytes")
    stream = section.text("stream", "one of the names under streams:") or name
    _check_stream(section, stream, streams)
    iam = section.flag("iam", False)
    secret = section.parsed(
        "secret", checked_place, "", "where the password is: secretsmanager:NAME, ssm:/NAME, file:/PATH"
    )
    if iam and section.has("secret"):
        section.note("secret", "is not used with iam: true; leave one of them out")
    linger = section.parsed("linger", quantities.seconds_or_none, LINGER_SECONDS, "50s")
    if address is None:
        return None
    if iam and address.tls == "disable":
        section.note("iam", "sends its token in the clear without TLS; take sslmode=disable out of the address")
    return PullSource(name, address, slot, publication, stream, secret, iam, linger, plugin)


def parse_plugin(text: str) -> Plugin:
    """The output plugin of this name. Raises ValueError."""
    found = next((one for one in _PLUGINS if one == text), None)
    if found is None:
        raise ValueError(f"is not an output plugin that Firn reads; write {' or '.join(_PLUGINS)}")
    return found


def _check_stream(section: Section, stream: str, streams: Mapping[str, StreamConfig]) -> None:
    fed = streams.get(stream)
    if fed is None:
        section.note("stream", f"there is no stream {stream[:60]}; write one of {', '.join(sorted(streams))[:200]}")
    elif fed.has_schemas:
        section.note("stream", f"{stream} holds plain rows to schemas; a database's types are its own: write a stream "
                     "without schemas")  # fmt: skip
    elif fed.order_by:
        section.note("stream", f"{stream} has order_by, and a database's log says the order itself; take order_by out")


def parse_address(text: str) -> PostgresAddress:
    """`postgresql://user@host:port/database?sslmode=verify-full&sslrootcert=/path`, parts %-encoded.

    Without sslmode it is verify-full, or disable where the host is loopback. Raises ValueError, which never repeats the
    text: a password may be in it.
    """
    try:
        parts = urlsplit(text.strip())
        port, asked = parts.port or 5432, parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise ValueError(f"is not an address; write {_EXAMPLE}, special characters as %XX") from None
    if parts.scheme not in ("postgres", "postgresql"):
        raise ValueError(f"is not an address of PostgreSQL; write {_EXAMPLE}")
    if parts.password is not None:
        raise ValueError(
            "holds a password, and this file is stored beside the data; take it out and write secret: "
            "secretsmanager:NAME, ssm:/NAME or file:/PATH beside it, where only the password stands"
        )
    database = unquote(parts.path.lstrip("/"))
    if not parts.hostname or not parts.username or not database:
        raise ValueError(f"lacks a user, a host or a database; write {_EXAMPLE}")
    if others := sorted(asked.keys() - {"sslmode", "sslrootcert"}):
        raise ValueError(f"has {', '.join(others)[:100]}, which is not read; sslmode and sslrootcert are")
    mode = asked.get("sslmode", ["disable" if is_loopback(parts.hostname) else "verify-full"])[-1]
    tls = next((known for known in _TLS if known == mode), None)
    if tls is None:
        raise ValueError(f"has an sslmode that is not read; write one of {', '.join(_TLS)}")
    root = asked.get("sslrootcert", [""])[-1]
    return PostgresAddress(parts.hostname, port, unquote(parts.username), database, tls, root)


def is_loopback(host: str) -> bool:
    """Whether the host is this machine."""
    import ipaddress  # only where there are sources: ingest reads this file too

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
