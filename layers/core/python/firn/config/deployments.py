"""The section `targets` of `firn.yaml`: which deployments `firn --target NAME` can talk to."""

import re
from typing import Final
from urllib.parse import urlsplit

from firn.config.model import TargetConfig
from firn.config.problems import Section, shown

_KEYS: Final = ("stack", "region", "profile", "endpoint")
# https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_CreateStack.html
_STACK: Final = re.compile(r"[a-zA-Z][-a-zA-Z0-9]{0,127}")
_REGION: Final = re.compile(r"[a-z]{2,}(-[a-z]+)+-[0-9]+")
_PROFILE: Final = re.compile(r"[^\s\[\]]{1,128}")


def read_targets(section: Section) -> dict[str, TargetConfig]:
    """Name -> deployment. A target that says nothing of itself is the stack firn-NAME."""
    found = {}
    for name in section.names:
        mine = section.section(name)
        mine.allow_only(_KEYS)
        found[name] = TargetConfig(
            mine.parsed("stack", _stack, f"firn-{name}", f"the CloudFormation stack, such as firn-{name}"),
            mine.parsed("region", _region, None, "a region, such as eu-central-1"),
            mine.parsed("profile", _profile, None, "a profile of your AWS configuration"),
            mine.parsed("endpoint", _endpoint, None, "an address, such as http://127.0.0.1:4566"),
        )
    return found


def _stack(text: str) -> str:
    return _fits(_STACK, text, "is not a stack's name (letters, digits and -, a letter first)")


def _region(text: str) -> str:
    return _fits(_REGION, text, "is not a region")


def _profile(text: str) -> str:
    return _fits(_PROFILE, text, "is not a profile")


def _endpoint(text: str) -> str:
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{shown(text)} is not an http:// or https:// address")
    return text.strip().rstrip("/")


def _fits(pattern: re.Pattern[str], text: str, why: str) -> str:
    if not pattern.fullmatch(text.strip()):
        raise ValueError(f"{shown(text)} {why}")
    return text.strip()
