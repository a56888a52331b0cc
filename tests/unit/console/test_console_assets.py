"""The console's files: small, ours or known byte for byte, and without what a strict policy forbids."""

import hashlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ASSETS = ROOT / "layers/console/python/firn_console/assets"
MANIFEST = json.loads((ROOT / "infra/console/manifest.json").read_text())
OURS = sorted(ASSETS.glob("app/**/*.js"))
FIRST_LOAD, ALL = 300_000, 1_000_000  # bytes, not compressed


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def imported(file: Path) -> set[Path]:
    """The modules that a module needs before it runs, itself included: not those it loads later, by import()."""
    found, waiting = set(), [file]
    while waiting:
        module = waiting.pop()
        if module in found:
            continue
        found.add(module)
        names = re.findall(r'^import .*?from "([^"]+)";$', module.read_text(), re.MULTILINE)
        waiting += [(module.parent / name).resolve() for name in names]
    return found


def test_the_first_load_is_at_most_300_kb() -> None:
    first = imported(ASSETS / "app/main.js") | imported(ASSETS / "app/pages/overview.js")
    first |= {ASSETS / name for name in ("index.html", "firn.css", "icon.svg")}
    assert sum(file.stat().st_size for file in first) <= FIRST_LOAD
    assert not {"editor.js", "uplot.js"} & {file.name for file in first}
    assert sum(file.stat().st_size for file in ASSETS.rglob("*") if file.is_file()) <= ALL


def test_what_others_made_is_what_the_lock_builds() -> None:
    vendor = ASSETS / "vendor"
    assert {file.name for file in vendor.iterdir()} == set(MANIFEST["files"])
    assert {name: sha256(vendor / name) for name in MANIFEST["files"]} == {
        name: about["sha256"] for name, about in MANIFEST["files"].items()
    }
    axe = MANIFEST["tests"]["axe.min.js"]
    assert sha256(ROOT / "tests/integration/console/axe.min.js") == axe["sha256"]
    lock = json.loads((ROOT / "infra/console/package-lock.json").read_text())["packages"]
    for name, about in [*MANIFEST["packages"].items(), ("axe-core", axe)]:
        assert lock[f"node_modules/{name}"]["version"] == about["version"]
        assert lock[f"node_modules/{name}"]["integrity"].startswith("sha512-")


def test_every_licence_is_one_that_may_be_shipped_and_is_there() -> None:
    texts = (ASSETS / "vendor/LICENSES.txt").read_text()
    for name, about in MANIFEST["packages"].items():
        assert about["license"] in ("MIT", "Apache-2.0", "BSD-3-Clause", "ISC")
        assert f"{name} {about['version']} ({about['license']})" in texts


@pytest.mark.parametrize("file", OURS, ids=lambda file: str(file.relative_to(ASSETS)))
def test_a_module_builds_no_page_from_text_and_stays_short(file: Path) -> None:
    text = file.read_text()
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|javascript:"
    assert not re.search(forbidden, text)
    assert not re.search(r"https?://(?!\S*\$)", text), "no other site is named"
    assert text.count("\n") <= 400


def test_no_two_modules_have_one_name() -> None:
    names = [file.name for file in OURS]
    assert len(names) == len(set(names))


def test_every_module_that_is_preloaded_is_there_and_needed_first() -> None:
    page = (ASSETS / "index.html").read_text()
    preloaded = {(ASSETS / name).resolve() for name in re.findall(r'rel="modulepreload" href="([^"]+)"', page)}
    assert preloaded <= imported(ASSETS / "app/main.js") | imported(ASSETS / "app/pages/overview.js")
    assert not re.search(r"<script(?! type=\"module\" src=)|<style|\son\w+=|\sstyle=", page)
