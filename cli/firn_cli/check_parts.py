"""What the checks of `firn doctor` that try a thing out have in common: parts one after the other, each with its time
and advice, and a name for what they make."""

import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

Report = Callable[[str], None]
"""Called with what is being done."""

Part = Callable[[], str]
"""Tries one thing out -> what was found, for people. Raises whatever is wrong."""

SELF_CHECK: Final = "firn_check"  # how names of what a check makes begin
_NAME: Final = re.compile(rf"{SELF_CHECK}_([0-9a-f]{{8}})_[0-9a-f]{{4}}")  # seconds when it began, and a random part
_ABANDONED_SECONDS: Final = 86_400  # no check runs as long


@dataclass(frozen=True)
class Check:
    """What `firn doctor` found of one thing. `ok` None: not needed here, or not to be said. `advice`: what to do, when
    it is not ok."""

    name: str
    ok: bool | None
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Trial:
    """Tries parts out. `explain`: what is wrong, and what to do, by the name of a part and its error."""

    report: Report
    explain: Callable[[str, Exception], tuple[str, str]]

    def each(self, parts: Iterable[tuple[str, Part]]) -> Iterator[Check]:
        """Each part as it was found. After the first that is wrong the others are not tried."""
        wrong = False
        for name, part in parts:
            found = Check(name, None, "not tried") if wrong else self.one(name, part)
            wrong = wrong or found.ok is False
            yield found

    def one(self, name: str, part: Part) -> Check:
        """A part as it was found, and how long it took."""
        self.report(name)
        began = time.monotonic()
        try:
            said = part()
        except Exception as error:  # noqa: BLE001 (each library has its own, and the part is to be named)
            return Check(name, False, *self.explain(name, error))
        return Check(name, True, f"{said}, {time.monotonic() - began:.1f} s")


def scratch_name() -> str:
    """A name of its own for what a check makes, by which the next one finds what this one leaves if it is killed."""
    return f"{SELF_CHECK}_{int(time.time()):08x}_{uuid.uuid4().hex[:4]}"


def is_abandoned(name: str) -> bool:
    """Whether what has this name is of a check that was killed: it began more than a day ago."""
    found = _NAME.fullmatch(name)
    return found is not None and int(found[1], 16) < time.time() - _ABANDONED_SECONDS
