"""Where a sender's secret is, as firn.yaml says it. Pure: firn.security.secrets goes there."""

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
