"""Columns that firn.yaml declares as variants: from a stream to a table of format 3, in both homes of the engine."""

import pytest

pytestmark = pytest.mark.spark
