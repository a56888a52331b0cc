"""Each seeded mistake is found by the tests that it names, and they pass without it.

`make test` makes of the quick ones the first in each package of Firn; `make mutants` and `make soak` all of them, with
Spark and Iceberg too.
"""

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.gate import made_in
from tests.mutants import (
    of_alerts,
    of_backfill,
    of_changes,
    of_driver,
    of_generations,
    of_jobs,
    of_lake,
    of_log,
    of_pipelines,
    of_shards,
    of_sinks,
    of_sources,
    of_spark,
    of_sql,
    of_triggers,
    of_views,
)
from tests.mutants.copy import NO_SETTINGS, ROOT, Copy, Mutant, Ran
from tests.soak import LONG

QUICK = (
    *of_changes.MUTANTS, *of_log.MUTANTS, *of_jobs.MUTANTS, *of_lake.MUTANTS, *of_generations.MUTANTS,
    *of_sinks.MUTANTS, *of_sources.MUTANTS, *of_pipelines.MUTANTS, *of_sql.MUTANTS, *of_triggers.MUTANTS,
    *of_backfill.MUTANTS, *of_alerts.MUTANTS, *of_views.MUTANTS, *of_shards.MUTANTS,
)  # fmt: skip
WITH_SPARK = of_spark.MUTANTS
WITH_DRIVER = (*of_driver.MUTANTS, *of_pipelines.WITH_SPARK)
WITH_LAKE = of_lake.MUTANTS
SETTINGS = {WITH_SPARK: MappingProxyType({"FIRN_DRIVER_EVENTS": "0"})}
EVERY = LONG or os.environ.get("FIRN_MUTANTS") == "all"
# What no longer finds mistakes is mostly a whole file of tests, or what the files of tests of a package have in common:
# one mistake a package (four folders down) shows the latter.
IN_GATE = frozenset({tuple(mutant.file.split("/")[:4]): mutant for mutant in reversed(QUICK)}.values())
# A mistake that no program could hold for a moment proves nothing about the tests.
NO_PROGRAM = re.compile(r"(ImportError|ModuleNotFoundError|NameError|SyntaxError|IndentationError|UnboundLocalError)\b")
A_WHILE = 1_800  # seconds, for all tests without any mistake in one run

not_in_gate = pytest.mark.skipif(not EVERY, reason="another mistake in its package is made: make mutants")

Baseline = Callable[[tuple[Mutant, ...]], Ran]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    made = Copy(tmp_path_factory.mktemp("mutants"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def passing(request: pytest.FixtureRequest, copy: Copy) -> Baseline:
    """What the tests of the chosen mutants say without any mistake: one run for the quick ones, one for Spark's. In CI
    one test of each file, which shows that the copy has what they need: all of them are run there anyway."""
    items: list[Any] = made_in(request.path, request.session)
    chosen = {item.callspec.params["mutant"] for item in items if "passing" in item.fixturenames}
    if not EVERY:
        chosen &= IN_GATE

    @cache
    def run(kind: tuple[Mutant, ...]) -> Ran:
        names = sorted({test for mutant in kind if mutant in chosen for test in mutant.tests}, reverse=True)
        told = SETTINGS.get(kind, NO_SETTINGS)
        if not EVERY:
            names = list({name.partition("::")[0]: name for name in names}.values())
            told = {**told, "HYPOTHESIS_PROFILE": "copy"}
        return copy.run(names, A_WHILE, told)

    return run


def killed(copy: Copy, mutant: Mutant, kind: tuple[Mutant, ...], passing: Ran) -> None:
    for test in mutant.tests:
        outcome = passing.tests.get(test, "not run" if EVERY else "passed where CI runs it")
        assert outcome.startswith("passed"), f"{test} without any mistake: {outcome}\n{passing.text}"
    with copy.with_mistake(mutant):
        ran = copy.run(mutant.tests, settings=SETTINGS.get(kind, NO_SETTINGS))
    if ran.code is None:
        assert mutant.hangs, f"it hangs, and the list does not say so:\n{ran.text}"
        return
    assert mutant.file in ran.files, f"the tests did not load {mutant.file}"
    for test in mutant.tests:
        outcome = ran.tests.get(test, "not run")
        assert outcome.startswith("failed: "), f"it survives {test} ({outcome}):\n{ran.text}"
        assert not NO_PROGRAM.search(outcome), f"it is not a mistake but no program: {outcome}"
    assert ran.code == 1, ran.text


@pytest.mark.parametrize(
    "mutant",
    [one if one in IN_GATE else pytest.param(one, marks=not_in_gate) for one in QUICK],
    ids=lambda mutant: mutant.name,
)
def test_it_is_killed(copy: Copy, passing: Baseline, mutant: Mutant) -> None:
    killed(copy, mutant, QUICK, passing(QUICK))


@pytest.mark.skipif(not EVERY, reason="PyIceberg for each mutant: make mutants")
@pytest.mark.parametrize("mutant", WITH_LAKE, ids=lambda mutant: mutant.name)
def test_it_is_killed_with_pyiceberg(copy: Copy, passing: Baseline, mutant: Mutant) -> None:
    killed(copy, mutant, WITH_LAKE, passing(WITH_LAKE))


@pytest.mark.spark
@pytest.mark.skipif(not EVERY, reason="a JVM for each mutant: make mutants")
@pytest.mark.parametrize("mutant", WITH_SPARK, ids=lambda mutant: mutant.name)
def test_it_is_killed_with_spark_and_iceberg(copy: Copy, passing: Baseline, mutant: Mutant) -> None:
    killed(copy, mutant, WITH_SPARK, passing(WITH_SPARK))


@pytest.mark.spark
@pytest.mark.skipif(not EVERY, reason="a JVM for each mutant: make mutants")
@pytest.mark.parametrize("mutant", WITH_DRIVER, ids=lambda mutant: mutant.name)
def test_it_is_killed_on_the_drivers_path(copy: Copy, passing: Baseline, mutant: Mutant) -> None:
    killed(copy, mutant, WITH_DRIVER, passing(WITH_DRIVER))


@pytest.mark.parametrize("mutant", [*QUICK, *WITH_SPARK, *WITH_DRIVER], ids=lambda mutant: mutant.name)
def test_its_text_is_in_the_code_once(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1, "the list has to follow the code"
    assert mutant.old != mutant.new
    for test in mutant.tests:
        file, _, function = test.partition("::")
        assert re.search(rf"^def {function.partition('[')[0]}\(", Path(ROOT / file).read_text(), re.MULTILINE), test


def test_each_name_is_used_once() -> None:
    names = [mutant.name for mutant in (*QUICK, *WITH_SPARK, *WITH_DRIVER)]
    assert len(names) == len(set(names)) >= 20
