"""Who may post and who may read, from the YAML tree: `auth` and `accept` of a stream, `query.auth`."""

from collections.abc import Mapping
from typing import get_args

from firn.config.callers import read_caller
from firn.config.model import Auth, AuthBy, StreamConfig, Way
from firn.config.problems import Section, words
from firn.config.secret_addresses import checked_place, is_same_place


def read_auth(section: Section, usual: AuthBy = "signature") -> Auth | None:
    """`auth`, None if it is not there. `usual`: what stands in for a word that is none."""
    section.allow_only(("by", "secret", "iam"))
    if section.is_missing:
        return None
    callers, named = _callers(section), "iam" in section.names
    by: AuthBy = section.choice("by", AuthBy, "way to tell senders", "iam" if named else usual)
    if not section.has("by") and not named:
        section.note("by", "is missing; write by: signature, by: api_key or by: iam")
    place = section.parsed(
        "secret", checked_place, "", "where the secret is: secretsmanager:NAME, ssm:/NAME or file:/PATH"
    )
    if by == "iam" and section.has("secret"):
        section.note("secret", "is not used by iam; leave the line out")
    elif by != "iam" and not section.has("secret"):
        section.note("secret", "is missing; write where it is, such as secret: secretsmanager:firn/shop")
    if by != "iam" and named:
        section.note("iam", f"names callers of AWS, which {by} does not ask for; leave the line out, or write by: iam")
    return Auth(by, place, callers)


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
        if stream.auth is not None and is_same_place(readers.secret, stream.auth.secret):
            section.note(
                "secret", f"is the secret of the stream {stream.name} too: one who reads could post; make another key"
            )
    return readers


def check_signing_secrets(section: Section, streams: Mapping[str, StreamConfig]) -> None:
    """Notes each stream whose signing secret is another stream's secret too. `section`: that of all streams.

    A signature is over id, time and body, not over the stream's name: under one secret a request to one stream could
    be sent to the other.
    """
    before: list[tuple[str, Auth]] = []
    for name, stream in streams.items():
        if stream.auth is None or not stream.auth.secret:
            continue
        for other, auth in before:
            if "signature" in (auth.by, stream.auth.by) and is_same_place(auth.secret, stream.auth.secret):
                section.section(name).section("auth").note(
                    "secret", f"is the secret of the stream {other} too, and a signature does not say which stream "
                    "it is for: a request to one could be sent to the other; make another secret",
                )  # fmt: skip
                break
        before.append((name, stream.auth))
