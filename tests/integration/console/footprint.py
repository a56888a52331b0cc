"""What the console adds to `firn up` in memory, on a stack of 1,000 tables with every page opened.

    python -m tests.integration.console.footprint [--tables 1000]

Opens no browser: asks what each page asks of the console's function, for each table, stream and letter, and looks at
the resident memory of the stack's processes before and after (Linux alone tells). What pages ask of tables' rows is
answered by the query function, with the console or without it, and told beside. Exit code 1 if the console adds more
than 30 MB.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import yaml

from firn.log import table_health
from firn.log.layout import instant
from firn.log.store import open_store
from firn.log.table_health import Health
from firn_console import pages

MOST_MB: Final = 30.0
_STARTS_SECONDS: Final = 120.0


def measured(tables: int) -> dict[str, float]:
    """MB: what the console adds, of that its own process, and the stack without it."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        configured = {f"public.t{n:04d}": {"to": f"shop.table_{n:04d}", "key": ["id"]} for n in range(tables)}
        streams = {"shop": {"envelope": "debezium", "tables": configured}}
        (root / "firn.yaml").write_text(yaml.safe_dump({"streams": streams}))
        firn, up = (
            str(Path(sys.executable).parent / "firn"),
            "up --port 0 --no-schedules --dir stack --config firn.yaml",
        )
        log = (root / "up.log").open("wb")
        stack = subprocess.Popen([firn, *up.split()], stdout=log, stderr=log, cwd=root)
        try:
            url = stack_url(root / "stack" / "stack.json", stack)
            return _opened(url, root / "stack", stack.pid, tables)
        except SystemExit:
            print((root / "up.log").read_text(), file=sys.stderr)
            raise
        finally:
            stack.send_signal(signal.SIGINT)
            stack.wait(60)
            log.close()


def _opened(url: str, stack: Path, process: int, tables: int) -> dict[str, float]:
    _broken_letters(url)
    now = instant(datetime.now(UTC))
    names = [f"shop.table_{n:04d}" for n in range(tables)]
    store = open_store(json.loads((stack / "stack.json").read_text())["staging"])
    table_health.write(store, "shop", [Health(one, now, files=9, bytes=10**9, rows=10**6) for one in names])
    time.sleep(2)  # what starts by itself has started
    before = resident(process)
    for path in _paths(url, names):
        _get(f"{url}{path}")
    after = resident(process)
    without, console = (_sums(before)[0], _sums(after)[1])
    added = sum(after.values()) - without
    for name in sorted(after.keys() | before.keys()):
        print(f"  {name:24} {before.get(name, 0):7.1f} MB -> {after.get(name, 0):7.1f} MB")
    return {"added": added, "console": console, "without": without}


def _sums(found: dict[str, float]) -> tuple[float, float]:
    """MB of all but the console's function, and of that."""
    console = sum(size for name, size in found.items() if name.startswith("Console"))
    return sum(found.values()) - console, console


def _paths(url: str, tables: list[str]) -> list[str]:
    """All that pages ask of the console's function, and their files."""
    letters = _get(f"{url}/v1/console/dead-letters?limit=50")["letters"]
    batches = _get(f"{url}/v1/console/streams/shop/batches")["batches"]
    each: dict[str, list[str]] = {
        "streams/*": ["streams/shop"],
        "streams/*/epochs": ["streams/shop/epochs"],
        "streams/*/batches": ["streams/shop/batches"],
        "streams/*/batches/*": [f"streams/shop/batches/{quote(one['id'], safe='')}" for one in batches],
        "streams/*/receipts": ["streams/shop/receipts?key=none"],
        "dead-letters/*/*/*": [
            f"dead-letters/{'/'.join(quote(str(one[part]), safe='') for part in ('stream', 'object', 'row'))}"
            for one in letters
        ],
        "jobs/*": [],
        "tables": [f"tables?limit=100&like={like}" for like in ("", "table_07")],
        "tables/*": [f"tables/{one}" for one in tables],
        "actions/*": [],
    }
    asked = [path for known in pages.GETS for path in each.get(known, [known])]
    files = [f"/console/{one}" for one in ("", "firn.css", "app/main.js", "vendor/editor.js", "vendor/uplot.js")]
    return [*files, *(f"/v1/console/{one}" for one in asked)]


def _broken_letters(url: str) -> None:
    for n in range(5):
        body = "\n".join(json.dumps({"no": "event", "of": [n, row]}) for row in range(100)).encode()
        asked = urllib.request.Request(f"{url}/v1/streams/shop", body, {"Content-Type": "application/x-ndjson"})
        with urllib.request.urlopen(asked):
            pass


def _get(address: str) -> Any:
    try:
        with urllib.request.urlopen(address) as answer:
            body, kind = answer.read(), answer.headers.get_content_type()
    except urllib.error.HTTPError as error:
        if error.code == 404:  # as of a receipt that nobody has
            return None
        raise SystemExit(f"{address}: {error.code} {error.read().decode()}") from error
    return json.loads(body) if kind == "application/json" else None


def stack_url(description: Path, stack: "subprocess.Popen[bytes]") -> str:
    """The address of a stack that is starting, once it says so there. Raises SystemExit if it ends instead."""
    until = time.monotonic() + _STARTS_SECONDS
    while time.monotonic() < until and stack.poll() is None:
        if description.exists():
            return str(json.loads(description.read_text())["url"])
        time.sleep(0.1)
    raise SystemExit("the stack did not start")


def resident(process: int) -> dict[str, float]:
    """Name -> MB of private and its part of shared memory (PSS), of a process and all below it. A function's is its
    folder's."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            told = (entry / "stat").read_text().rpartition(")")[2].split()
            parents.setdefault(int(told[1]), []).append(int(entry.name))
        except (OSError, IndexError):
            continue
    found: dict[str, float] = {}
    waiting = [process]
    while waiting:
        one = waiting.pop()
        waiting.extend(parents.get(one, []))
        try:
            rolled = Path(f"/proc/{one}/smaps_rollup").read_text()
            name = f"{_name(one)} {one}"
        except OSError:
            continue
        found[name] = next(int(line.split()[1]) for line in rolled.splitlines() if line.startswith("Pss:")) / 1_000
    return found


def _name(process: int) -> str:
    command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    if b"firn_local.worker" in command or b"firn_local.zygote" in command:
        return Path(os.readlink(f"/proc/{process}/cwd")).name.replace("_", " ").title().replace(" ", "")
    return next((part.decode() for part in command[1:] if part and not part.startswith(b"-")), command[0].decode())[
        -20:
    ]


def main() -> int:
    """Measures, prints, judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=1_000)
    found = measured(parser.parse_args().tables)
    print(
        f"the console adds {found['added']:.1f} MB (its process {found['console']:.1f} MB) to {found['without']:.0f} MB"
    )
    return 1 if found["added"] > MOST_MB else 0


if __name__ == "__main__":
    sys.exit(main())
