"""Who may do what in the console: `console` in firn.yaml, as types and from the YAML tree."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from firn.config.auth_reader import read_auth
from firn.config.model import Auth, StreamConfig
from firn.config.problems import Section
from firn.config.secret_addresses import is_same_place


@dataclass(frozen=True)
class ConsoleAccess:
    """Each of None where the file does not say it.

    look    who may look at all pages; None: who may read tables (`query.auth`)
    events  who may see the bytes of dead letters besides
    act     who may do everything; None: nobody, the console is read-only
    """

    look: Auth | None = None
    events: Auth | None = None
    act: Auth | None = None


def read_console(section: Section, readers: Auth | None, streams: Mapping[str, StreamConfig]) -> ConsoleAccess:
    """`console`. One key has one right: a secret that stands for two of them is noted."""
    section.allow_only(("auth", "events", "actions"))
    for part in ("events", "actions"):
        section.section(part).allow_only(("auth",))
    places = {
        "look": section.section("auth"),
        "events": section.section("events").section("auth"),
        "act": section.section("actions").section("auth"),
    }
    found = {right: read_auth(place, "api_key") for right, place in places.items()}
    for right, auth in found.items():
        if auth is not None and auth.by == "signature":
            places[right].note(
                "by", "is for posting: a browser makes no signature over a body; write by: api_key or by: iam"
            )
        for whose, other in _others(right, found, readers, streams):
            if auth is not None and other is not None and is_same_place(auth.secret, other.secret):
                places[right].note("secret", f"is the secret of {whose} too, whose holders could do both; make another")
                break
    return ConsoleAccess(**found)


def _others(
    right: str, found: Mapping[str, Auth | None], readers: Auth | None, streams: Mapping[str, StreamConfig]
) -> Iterator[tuple[str, Auth | None]]:
    """The holders of other rights, by their place in firn.yaml. Who may look may well be who may query."""
    if right != "look":
        yield "query.auth", readers
        yield "console.auth", found["look"]
    if right == "act":
        yield "console.events.auth", found["events"]
    for stream in streams.values():
        yield from stream.auths()
