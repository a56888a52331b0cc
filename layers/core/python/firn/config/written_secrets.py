"""Secrets that stand where none may: in addresses, arguments of jobs and Spark's parameters. Pure.

Whoever may list job runs, processes or a function's environment reads those. A secret comes by reference: its place is
written (firn.config.secret_addresses), and whoever needs it goes there.
"""

import re
from typing import Final
from urllib.parse import unquote

from firn.config.secret_addresses import place_of

# user:password@host. Digits are a port up to a slash, a setting behind the address or the next address; anything else
# there is a password, also one with a slash in it.
_PASSWORD: Final = re.compile(r"://[^/@:\[\s#?]*:(?!\d*/|\d+[#?][\w.%-]+=|\d+,\s*[a-z+]+://)[^@\s]+@")
# Of these the name alone may be a token.
_USER: Final = re.compile(r"(?:https?|thrift)://[^/?#@\s,]+@")
# Also behind the options of Java and of Spark: -Dname=value, --conf=name=value. A value may hold settings of its own.
_SETTING: Final = re.compile(r"(?:^|[?#&;\s\"']|(?<![^\s\"'=])(?:-D|--(?:conf=)?))([A-Za-z_][\w.%-]*)=(?=([^&;#\s]*))")
_NAMED: Final = re.compile(
    r"passw(or)?d|passphrase|pwd|secret|token|credential|authorization|cookie|signature|connection[-_.]?string"
    r"|(access|account|private|api|shared|storage)[-_.]?key|cryption[-_.]?key$|(^|[-_.])(sas|sig)($|[-_.])",
    re.IGNORECASE,
)
# What is said of secrets, and is none: where one is, who gives it out, for how long.
_ABOUT: Final = re.compile(
    r"([-_.](enabled|endpoint|uri|url|ms|at|seconds|file|path|arn|type|provider|class)|provider|"
    r"GOOGLE_APPLICATION_CREDENTIALS)$",
    re.IGNORECASE,
)
# A secret of Secrets Manager by its ARN; EMR Serverless goes to what stands behind EMR.secret@ by itself. Source: EMR
# Serverless User Guide, "Secrets Manager for data protection".
_OF_AWS: Final = re.compile(r"EMR\.secret@[\w/+=.@:-]+|arn:[a-z-]+:secretsmanager:[\w/+=.@:-]+")
_PRIVATE_KEY: Final = "-----BEGIN "


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name (a property, a variable, a parameter of an address) holds a secret."""
    return bool(_NAMED.search(name)) and not _ABOUT.search(name)


def secret_in(text: str) -> str | None:
    """What kind of secret the text holds, for people; None if none is seen. The secret itself is never in it.

    A place of a secret (secretsmanager:…, ssm:…, file:…, EMR.secret@…, an ARN), `true` and `false` are none.
    """
    return _secret_in(text) or (_secret_in(unquote(text)) if "%" in text else None)


def _secret_in(text: str) -> str | None:
    if _PASSWORD.search(text):
        return "a password"
    if _USER.search(text):
        return "a user, which may be a token,"
    if _PRIVATE_KEY in text:
        return "a private key"
    for name, value in _SETTING.findall(text):
        name = unquote(name)
        if is_secret_name(name) and not _is_reference(value):
            return "a shared access signature" if name.lower() == "sig" else f"the secret {name}"
    return None


def _is_reference(value: str) -> bool:
    value = unquote(value).strip("\"'")
    if value.lower() in ("", "true", "false") or _OF_AWS.fullmatch(value):
        return True
    try:
        place_of(value)
    except ValueError:
        return False
    return True
