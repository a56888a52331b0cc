"""`python -m examples.views.plot [FOLDER] [--once]`: sessions that begin in each hour, drawn again after each change.

It follows the view as it would follow any table: nothing is read twice, and nothing is asked for while nothing changes.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

import firn_lake

WIDTH = 40
EVERY_SECONDS = 1.0


def bars(begins: Iterable[datetime], width: int = WIDTH) -> str:
    """A line for each hour in which a session begins."""
    hours = Counter(one.replace(minute=0, second=0, microsecond=0) for one in begins)
    most = max(hours.values(), default=1)
    lines = [
        f"{hour:%d %b %H:%M}  {'█' * max(1, round(count / most * width)):<{width}}  {count}"
        for hour, count in sorted(hours.items())
    ]
    return "\n".join(lines) or "no sessions yet"


def main(folder: str = ".firn", *, once: bool = False) -> None:
    """Draw, and go on until Ctrl-C."""
    with firn_lake.connect(folder) as lake:
        seen: int | None = None
        while True:
            sessions = lake.table("web.sessions")
            newest = sessions.snapshot()
            if newest is not None and newest.id != seen:
                rows = sessions.read(columns=["window_start"]).pylist()
                print("\033[2J\033[H" * sys.stdout.isatty() + bars(row["window_start"] for row in rows), flush=True)
                seen = newest.id
            if once:
                return
            time.sleep(EVERY_SECONDS)


if __name__ == "__main__":
    places = [one for one in sys.argv[1:] if one != "--once"]
    main(*places, once="--once" in sys.argv)
