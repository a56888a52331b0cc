"""Firn's docstrings as Markdown: "name  what it is" is an entry of a list, its further lines are indented, and `>>>`
begins an example."""

import re
from typing import Final

_ENTRY: Final = re.compile(r"^([a-z_][\w, ]*?)  +(\S.*)$")


def as_markdown(text: str) -> str:
    """The docstring with its entries as a list, and its examples as code."""
    lines: list[str] = []
    in_code = in_list = False
    for line in text.splitlines():
        is_code = line.startswith((">>>", "... "))
        if is_code != in_code:
            lines += ["", "```python"] if is_code else ["```", ""]
            in_code = is_code
        found = None if is_code else _ENTRY.match(line)
        if found is not None:
            lines += [] if in_list else [""]
            names = ", ".join(f"`{name.strip()}`" for name in found[1].split(","))
            lines.append(f"- {names}: {found[2].strip()}")
        elif in_list and line.startswith(" "):
            lines.append(f"  {line.strip()}")
        else:
            lines += [""] if in_list and line else []
            lines.append(line.removeprefix(">>> ") if is_code else line)
        in_list = found is not None or (in_list and line.startswith(" "))
    return "\n".join([*lines, "```"] if in_code else lines)
