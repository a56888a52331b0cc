"""The console's pages: the files below `assets/`, and no other, by the names that a listing gave. No path of a request
ever reaches the file system."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from firn.errors import RequestError

FOLDER: Final = Path(__file__).parent / "assets"
INDEX: Final = "index.html"
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
def files(folder: Path = FOLDER) -> Mapping[str, Path]:
    """Path below /console/ -> file."""
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.suffix in KINDS and path.is_file() and not path.is_symlink()
    }


def read(name: str, folder: Path = FOLDER) -> tuple[bytes, str]:
    """A file's bytes and type; "" is the first page. Raises RequestError 404."""
    found = files(folder).get(name or INDEX)
    if found is None:
        raise RequestError(404, "no_such_page", "the console has no such file")
    return found.read_bytes(), KINDS[found.suffix]
