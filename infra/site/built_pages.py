"""Looks at what was built: each link leads somewhere, and no page asks for anything from another host.

Scripts that stand in a page move into files of their own, so that a server may forbid inline scripts
(Content-Security-Policy: script-src 'self').
"""

import hashlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_INLINE: Final = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_MOVED: Final = Path("assets") / "inline"
_LOADED: Final = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "use": "href"}
_NOT_LOADED: Final = {"canonical", "next", "prev", "edit"}  # rel of links that a browser does not fetch
_CSS_URL: Final = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")\s]+)")


def move_inline_scripts(built: Path) -> int:
    """Make a file of each script that stands in a page. -> how many files there are."""
    made: set[str] = set()
    for page in built.rglob("*.html"):
        text = page.read_text()
        up = "../" * (len(page.relative_to(built).parts) - 1)

        def moved(found: re.Match[str], up: str = up) -> str:
            script = found[1]
            # The theme looks for its files from the page: that path is right in the page alone.
            if 'new URL("' in script:
                return f'<script src="{up}{_write(built, script, made)}"></script>'
            return f'<script src="{up}{_write(built, script, made)}"></script>'

        page.write_text(_INLINE.sub(moved, text))
    return len(made)


def _write(built: Path, script: str, made: set[str]) -> str:
    name = f"{hashlib.sha256(script.encode()).hexdigest()[:16]}.js"
    place = built / _MOVED / name
    if name not in made:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(script)
        made.add(name)
    return (_MOVED / name).as_posix()


class _Page(HTMLParser):
    """The anchors of a page, where it links to, and what a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One tag."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _LOADED and _LOADED[tag] in given and given.get("rel") not in _NOT_LOADED:
            self.loaded.append(given[_LOADED[tag]])


def problems(built: Path) -> Iterator[str]:
    """What is wrong with the built site, a line each: links to nothing, and what would be asked of other hosts."""
    pages = {page: _Page(page.read_text()) for page in sorted(built.rglob("*.html"))}
    for page, found in pages.items():
        name = page.relative_to(built)
        yield from (f"{name}: loads {one}" for one in found.loaded if urlsplit(one).netloc)
        for link in (*found.links, *found.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            aim = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if aim.is_dir():
                aim = aim / "index.html"
            if not aim.exists():
                if name.name != "404.html":  # its links are from the site's root
                    yield f"{name}: {link} is not there"
            elif parts.fragment and aim in pages and unquote(parts.fragment) not in pages[aim].anchors:
                yield f"{name}: {link} has no such heading"
    for style in sorted(built.rglob("*.css")):
        yield from (f"{style.relative_to(built)}: loads {one}" for one in _CSS_URL.findall(style.read_text()))
