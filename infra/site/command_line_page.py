"""The reference of the command line, from the tree of commands that `firn` itself runs."""

import re
from collections.abc import Iterator
from typing import Any, Final

import typer

from firn_cli.main import app

_EXTRA: Final = re.compile(r"\s*\[((?:default|required|env|x)[^\]]*)\]\s*$")
BAR: Final = "\\|"  # within a table
_HEAD: Final = """# The command line

Generated from the commands themselves; `firn COMMAND --help` says the same. `firn --target NAME COMMAND` talks to a
deployment instead of the embedded stack ([targets](../configuration.md#targets)).

Exit codes: **0** all right, **1** it failed and stderr says why, **2** the command line is wrong.

"""


def page() -> str:
    """The page's Markdown: a heading for each command, its arguments and options in a table."""
    root = typer.main.get_command(app)
    return _HEAD + "\n".join(_lines(root, "firn"))


def commands() -> list[str]:
    """Every command that does something, such as `firn dead list`, in the page's order."""
    return [path for path, command in _walk(typer.main.get_command(app), "firn") if not _children(command)]


def _walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, below in _children(command).items():
        yield from _walk(below, f"{path} {name}")


def _children(command: Any) -> dict[str, Any]:
    found = getattr(command, "commands", {})
    return {name: one for name, one in found.items() if not one.hidden}


def _lines(root: Any, name: str) -> Iterator[str]:
    for path, command in _walk(root, name):
        context = typer.Context(command)
        yield f"{'##' if path.count(' ') <= 1 else '###'} `{path}`\n"
        yield _text(command.help or "") + "\n"
        if not _children(command):
            pieces = (re.sub("[{}]", "", piece) for piece in command.collect_usage_pieces(context))
            yield f"```text\n{path} {' '.join(pieces)}\n```\n"
        records = [one.get_help_record(context) for one in command.params if not getattr(one, "hidden", False)]
        if rows := [_row(*record) for record in records if record is not None]:
            yield "| | | |\n|---|---|---|"
            yield "\n".join(rows) + "\n"


def _row(name: str, text: str) -> str:
    """One argument or option: `text` ends with what Typer says of it, such as [default: .firn]."""
    found = _EXTRA.search(text)
    said = "" if found is None else found[1].removeprefix("default: ")
    text = text if found is None else text[: found.start()]
    return f"| `{name.replace('|', BAR)}` | {_text(text).replace('|', '&#124;')} | {said} |"


def _text(text: str) -> str:
    """A help text as Markdown: what looks like HTML or a placeholder stays as it is written."""
    return "\n".join(line.strip() for line in text.replace("<", "&lt;").replace("{", "&#123;").splitlines()).strip()
