"""The console's pages: the files below `assets/`, and no other, by the names that a listing gave. No path of a request
ever reaches the file system."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from firn.errors import RequestError

FOLDER: Final = Path(__file__).parent / "assets"
INDEX: Final = "index.html"
NOT_BUILT: Final = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Documentation \xc2\xb7 Firn</title></head>
<body><h1>The documentation is not built here</h1>
<p>In a checkout of Firn: <code>make docs</code> builds it, then reload this page. Without one, read the folder
<code>docs</code> of the repository: it is plain Markdown.</p>
<p><a href="../console/">Back to the console</a></p></body></html>
"""
KINDS: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""What is served, by its ending: a file of another is not."""


@cache
def files(folder: Path = FOLDER, made: float = 0.0) -> Mapping[str, Path]:  # noqa: ARG001
    """Path below the folder -> file. `made`: when it was, for a folder that may be made again."""
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.suffix in KINDS and path.is_file() and not path.is_symlink()
    }


def documentation(name: str, folder: Path | None) -> tuple[bytes, str]:
    """A file of the documentation as `make docs` built it (`infra/site`), or how to build it where nobody did. Raises
    RequestError 404."""
    try:
        made = (folder / INDEX).stat().st_mtime if folder is not None else None
    except OSError:
        made = None
    if folder is None or made is None:
        return NOT_BUILT, KINDS[".html"]
    return read(name + INDEX if name.endswith("/") else name, folder, made)


def read(name: str, folder: Path = FOLDER, made: float = 0.0) -> tuple[bytes, str]:
    """A file's bytes and type; "" is the first page. Raises RequestError 404."""
    found = files(folder, made).get(name or INDEX)
    if found is None:
        raise RequestError(404, "no_such_page", "the console has no such file")
    return found.read_bytes(), KINDS[found.suffix]
