"""How the gate's four processes of pytest share out the tests' files (`-n 4 --dist loadscope`).

A process makes the tests of a file when the file's turn has come, and only there: to import all files and to make all
tests in each of the four took most of a minute of both cores.
"""

import gc
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants, constants_from_module
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_ROOT = Path(__file__).resolve().parents[1]
_CODE = ("cli", "functions", "infra", "layers", "spark_emr")
_WORTH_TELLING = 0.05  # seconds

# They start stacks, whose functions and jobs are processes of their own, out of one package that they share: they run
# one after the other, in one process of pytest and always in the same order. The deployment waits for most of its time,
# and has a process of its own.
_DEPLOYMENT = "tests/e2e/test_deploy_local.py"
STACKS = ("tests/integration/stack", "tests/e2e", "tests/integration/spark/test_packaged_job.py")
# Two processes of pytest take the files of Spark, with a JVM each that lives as long as they do, and one takes what
# needs none. First what takes longest, so that the small files at the end keep all processes busy.
_SPARK = ("tests/integration/spark", "tests/attacks")
_JVMS = 2
_ORDER = (
    "stacks",
    _DEPLOYMENT,
    "tests/integration",
    "tests/attacks/test_events",
    "tests/attacks/test_bodies",
    "tests/attacks/test_names",
    "tests/attacks/test_wrong_events",
    "tests/attacks",
    "tests/mutants",
    "tests/faults",
    "tests/model",
    "tests/property",
)


class InOrder(LoadScopeScheduling):
    """`--dist loadscope`, where a group, and otherwise a file, stays in one process."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._with_jvm: set[WorkerController] = set()

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(STACKS) and not nodeid.startswith(_DEPLOYMENT):
            return "stacks"
        return nodeid.partition("::")[0]

    def _reschedule(self, node: WorkerController) -> None:
        """A process gets its next file when it begins its last one, and not two files earlier."""
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) <= 1:
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        enough = node not in self._with_jvm and len(self._with_jvm) >= _JVMS

        def turn(scope: str) -> tuple[bool, int]:
            place = next((n for n, one in enumerate(_ORDER) if scope.startswith(one)), len(_ORDER))
            return enough and scope.startswith(_SPARK), place

        scope = min(self.workqueue, key=turn)
        if scope.startswith(_SPARK):
            self._with_jvm.add(node)
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


class TestFile(pytest.Item):
    """A file whose tests are not made yet."""

    __test__ = False
    made_of: pytest.Collector

    @classmethod
    def of(cls, file: pytest.Collector) -> "TestFile":
        """In place of the file."""
        later: TestFile = cls.from_parent(file.parent, name=file.name, path=file.path, nodeid=file.nodeid)
        later.made_of = file
        return later

    def runtest(self) -> None:
        """Never: `run_all` runs what it is made of."""
        raise NotImplementedError

    @cached_property
    def tests(self) -> list[pytest.Item]:
        """Makes them. Nothing of that becomes garbage, so none is looked for meanwhile, nor in it later; it is in what
        the files before have left."""
        gc.collect()
        gc.disable()
        try:
            made = list(self.session.genitems(self.made_of))
            self.config.hook.pytest_collection_modifyitems(session=self.session, config=self.config, items=made)
        finally:
            gc.freeze()
            gc.enable()
        return made

    def run_all(self, nextitem: pytest.Item | None, before: Callable[[], None]) -> None:
        """Runs them, each under its own name: pytest-xdist compares it with what a report is of. `before` the first,
        what they use is loaded."""
        session, own, tests = self.session, self._id, self.tests
        before()
        for test, after in zip(tests, [*tests[1:], nextitem], strict=True):
            self._id = test._id
            test.ihook.pytest_runtest_protocol(item=test, nextitem=after)
            if session.shouldfail or session.shouldstop:
                break
        self._id = own


def made_in(place: Path, session: pytest.Session) -> list[pytest.Item]:
    """All tests of a file, or of the files below a folder, which are made if they were not yet."""
    found = (item for item in session.items if item.path.is_relative_to(place))
    return [test for item in found for test in (item.tests if isinstance(item, TestFile) else [item])]


def tell_less(plugins: Iterable[Any]) -> None:
    """Of five messages about each test the one that counts it goes to the controller, and of the others what it shows:
    failures, and what took long."""
    worker = next(plugin for plugin in plugins if hasattr(plugin, "workerid") and hasattr(plugin, "sendevent"))
    send: Callable[..., None] = worker.sendevent

    def sendevent(name: str, **what: Any) -> None:
        if name in ("logstart", "logfinish"):
            return
        if name == "testreport":
            report = what["data"]
            quick = report["outcome"] == "passed" and report["duration"] < _WORTH_TELLING
            if quick and report["when"] != "call":
                return
        send(name, **what)

    worker.sendevent = sendevent


@cache
def _constants_of_the_code() -> Constants:
    found = Constants()
    for file in sorted(one for folder in _CODE for one in (_ROOT / folder).rglob("*.py")):
        module = ModuleType(file.stem)
        module.__file__ = str(file)
        for constant in constants_from_module(module):
            found.add(constant)
    return providers._local_constants | found  # sorted


def draw_the_same_constants() -> None:
    """Hypothesis draws some values from the constants of the modules that are loaded: here of all the code, as which
    files a process had before decides what is loaded in it."""
    providers._get_local_constants = _constants_of_the_code
