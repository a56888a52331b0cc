"""What `firn doctor` found of one thing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """`ok` None: not needed here, or not to be said. `advice`: what to do, when it is not ok."""

    name: str
    ok: bool | None
    found: str
    advice: str = ""
