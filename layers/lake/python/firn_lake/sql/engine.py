"""The wheels of DuckDB and PyArrow, which are too large for a function to have them unpacked beside all else.

Lambda takes 250 MB unzipped, layers included, and both unpacked are nearly as much. The query layer holds the wheels as
they come from the registry, and a new environment unpacks what is needed of them into /tmp, once
(docs/adr/0027-queries-over-http.md).
"""

import fnmatch
import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = "firn_wheels"
LEFT_OUT = (
    "pyarrow/include/*",
    "pyarrow/includes/*",
    "pyarrow/src/*",
    "pyarrow/tests/*",
    "pyarrow/*flight*",
    "pyarrow/*.p[xy][dxi]",
    "duckdb/experimental/*",
)


def unpack(path: Sequence[str] | None = None, below: Path | None = None) -> Path | None:
    """Unpack the wheels of the folder `firn_wheels` on `path` (None: sys.path), and make them importable.

    below  where their folder is made; None: the system's folder for temporary files

    -> where they are; None where there is no such folder, as on a laptop, where they are installed. Nothing is unpacked
    twice: what is complete has its final name, which says which wheels they are. Raises PermissionError for a folder of
    that name that another user made.
    """
    searched = sys.path if path is None else path
    wheels = [wheel for entry in searched for wheel in sorted(Path(entry, FOLDER).glob("*.whl"))]
    if not wheels:
        return None
    which = hashlib.sha256("\n".join(wheel.name for wheel in wheels).encode()).hexdigest()[:12]
    into = (below or Path(tempfile.gettempdir())) / f"firn_engine_{which}"
    if not into.is_dir():
        new = Path(tempfile.mkdtemp(dir=into.parent))
        with ThreadPoolExecutor(len(wheels)) as workers:
            list(workers.map(lambda wheel: _unpack(wheel, new), wheels))
        try:
            new.rename(into)
        except OSError:  # another process was first
            shutil.rmtree(new)
    if into.stat().st_uid != os.getuid():
        raise PermissionError(f"{into} belongs to another user: remove it, or set TMPDIR to a folder of your own")
    if str(into) not in sys.path:
        sys.path.append(str(into))
    return into


def _unpack(wheel: Path, into: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = [name for name in opened.namelist() if not any(fnmatch.fnmatch(name, left) for left in LEFT_OUT)]
        opened.extractall(into, names)
