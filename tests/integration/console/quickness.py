"""How quick the console's pages are: by Lighthouse, and by how long interactions take on the longest lists.

    python -m tests.integration.console.quickness [--url http://127.0.0.1:8181] [--runs 5]

Lighthouse runs on a stack's console, if --url names one, else on example answers; interactions on examples always.
Needs Chromium, Playwright (`make setup-tests`) and what `make console-lighthouse` installs. Exit code 1 if a
category is below 95, an interaction above 100 ms, or 100,000 snapshots above 3 s.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.console.conftest import ROOT, Console, started_browser
from tests.integration.console.example_answers import everything
from tests.integration.console.stand_in import StandIn
from tests.integration.console.test_scale import many_letters, many_points, many_tables

LIGHTHOUSE = ROOT / "infra/console/lighthouse/node_modules/.bin/lighthouse"
CATEGORIES = ("performance", "accessibility", "best-practices")
PAGES = (
    "",
    "streams/shop",
    "tables",
    "tables/shop.orders",
    "tables/shop.orders?view=time",
    "dead-letters",
    "quarantine",
    "alerts",
    "jobs",
    "query",
)
LEAST, MOST_MS, MOST_SECONDS = 95, 100, 3.0
# Durations as the browser tells them: from the input to the next frame that shows what came of it (Event Timing API).
RECORD = """
window.took = [];
const keep = list => list.getEntries().forEach(one => one.interactionId && window.took.push(one.duration));
new PerformanceObserver(keep).observe({type: 'event', durationThreshold: 16, buffered: true});
"""


def scores(url: str, runs: int) -> dict[str, dict[str, float]]:
    """Page -> category -> the median of its scores, 0 to 100."""
    found: dict[str, dict[str, float]] = {}
    for page in PAGES:
        each = [_lighthouse(f"{url}/console/#/{page}") for _ in range(runs)]
        found[page or "overview"] = {name: statistics.median(one[name] for one in each) for name in CATEGORIES}
        print(f"  {page or 'overview'}: {found[page or 'overview']}", flush=True)
    return found


def _lighthouse(address: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [str(LIGHTHOUSE), address, "--preset=desktop", "--quiet", "--output=json", f"--output-path={report}"]
        only = [f"--only-categories={','.join(CATEGORIES)}", "--chrome-flags=--headless=new --no-sandbox"]
        chromium = {"CHROME_PATH": shutil.which("chromium") or ""}
        subprocess.run([*command, *only], env={**os.environ, **chromium}, check=True, stdout=subprocess.DEVNULL)
        categories = json.loads(report.read_text())["categories"]
    return {name: round(categories[name]["score"] * 100) for name in CATEGORIES}


def find_among_tables(page: Any) -> None:
    """1,000 tables: a name is typed, letter by letter."""
    page.get_by_label("Find").click()
    page.keyboard.type("table_0712", delay=60)
    page.get_by_role("link", name="big.table_0712").wait_for()


def walk_letters(page: Any) -> None:
    """50,000 dead letters, all of them loaded: arrow keys, clicks, and jumps."""
    sheet = page.get_by_role("region", name="Dead letters, 50,000 rows")
    sheet.evaluate("one => one.scrollTop = one.scrollHeight")
    page.get_by_text("letter 49999", exact=True).wait_for(timeout=120_000)
    sheet.focus()
    for key in ("ArrowDown", "PageDown", "ArrowDown", "PageUp", "Home", "End"):
        page.keyboard.press(key)
        page.wait_for_timeout(150)
    page.locator(".sheet tbody tr").nth(12).click()
    page.wait_for_timeout(300)


def travel(page: Any) -> None:
    """100,000 snapshots: the slider, by keys."""
    page.get_by_role("slider", name="Moment").focus()
    for key in ("Home", "ArrowRight", "PageUp", "End", "ArrowLeft", "PageDown"):
        page.keyboard.press(key)
        page.wait_for_timeout(150)


INTERACTIONS: dict[str, tuple[str, str, Any, Callable[[Any], None]]] = {
    "1,000 tables": ("tables", "console/tables", many_tables, find_among_tables),
    "50,000 letters": ("dead-letters", "console/dead-letters", many_letters, walk_letters),
    "100,000 snapshots": ("tables/shop.orders?view=time", "tables/[^/]+/timeline", many_points, travel),
}


def interactions(browser: Any, stand_in: StandIn) -> dict[str, dict[str, float]]:
    """What -> the longest interaction in ms, how many there were, and the seconds until the page was there."""
    found = {}
    for name, (address, path, answer, act) in INTERACTIONS.items():
        stand_in.answers = {**everything(), path: answer()}
        console = Console(browser.new_page(viewport={"width": 1350, "height": 940}), stand_in.url)
        console.page.add_init_script(RECORD)
        page = console.open(address)
        page.get_by_text(name).first.wait_for()
        seconds = page.evaluate("performance.now()") / 1000
        act(page)
        took = page.evaluate("window.took")
        found[name] = {"longest_ms": max(took, default=0), "interactions": len(took), "page_seconds": round(seconds, 2)}
        print(f"  {name}: {found[name]}", flush=True)
        page.close()
    return found


def main() -> int:
    """Measures, prints, judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a stack's address; else example answers")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    stand_in = StandIn()
    try:
        print("interactions:")
        with started_browser() as browser:
            measured = interactions(browser, stand_in)
        print(f"Lighthouse, medians of {given.runs}:")
        stand_in.answers = everything()
        scored = scores(given.url or stand_in.url, given.runs)
    finally:
        stand_in.stop()
    slow = [name for name, one in measured.items() if one["longest_ms"] > MOST_MS or one["page_seconds"] > MOST_SECONDS]
    low = [page for page, one in scored.items() if min(one.values()) < LEAST]
    print(f"too slow: {', '.join(slow) or 'none'}; below {LEAST}: {', '.join(low) or 'none'}")
    return 1 if slow or low else 0


if __name__ == "__main__":
    sys.exit(main())
