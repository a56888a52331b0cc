"""Runs pytest in forks of a process that has the libraries loaded: to load them takes longer than most mutants' tests.

Each line of standard input is {folder, path, environment, output, arguments}. The answer is two lines: the fork's
process id (it leads a session of its own), and its exit code once it ended. Nothing of Firn is loaded before the fork.
"""

import gc
import importlib
import json
import os
import sys
import traceback
from typing import Any, Final

from _pytest.config import default_plugins

LIBRARIES: Final = (
    "pytest", "hypothesis", "hypothesis.strategies", "msgspec", "pyarrow", "pyarrow.compute", "pyarrow.ipc",
    "pyarrow.parquet", "obstore.store", "arro3.core", "arro3.io", "yaml", "duckdb", "pyiceberg.catalog.sql",
    "pyiceberg.table", "pyspark.sql", "sqlglot", "boto3", "typer", "_hypothesis_pytestplugin", "pytest_cov.plugin",
    "xdist.looponfail", "xdist.plugin", "xdist.remote", "xdist.scheduler", "xdist.workermanage",
    *(f"_pytest.{plugin}" for plugin in default_plugins),
)  # fmt: skip


def run(told: dict[str, Any]) -> int:
    """In the fork: as `python -m pytest` in that folder, with that environment."""
    os.setsid()
    output = os.open(told["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["environment"])
    sys.dont_write_bytecode = bool(told["environment"].get("PYTHONDONTWRITEBYTECODE"))
    sys.path[:0] = [told["folder"], *told["path"]]
    sys.argv = ["pytest", *told["arguments"]]
    import pytest

    # pytest would rather load its plugins itself.
    return int(pytest.main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *told["arguments"]]))


def main() -> None:
    """Serves until standard input ends."""
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.freeze()  # pytest collects ten times when it ends: of the libraries nothing is to be found
    for line in sys.stdin:
        fork = os.fork()
        if fork == 0:
            code = 3  # pytest's own for an internal error
            try:
                code = run(json.loads(line))
            except BaseException:  # noqa: BLE001 (told, and the fork ends)
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(fork, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
