"""Every block of commands in the newer pages says how it is run, and what it names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [page for part in ("tutorial", "how-to", "explanation") for page in sorted((ROOT / "docs" / part).glob("*.md"))]
FENCE = re.compile(r"^ *```(sh|python|sql)[ \t]*([^\n]*)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_every_block_says_how_it_is_run(page: Path) -> None:
    text = page.read_text()
    for language, how in FENCE.findall(text):
        tested = re.fullmatch(r"tested=(\S+)", how)
        assert how in ("run", "untried") or tested, f"{page.name}: a block of {language} says nothing of how it is run"
        assert how != "run" or language != "sql"
        assert tested is None or (ROOT / tested[1]).is_file(), f"{page.name}: {how}"
        assert how != "untried" or "untried" in re.sub("^ *```.*$", "", text, flags=re.MULTILINE).lower()


def test_there_are_pages_for_each_part() -> None:
    assert len(PAGES) > 25
