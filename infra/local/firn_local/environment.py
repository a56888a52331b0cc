"""Where the parts of the repository are on this machine."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
"""The checkout that this package runs from: template.yaml, functions/, layers/ and spark_emr/ are below it."""

TEMPLATE = REPOSITORY / "template.yaml"

RUNTIME_PYTHON = REPOSITORY / ".venv-runtime" / "bin" / "python"
"""The Python of the functions with what Lambda brings, where `make setup-sam` has installed it."""
