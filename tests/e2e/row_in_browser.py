"""`python row_in_browser.py ADDRESS TEXT`: opens a query of the console in Chromium, runs it, and waits for a cell with
that text. Exit code 1 where it does not come, or where the page tells of an error. Runs on .venv-browser's Python."""

import shutil
import sys

from playwright.sync_api import sync_playwright


def main(address: str, text: str) -> int:
    faults: list[str] = []
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(address)
        page.get_by_role("button", name="Run").click()
        page.locator(".sheet tbody td").filter(has_text=text).wait_for(timeout=20_000)
        told = page.locator(".sheet tbody tr").first.inner_text()
        browser.close()
    print(f"the browser shows: {' '.join(told.split())}", *faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
