"""Where the parts of the repository are on this machine, and what of its environment they may see."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
"""The checkout that this package runs from: template.yaml, functions/, layers/ and spark_emr/ are below it."""

TEMPLATE = REPOSITORY / "template.yaml"

RUNTIME_PYTHON = REPOSITORY / ".venv-runtime" / "bin" / "python"
"""The Python of the functions with what Lambda brings, where `make setup-sam` has installed it."""


def plain_environment() -> dict[str, str]:
    """This process's environment without what is meant for another deployment."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FIRN_"))}
