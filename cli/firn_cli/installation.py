"""How this Firn was installed, and whether another project's package stands in its way."""

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from firn.extras import DISTRIBUTION


@dataclass(frozen=True)
class Installation:
    """`version` None: the distribution is not installed (Firn runs from a path). `how` for people; `foreign`: other
    distributions that bring a package `firn`, with their versions."""

    version: str | None
    how: str
    foreign: tuple[str, ...] = ()


def look(found: Callable[[], Iterable[Distribution]] = distributions) -> Installation:
    """What the metadata of this environment say."""
    own: Distribution | None = None
    others: dict[str, str] = {}
    for one in found():
        name = (one.name or "").lower().replace("_", "-").replace(".", "-")
        if name == DISTRIBUTION:
            own = own or one
        elif name == "firn" or "firn" in (one.read_text("top_level.txt") or "").split():
            others[one.name] = one.version
    if own is None:
        return Installation(None, f"not installed: it runs from {_package_folder()}", _named(others))
    return Installation(own.version, _how(own), _named(others))


def _how(own: Distribution) -> str:
    installer = (own.read_text("INSTALLER") or "").strip() or "an unknown installer"
    try:
        origin = json.loads(own.read_text("direct_url.json") or "{}")
    except ValueError:
        origin = {}
    path = url2pathname(urlparse(str(origin.get("url", ""))).path)
    if origin.get("dir_info", {}).get("editable"):
        return f"the checkout {path} (editable, by {installer})"
    where = f"into {sys.prefix} by {installer}"
    if "vcs_info" in origin:
        return f"{where}, from {origin['url']} at {str(origin['vcs_info'].get('commit_id', ''))[:12]}"
    return f"{where}, from {path}" if path else f"{where}, from a package index"


def _named(others: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{name} {version}" for name, version in sorted(others.items()))


def _package_folder() -> Path:
    return Path(__file__).resolve().parent
