"""Who may post and who may read, from the YAML tree: `auth` and `accept` of a stream, `query.auth`."""

from collections.abc import Mapping
from typing import get_args

from firn.config.callers import read_caller
from firn.config.model import Auth, AuthBy, StreamConfig, Way
from firn.config.problems import Section, words
from firn.config.secret_addresses import SecretPlaces, checked_place, is_same_place


def read_auth(section: Section, usual: AuthBy = "signature", *, queue: bool = False) -> Auth | None:
    """`auth`, None if it is not there. `usual`: what stands in for a word that is none. `queue`: whether it may say who
    sends by queue: of a stream and its writers."""
    section.allow_only(("by", "secret", "iam", *(("queue",) if queue else ())))
    if section.is_missing:
        return None
    callers, named, listed = _callers(section), "iam" in section.names, queue and "queue" in section.names
    ways = tuple(way for way in get_args(AuthBy) if queue or way != "queue")
    by: AuthBy = section.choice("by", ways, "way to tell senders", "iam" if named else "queue" if listed else usual)
    if not section.has("by") and not named and not listed:
        section.note("by", "is missing; write by: signature, by: api_key or by: iam")
    place = section.parsed(
        "secret", checked_place, "", "where the secret is: secretsmanager:NAME, ssm:/NAME or file:/PATH"
    )
    if by in ("iam", "queue") and section.has("secret"):
        if by == "queue" and not section.has("by"):
            section.note("by", "is missing; write by: signature or by: api_key, which have a secret")
        else:
            section.note("secret", f"is not used by {by}; leave the line out")
    elif by not in ("iam", "queue") and not section.has("secret"):
        section.note("secret", "is missing; write where it is, such as secret: secretsmanager:firn/shop")
    if by != "iam" and named:
        section.note("iam", f"names callers of AWS, which {by} does not ask for; leave the line out, or write by: iam")
    if by == "queue" and not section.has("queue"):
        section.note("queue", "is missing; write the ids of who may send: queue: [AROA…]")
    return Auth(by, place, callers, _senders(section) if listed else ())


def _senders(section: Section) -> tuple[str, ...]:
    """`queue`: the ids of who may send by queue."""
    from firn.config.writers import read_sender

    found = []
    for item in section.texts("queue", "queue: [AROAEXAMPLEEXAMPLE000], the ids of roles and users"):
        try:
            found.append(read_sender(item.text))
        except ValueError as error:
            section.problems.add(item.line, section.below("queue"), str(error))
    if not found:
        found.append("")  # a problem is noted: nobody, not everybody
    return tuple(dict.fromkeys(found))


def check_ways(section: Section, auth: Auth | None, accept: tuple[Way, ...] | None) -> None:
    """Notes an `auth` that says nothing, and an `accept` that shuts out whom it names. `section`: the stream's."""
    if auth is None and "auth" in section.names and not section.problems.published:
        section.note("auth", "is empty, and would let anybody post; write who may, or leave the line out")
    if auth is None or accept is None:
        return
    if auth.queue and "sqs" not in accept:
        section.note(
            "accept", "takes no queue messages, and auth.queue lists who sends them; write sqs too, or no queue"
        )
    if auth.by == "queue" and "http" in accept:
        section.note("accept", "takes requests, and by: queue lets nobody post; write accept: [sqs], or leave it out")


def _callers(section: Section) -> tuple[str, ...]:
    found = []
    for item in section.texts("iam", "iam: ['arn:aws:iam::123456789012:role/orders']"):
        try:
            found.append(read_caller(item.text))
        except ValueError as error:
            if section.problems.published:
                found.append(item.text)  # taken before it was an error: it names nobody, and none would be everybody
            else:
                section.problems.add(item.line, section.below("iam"), str(error))
    return tuple(dict.fromkeys(found))


def read_accept(section: Section) -> tuple[Way, ...] | None:
    """`accept`, None if it is not there."""
    if "accept" not in section.names:
        return None
    ways: tuple[Way, ...] = get_args(Way)
    found = [item.text for item in section.texts("accept", "accept: [http, sqs], or one of them")]
    for other in dict.fromkeys(one for one in found if one not in ways):
        section.note("accept", f"{other[:60]!r} is not a way in; write {words(ways)}, or both as a list")
    return tuple(way for way in ways if way in found)


def read_readers(query: Section, streams: Mapping[str, StreamConfig]) -> Auth | None:
    """`query.auth`: who may read, None if it is not there."""
    query.allow_only(("auth", "readers"))
    section = query.section("auth")
    readers = read_auth(section, "api_key")
    if readers is None:
        return None
    if readers.by == "signature":
        section.note(
            "by", "is for posting: a signature is over a body, and reads have none; write by: api_key or by: iam"
        )
    for stream in () if query.problems.published else streams.values():
        for whose, auth in stream.auths():
            if is_same_place(readers.secret, auth.secret):
                section.note("secret", f"is the secret of {whose} too: one who reads could post; make another key")
    return readers


def check_signing_secrets(section: Section, streams: Mapping[str, StreamConfig]) -> None:
    """Notes each stream whose signing secret is another stream's secret too. `section`: that of all streams.

    A signature is over id, time and body, not over the stream's name: under one secret a request to one stream could
    be sent to the other.
    """
    signing, all_of = SecretPlaces(), SecretPlaces()
    for name, stream in streams.items():
        for whose, auth in stream.auths():
            # One that signs may share with none, one that has a key with none that signs.
            other = (all_of if auth.by == "signature" else signing).holder(auth.secret) if auth.secret else None
            if other is not None:
                place = section.section(name)
                if auth is not stream.auth:
                    place = place.section("writers").section(whose.split(" ")[2])
                place.section("auth").note(
                    "secret", f"is the secret of {other} too, and a signature does not say which stream "
                    "it is for: a request to one could be sent to the other; make another secret",
                )  # fmt: skip
        for whose, auth in stream.auths():  # within a stream each secret is one sender's: check_writers
            if auth.secret:
                all_of.add(auth.secret, whose)
                if auth.by == "signature":
                    signing.add(auth.secret, whose)
