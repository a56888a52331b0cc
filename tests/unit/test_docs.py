"""Pages can be found, and what they link to is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]


def links(page: Path) -> list[str]:
    """Relative links, without those in code."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    return [to for to in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:|#", to)]


def test_every_page_is_in_the_way_in() -> None:
    listed = {to.partition("#")[0] for to in links(ROOT / "docs" / "README.md")}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} <= listed


def test_what_pages_link_to_is_there() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {to}"
        for page in PAGES
        for to in links(page)
        if not (page.parent / to.partition("#")[0]).exists()
    ]
    assert broken == []
