"""The site's sources: the pages of docs/ as they are, with what they link to outside of it, and generated pages.

A link from a page to a file outside docs/ (README.md, an example, template.yaml) leads to a page that shows that file;
one to a folder to a list of what is in it. Diagrams become SVG. Nothing in docs/ is changed.
"""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from infra.site.diagram import BadDiagram, svg

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
_OUTSIDE: Final = "repository"
_CODE: Final = re.compile(r"(^ *```.*?^ *```[^\n]*$|`[^`\n]*`)", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_ELSEWHERE: Final = re.compile(r"[a-z][a-z0-9+.-]*:|#", re.IGNORECASE)
_DIAGRAM: Final = re.compile(r"^```diagram ([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FENCE: Final = re.compile(r"^( *```\w+)[ \t]+[^\n]*$", re.MULTILINE)
_LEXERS: Final = {".yaml": "yaml", ".yml": "yaml", ".py": "python", ".toml": "toml", ".json": "json", ".sh": "sh"}


class BadPage(Exception):
    """A page that can't be built; the text names it and says what is wrong."""


def assemble(into: Path, generated: Mapping[str, str | bytes]) -> None:
    """Put the sources together in the folder `into`, which is made anew. `generated`: further files, path -> content.

    Raises BadPage.
    """
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(DOCS, into, ignore=shutil.ignore_patterns("*.md"))
    wanted: set[Path] = set()
    for page in sorted(DOCS.rglob("*.md")):
        place = into / page.relative_to(DOCS)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_page(page, wanted))
    shown: set[Path] = set()
    while left := wanted - shown:  # what is shown may link to further files
        for file in sorted(left):
            shown.add(file)
            place = into / _shown_at(file)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_page(file, wanted) if file.suffix == ".md" else _listing(file))
    for name, content in generated.items():
        place = into / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            raise BadPage(f"{name} is generated and stands in docs/ too; take it out there")
        place.write_bytes(content if isinstance(content, bytes) else content.encode())


def _page(page: Path, wanted: set[Path]) -> str:
    text = _DIAGRAM.sub(lambda found: _drawn(page, found[1], found[2]), page.read_text())
    # What runs a block in the tests ("sh run") means nothing to readers.
    text = _FENCE.sub(lambda found: found[1], text)
    return _outside_code(text, lambda part: _LINK.sub(lambda found: f"]{_link(page, found[1], wanted)}", part))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    return "".join(part if at % 2 else change(part) for at, part in enumerate(_CODE.split(text)))


def _drawn(page: Path, title: str, text: str) -> str:
    try:
        return svg(text, title)
    except BadDiagram as error:
        raise BadPage(f"{page.relative_to(ROOT)}: the diagram {title!r}: {error}") from error


def _link(page: Path, to: str, wanted: set[Path]) -> str:
    """The link's end, `(…)`, by where its page and its aim stand in the site."""
    if _ELSEWHERE.match(to):
        return f"({to})"
    path, mark, anchor = to.partition("#")
    aim = (page.parent / path).resolve()
    if aim.is_dir() and (aim / "README.md").exists():
        aim = aim / "README.md"
    if not aim.exists() or not aim.is_relative_to(ROOT):
        return f"({to})"  # the build says which links lead nowhere
    inside = aim.is_relative_to(DOCS)
    if not inside:
        wanted.add(aim)
    place = aim.relative_to(DOCS) if inside else _shown_at(aim)
    own = page.relative_to(DOCS) if page.is_relative_to(DOCS) else _shown_at(page)
    return f"({os.path.relpath(place, own.parent)}{mark}{anchor if place.suffix == '.md' else ''})"


def _shown_at(file: Path) -> Path:
    """Where the site has a file that lies outside docs/."""
    path = file.relative_to(ROOT)
    if file.is_dir():
        return Path(_OUTSIDE) / path / "files.md"
    return Path(_OUTSIDE) / (path if path.suffix == ".md" else path.with_name(f"{path.name}.md"))


def _listing(file: Path) -> str:
    path = file.relative_to(ROOT)
    if file.is_dir():
        names = sorted(
            f"{one.name}/" if one.is_dir() else one.name for one in file.iterdir() if one.name[0] not in "._"
        )
        return f"# {path}/\n\n" + "".join(f"- `{name}`\n" for name in names)
    return f"# {path}\n\n````{_LEXERS.get(file.suffix, 'text')}\n{file.read_text()}\n````\n"
