"""Has mkdocstrings show Firn's docstrings as they are meant. Loaded by mkdocs, in its own environment."""

from typing import Any

import griffe

from infra.site.docstring_text import as_markdown


class DocstringLists(griffe.Extension):  # type: ignore[misc]
    """Changes the docstring of each object before it is shown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """One object, read."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
