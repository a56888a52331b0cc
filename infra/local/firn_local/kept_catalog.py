"""Which catalog has the tables of what a stack has staged: the same at each start, or changes that are committed there
would be missing from the tables of another one, and nobody would commit them again."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from firn.config.catalogs import identity
from firn_local.config_process import reach_apart

_FILE: Final = "catalogs.json"


class OtherCatalog(Exception):
    """What is staged was committed to another catalog. The text says what to do."""


def keep(folder: Path | None, staging: str, catalog: str, asked: Mapping[str, str] | None = None) -> None:
    """Note in `folder` that what is at `staging` is committed to `catalog`, at the first start that says so; neither a
    password nor a property of the address is kept, but which catalog of its server it is. None: nothing is noted.

    asked  the functions' environment, if the catalog has to answer before it is noted. One that was noted may be away:
           what is sent meanwhile is staged

    Raises OtherCatalog, NotReached.
    """
    if folder is None:
        if asked is not None:
            reach_apart(asked)
        return
    file, now = folder / _FILE, identity(catalog, os.environ)
    known = _read(file)
    before = known.get(staging) or _of_older(folder, staging)
    if not before:
        if asked is not None:
            reach_apart(asked)
    elif before != now:
        raise OtherCatalog(
            f"what is staged at {staging} is committed to the catalog at {before}, and not to {now}, since the first "
            f"start: start it with that one, or with another --dir. If it is the same catalog at another address, or "
            f"none of it is committed yet, change that in {file}"
        )
    new = file.with_suffix(".new")
    new.write_text(json.dumps({**known, staging: now}, indent=2) + "\n", "utf-8")
    os.replace(new, file)


def _read(file: Path) -> dict[str, str]:
    try:
        told = json.loads(file.read_text("utf-8"))
        return {str(staging): str(catalog) for staging, catalog in told.items()}
    except FileNotFoundError:
        return {}
    except (AttributeError, ValueError) as error:
        raise OtherCatalog(
            f"{file} can't be read ({error}): it says to which catalog the changes of this folder are committed. "
            "Remove it, and start with the same --catalog as before (or without, if there was none)"
        ) from error


def _of_older(folder: Path, staging: str) -> str:
    """Of a folder of before this was noted: the file that a stack without --catalog commits to."""
    file = folder / "catalog.db"
    return f"sqlite:///{file}" if staging == f"file://{folder}/staging" and file.exists() else ""
