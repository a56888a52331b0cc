"""Callers of AWS who may post or read: ARNs in firn.yaml, compared with the ARN by which AWS names who signed."""

import re
from typing import Final

_ARN: Final = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):(?P<service>iam|sts)::(?P<account>\d{12}):"
    r"(?P<kind>root|user/|role/|assumed-role/|federated-user/)(?P<name>[\w+=,.@/*-]*)",
    re.ASCII,
)
_SERVICE: Final = {"root": "iam", "user/": "iam", "role/": "iam", "assumed-role/": "sts", "federated-user/": "sts"}


def read_caller(text: str) -> str:
    """An ARN of a user, a role, a role's session or the account's root, in which `*` stands for any characters but
    `/`. Raises ValueError that says what to write.

    The account is always written out, and so is a session's role: whoever assumes a role chooses the session's name.
    """
    found = _ARN.fullmatch(text)
    named = found is not None and (not found["name"] if found["kind"] == "root" else all(found["name"].split("/")))
    if found is None or not named or _SERVICE[found["kind"]] != found["service"]:
        raise ValueError(
            f"{text[:100]!r} is not an ARN of a caller; write such as arn:aws:iam::123456789012:role/orders"
        )
    role, _, session = found["name"].partition("/")
    if found["kind"] == "assumed-role/" and (not role.strip("*") or not session or "/" in session):
        raise ValueError(f"{text[:100]!r} is not a session; write …:role/ROLE for all of a role's")
    return text


def is_one_of(caller: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns (`read_caller`) names the caller. A role's pattern names all of its sessions."""
    return any(re.fullmatch(_as_regex(pattern), caller, re.ASCII) for pattern in patterns)


def caller_pattern(pattern: str) -> re.Pattern[str]:
    """One of the patterns, as `is_one_of` compares it."""
    return re.compile(_as_regex(pattern), re.ASCII)


def exact_caller(pattern: str) -> str | None:
    """The one of a caller's `caller_keys` that a pattern without `*` is; None for one with."""
    if "*" in pattern:
        return None
    head, role, path = pattern.partition(":role/")
    return f"{head.replace(':iam:', ':sts:')}:assumed-role/{path.rpartition('/')[2]}/" if role else pattern


def caller_keys(caller: str) -> tuple[str, ...]:
    """The caller, and of a role's session the role."""
    role, slash, session = caller.rpartition("/")
    of_role = ":assumed-role/" in role and slash and session
    return (caller, f"{role}/") if of_role else (caller,)


def _as_regex(pattern: str) -> str:
    head, role, path = pattern.partition(":role/")
    if role:
        # A session's ARN leaves out the path of its role; names of roles are unique in an account.
        pattern = f"{head.replace(':iam:', ':sts:')}:assumed-role/{path.rpartition('/')[2]}/*"
    return r"[\w+=,.@-]*".join(re.escape(part) for part in re.split(r"\*+", pattern))
