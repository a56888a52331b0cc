"""The command line of `make docs`.

    python -m infra.site            put the sources together, build the site, check it: build/site/html
    python -m infra.site schema     write docs/reference/firn.schema.json anew

Exit codes: 0 done; 1 something is wrong with the pages.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from firn.errors import FirnError
from firn_cli.config_schema import schema
from infra.site import (
    built_pages,
    command_line_page,
    error_page,
    http_api,
    metrics_page,
    parameters_page,
    settings_page,
)
from infra.site.source_pages import ROOT, BadPage, assemble

BUILD = ROOT / "build" / "site"
SCHEMA = ROOT / "docs" / "reference" / "firn.schema.json"
MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"


def schema_text() -> str:
    """docs/reference/firn.schema.json as it should be."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def generated() -> dict[str, str | bytes]:
    """The pages that the code tells: path -> content."""
    return {
        "reference/command-line.md": command_line_page.page(),
        "reference/metrics.md": metrics_page.page(),
        "reference/settings.md": settings_page.page(),
        "reference/http-api.md": http_api.page(),
        "reference/openapi.json": json.dumps(http_api.document(), indent=2) + "\n",
        "reference/errors.md": error_page.page(),
        "reference/parameters.md": parameters_page.parameters_page(),
        "reference/limits.md": parameters_page.limits_page(),
        "assets/firn.css": (ROOT / "infra/site/firn.css").read_bytes(),
    }


def build() -> int:
    """Build and check. -> the exit code."""
    try:
        assemble(BUILD / "source", generated())
    except (BadPage, http_api.NoOperation, FirnError) as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1
    config = ROOT / "infra/site/mkdocs.yml"
    command = [str(MKDOCS), "build", "--strict", "--clean", "-f", str(config)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if not line.startswith("INFO")]
        print("\n".join(told), "docs: the site could not be built; the lines above say why", sep="\n", file=sys.stderr)
        return 1
    html = BUILD / "html"
    built_pages.move_inline_scripts(html)
    wrong = list(built_pages.problems(html))
    for line in wrong:
        print(f"docs: {line}", file=sys.stderr)
    if not wrong:
        pages = len(list(html.rglob("*.html")))
        print(f"docs: {pages} pages in {_size(html) / 1e6:.1f} MB: {html.relative_to(ROOT)}/index.html")
    return 1 if wrong else 0


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main(arguments: Sequence[str]) -> int:
    """Parse, do it, and say it. -> the exit code."""
    if not arguments:
        return build()
    if list(arguments) == ["schema"]:
        SCHEMA.parent.mkdir(parents=True, exist_ok=True)
        SCHEMA.write_text(schema_text())
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
