"""The commit job: session, read, fold, merge, append, evolve."""

from importlib.util import find_spec

from firn.extras import missing

if find_spec("pyspark") is None:
    raise missing(ModuleNotFoundError("No module named 'pyspark'", name="pyspark")) or AssertionError
