"""Secrets that stand where none may: in addresses, arguments of jobs and Spark's parameters. Pure.

Whoever may list job runs, processes or a function's environment reads those. A secret comes by reference: its place is
written (firn.config.secret_addresses), and whoever needs it goes there.
"""

import re
from typing import Final
from urllib.parse import unquote

from firn.config.secret_addresses import place_of

# user:password@host. Digits are a port up to a slash, a setting behind the address or the next address; anything else
# there is a password, also one with a slash in it, if an @ follows before the next blank.
_PASSWORD: Final = re.compile(r":(?=//[^/@:\[\s#?]*:()(?!\d*/|\d+[#?][\w.%-]+=|\d+,\s*[a-z+]+://)[^@\s])")
_PASSWORD_END: Final = re.compile(r"[@\s]|\Z")
# Of these the name alone may be a token.
_USER: Final = re.compile(r"(?:https?|thrift)://[^/?#@\s,]+@")
# Also behind the options of Java and of Spark: -Dname=value, --conf=name=value. A value may hold settings of its own.
_SETTING: Final = re.compile(r"(?:^|[?#&;\s\"']|(?<![^\s\"'=])(?:-D|--(?:conf=)?))([A-Za-z_][\w.%-]*)=")
_SETTING_END: Final = re.compile(r"[&;#\s]|\Z")
# No place of a secret is longer: the longest is a file's path.
_LONGEST_PLACE: Final = 4096
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

    A place of a secret (secretsmanager:…, ssm:…, file:…, EMR.secret@…, an ARN), `true` and `false` are none. It takes
    time by the text's length, whatever is in it.
    """
    return _secret_in(text) or (_secret_in(unquote(text)) if "%" in text else None)


def _secret_in(text: str) -> str | None:
    if _holds_password(text):
        return "a password"
    if _USER.search(text):
        return "a user, which may be a token,"
    if _PRIVATE_KEY in text:
        return "a private key"
    end = -1
    for found in _SETTING.finditer(text):
        name, start = unquote(found[1]), found.end()
        if not is_secret_name(name):
            continue
        if end < start:  # many values may have one end
            end = _end(_SETTING_END, text, start)
        if end - start > _LONGEST_PLACE or not _is_reference(text[start:end]):
            return "a shared access signature" if name.lower() == "sig" else f"the secret {name}"
    return None


def _holds_password(text: str) -> bool:
    end = -1
    for found in _PASSWORD.finditer(text):
        if end < found.end(1):  # many may have one end
            end = _end(_PASSWORD_END, text, found.end(1))
        if text.startswith("@", end):
            return True
    return False


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.search(text, start)
    return len(text) if found is None else found.start()


def _is_reference(value: str) -> bool:
    value = unquote(value).strip("\"'")
    if value.lower() in ("", "true", "false") or _OF_AWS.fullmatch(value):
        return True
    try:
        place_of(value)
    except ValueError:
        return False
    return True
