"""Where a sender's secret is, as firn.yaml says it. Pure: firn.auth.secrets goes there."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_STORES: Final = ("secretsmanager", "ssm", "file")
_SUFFIX: Final = re.compile(r"-[A-Za-z0-9]{6}$")
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
            "is not a place of a secret, and no secret belongs here; write secretsmanager:NAME, ssm:/NAME or file:/PATH"
        )
    if store == "file" and not name.startswith("/"):
        raise ValueError("is not an absolute path; write file:/PATH")
    if store != "file" and not _AWS_NAME.fullmatch(name):
        raise ValueError(f"holds no name that {store} knows")
    return Place(store, name)


def checked_place(text: str) -> str:
    """The text of a place, without white space around it. Raises as `place_of`."""
    place_of(text)
    return text.strip()


def is_same_place(one: str, other: str) -> bool:
    """Whether two texts that `place_of` reads may name one secret, by name or by ARN. "" names none."""
    if not (one and other):
        return False
    (store, owner, name), (store_2, owner_2, name_2) = _plain(place_of(one)), _plain(place_of(other))
    if store != store_2 or (owner and owner_2 and owner != owner_2):
        return False
    # An ARN of Secrets Manager may end with a hyphen and six characters that are not its name's, or leave them out.
    return (
        name == name_2
        or (bool(owner) and _SUFFIX.sub("", name) == name_2)
        or (bool(owner_2) and _SUFFIX.sub("", name_2) == name)
    )


class SecretPlaces:
    """Whose each secret is, as `is_same_place` compares them, without comparing each with each."""

    def __init__(self) -> None:
        self._exact: dict[tuple[str, str], dict[str, str]] = {}  # store, name -> owner in an ARN -> whose it is
        self._short: dict[tuple[str, str], dict[str, str]] = {}  # the same, of ARNs without their last six characters

    def add(self, place: str, whose: str) -> None:
        """A place that `place_of` reads, or "", which is none. It stays that of who had it first."""
        if not place:
            return
        store, owner, name = _plain(place_of(place))
        if owner and (short := _SUFFIX.sub("", name)) != name:
            self._short.setdefault((store, short), {}).setdefault(owner, whose)
        self._exact.setdefault((store, name), {}).setdefault(owner, whose)

    def holder(self, place: str) -> str | None:
        """Whose a secret is that may be the one at this place; None: nobody's."""
        if not place:
            return None
        store, owner, name = _plain(place_of(place))
        found = _of(self._exact, (store, name), owner) or _of(self._short, (store, name), owner)
        if owner and (short := _SUFFIX.sub("", name)) != name:
            found = found or _of(self._exact, (store, short), owner)
        return found


def _of(known: Mapping[tuple[str, str], Mapping[str, str]], name: tuple[str, str], owner: str) -> str | None:
    owners = known.get(name, {})
    return next(iter(owners.values()), None) if not owner else owners.get(owner) or owners.get("")


def _plain(place: Place) -> tuple[str, str, str]:
    """Of a place: its store, what comes before the name in an ARN ("" where only a name is written), the name."""
    match place.store:
        case "secretsmanager":
            owner, arn, name = place.name.partition(":secret:")
            return (place.store, owner, name) if arn else (place.store, "", place.name)
        case "ssm":  # NAME:VERSION and NAME:LABEL are one parameter's
            owner, arn, name = place.name.partition(":parameter/")
            return place.store, owner if arn else "", (name if arn else place.name).partition(":")[0].lstrip("/")
        case _:
            return place.store, "", posixpath.normpath(place.name)
