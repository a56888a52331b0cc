"""Where a sender's secret is, as firn.yaml says it. Pure: firn.security.secrets goes there."""

import posixpath
import re
from dataclasses import dataclass
from typing import Final

_STORES: Final = ("secretsmanager", "ssm", "file")
_AWS_NAME: Final = re.compile(r"[A-Za-z0-9/_+=.@:-]{1,512}")


@dataclass(frozen=True)
class Place:
    """`store`: secretsmanager, ssm or file; `name`: what it is called there."""

    store: str
    name: str


def place_of(text: str) -> Place:
    """`secretsmanager:NAME` (or its ARN), `ssm:/NAME` or `file:/PATH`.

    Raises ValueError, which never repeats the text: it may be a secret.
    """
    store, colon, name = text.strip().partition(":")
    if not colon or store not in _STORES:
        raise ValueError(
            "is no place of a secret, and no secret belongs here; write secretsmanager:NAME, ssm:/NAME or file:/PATH"
        )
    if store == "file" and not name.startswith("/"):
        raise ValueError("is no absolute path; write file:/PATH")
    if store != "file" and not _AWS_NAME.fullmatch(name):
        raise ValueError(f"holds no name that {store} knows")
    return Place(store, name)


def is_same_place(one: str, other: str) -> bool:
    """Whether two texts that `place_of` reads name one secret, by name or by ARN. "" names none."""
    return bool(one) and bool(other) and _plain(place_of(one)) == _plain(place_of(other))


def _plain(place: Place) -> Place:
    """A place by the one name that all of its names have."""
    match place.store:
        case "secretsmanager":  # an ARN ends with a hyphen and six characters of its own
            _, arn, name = place.name.partition(":secret:")
            return Place(place.store, re.sub(r"-[A-Za-z0-9]{6}$", "", name) if arn else place.name)
        case "ssm":  # NAME:VERSION and NAME:LABEL are one parameter's
            name = place.name.partition(":parameter/")[2] or place.name
            return Place(place.store, name.partition(":")[0].lstrip("/"))
        case _:
            return Place(place.store, posixpath.normpath(place.name))
