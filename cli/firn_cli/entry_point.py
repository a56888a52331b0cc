"""The entry point of `firn`: what an installation lacks is told in one line, before anything else is imported."""

import sys
from importlib.metadata import PackageNotFoundError, version


def run() -> int:
    """Run the command line -> its exit code."""
    try:
        from firn_cli.main import main
    except ImportError as error:
        said = _explained(error)
        if said is None:
            raise
        print(f"firn: {said}", file=sys.stderr)
        return 2
    return main()


def _explained(error: ImportError) -> str | None:
    """What is wrong with the installation; None if that does not explain the error."""
    try:
        other = version("firn")
    except PackageNotFoundError:
        other = None
    if other is not None and (error.name or "").partition(".")[0] == "firn":
        return (
            f"another project's distribution `firn` ({other}) has taken the folder of the package `firn`. Only one of "
            "them fits into an environment: pip uninstall firn, then pip install --force-reinstall 'firn-cdc[all]'"
        )
    try:
        from firn.extras import missing
    except ImportError:
        return None
    found = missing(error)
    return None if found is None else str(found)
