"""Where the parts of Firn are on this machine, in a checkout or beside the installed packages; what they see of its
environment."""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

_PACKAGES = Path(__file__).resolve().parents[1]
_BUNDLE = _PACKAGES / "firn_bundle"

INSTALLED = _BUNDLE.is_dir()
"""Whether this is an installed package and no checkout. Its `firn_bundle` holds of a checkout what the embedded stack
and the demo need, at the same places: template.yaml, functions/, the jobs' entry points, the demo's events
(pyproject.toml)."""

REPOSITORY = _BUNDLE if INSTALLED else _PACKAGES.parents[1]
"""The checkout that this package runs from, or what the package brings of it."""

TEMPLATE = REPOSITORY / "template.yaml"
JARS_LOCK = REPOSITORY / "infra" / "setup" / "jars.lock"

RUNTIME_PYTHON = REPOSITORY / ".venv-runtime" / "bin" / "python"
"""The Python of the functions with what Lambda brings, where `make setup-sam` has installed it."""


def plain_environment() -> dict[str, str]:
    """This process's environment without what is meant for another deployment."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FIRN_"))}


def cloud_variables() -> dict[str, str]:
    """What this process's environment says of Azure and Google: the functions and jobs of a stack that stores there
    get it, and no file does."""
    named = ("FIRN_AZURE_KEY", "FIRN_AZURE_SAS", "FIRN_AZURE_CLIENT_SECRET", "FIRN_GOOGLE_CREDENTIALS",
             "STORAGE_EMULATOR_HOST")  # fmt: skip
    return {
        name: value for name, value in os.environ.items() if name.startswith(("AZURE_", "GOOGLE_")) or name in named
    }


def cache_folder(environ: Mapping[str, str], *, installed: bool = INSTALLED) -> Path:
    """Where what Firn fetches and makes for Spark is kept: the checkout's .cache; of an installed Firn the user's
    (XDG Base Directory Specification: $XDG_CACHE_HOME if it is absolute, else ~/.cache)."""
    if not installed:
        return REPOSITORY / ".cache"
    given = environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / "firn"


CACHE = cache_folder(os.environ)
JARS = CACHE / "jars"
CLOUD_JARS = JARS / "clouds"
"""What no other jobs have on their class path: fetched where a warehouse needs it."""

CLOUD_LOCKS = {
    "abfss": REPOSITORY / "infra" / "setup" / "azure_jars.lock",
    "gs": REPOSITORY / "infra" / "setup" / "google_jars.lock",
}
"""The scheme of a warehouse -> the jars that its jobs need beside JARS_LOCK."""

# It fits one environment's Spark. An installed Firn shares its cache with other environments of the user.
_OWN = CACHE / "classes" / hashlib.sha256(sys.prefix.encode()).hexdigest()[:12] if INSTALLED else CACHE
ARCHIVE = _OWN / "spark.jsa"
"""Java's archive of the classes that Spark loads first (firn_local.spark_classes)."""


def source_path(*folders: str) -> str:
    """PYTHONPATH for a process that is to find Firn's packages as this one does: these folders of the checkout. What is
    installed is found by the interpreter itself."""
    return "" if INSTALLED else os.pathsep.join(str(REPOSITORY / folder) for folder in folders)
