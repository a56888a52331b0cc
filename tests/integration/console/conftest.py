"""The console in a real browser: Debian's Chromium, driven by Playwright (.venv-browser, `make setup-tests`)."""

import shutil
import site
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.console.example_answers import everything
from tests.integration.console.stand_in import StandIn

ROOT = Path(__file__).parents[3]
SHOTS = ROOT / "build/console"  # where screenshots go


@contextmanager
def started_browser() -> Iterator[Any]:
    """Chromium; skips a test, with the reason, where it or Playwright is not there."""
    for packages in (ROOT / ".venv-browser/lib").glob("python3*/site-packages"):
        site.addsitedir(str(packages))
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: make setup-tests")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    SHOTS.mkdir(parents=True, exist_ok=True)
    with playwright.sync_playwright() as running:
        # Without a GPU to draw on, and one process for all tabs: each test has one of its own.
        drawing = ["--disable-gpu", "--renderer-process-limit=1"]
        started = running.chromium.launch(executable_path=chromium, args=["--no-sandbox", *drawing])
        yield started
        started.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, once for all tests."""
    with started_browser() as started:
        yield started


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    stand_in = StandIn()
    yield stand_in
    stand_in.stop()


@pytest.fixture
def stand_in(server: StandIn) -> StandIn:
    """Answers everything with the examples, until a test chooses otherwise."""
    server.answers = everything()
    server.asked.clear()
    server.unchanged = 0
    return server


class Console:
    """One tab. `faults`: what the page reported: errors of scripts, and what the security policy forbade."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url, self.faults = page, url, []
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", self._said)
        page.add_init_script(
            "addEventListener('securitypolicyviolation', e => console.error('policy: ' + e.effectiveDirective))"
        )

    def _said(self, message: Any) -> None:
        # The browser tells of each answer from 400 on; what the page makes of these is tested.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.faults.append(message.text)

    def open(self, address: str = "", title: str | None = None) -> Any:
        """Go to `#/address` and wait for the page's title."""
        self.page.goto(f"{self.url}/console/#/{address}")
        self.page.locator("main h1").first.wait_for()
        if title is not None:
            self.page.get_by_role("heading", level=1, name=title).wait_for()
        return self.page

    def axe(self, *rules: str) -> list[str]:
        """What axe-core finds that is serious or critical; only by these rules, if some are given."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate((Path(__file__).parent / "axe.min.js").read_text())
        only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
        found = self.page.evaluate("options => axe.run(document, {resultTypes: ['violations'], ...options})", only)
        return [
            f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes']][:3]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]

    def overflow(self) -> int:
        """CSS pixels by which the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@pytest.fixture
def console(browser: Any, stand_in: StandIn) -> Iterator[Console]:
    page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
    one = Console(page, stand_in.url)
    yield one
    page.close()
    assert one.faults == []
