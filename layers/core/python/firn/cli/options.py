"""The options that many commands share."""

from pathlib import Path
from typing import Annotated

import typer

Dir = Annotated[Path, typer.Option("--dir", help="The stack's folder.", show_default=True)]
Url = Annotated[str | None, typer.Option("--url", help="The stack's HTTP address, instead of the one in --dir.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

DEFAULT_DIR = Path(".firn")
