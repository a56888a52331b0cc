"""Columns that firn.yaml declares as variants: from a stream to a table of format 3, in both homes of the engine."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from firn.log import dead_letters
from firn_lake.lake import Lake as Reader
from tests.integration.spark.homes import HOMES
from tests.integration.spark.spark_lake import Lake

pytestmark = pytest.mark.spark
