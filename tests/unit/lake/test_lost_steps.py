"""Each step of each change that firn_lake makes to a table fails once: before it, after it, with the answer lost, or
with the process that made it. The table is then as it was before or as the change makes it, and the change, made once
more, finds out which."""

import contextlib
import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from firn.errors import FirnError
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.refs.expiry import expire
from tests.soak import LONG, few_cases

SCHEMA: Final = pa.schema([("id", pa.int64()), ("v", pa.string())])
FAULTS: Final = ("refused", "lost", "dies before", "dies after")


class Died(BaseException):
    """The process ended here."""


@dataclass
class Steps:
    """The writes to storage and catalog, of which number `at` (from 1) fails as `fault` says."""

    at: int = 0
    fault: str = ""
    log: list[str] = field(default_factory=list)
    dead: bool = False

    def step(self, name: str, effect: Callable[[], Any]) -> Any:
        if self.dead:
            raise Died(name)
        self.log.append(name)
        if len(self.log) != self.at:
            return effect()
        if self.fault in ("lost", "dies after"):
            effect()
        if self.fault.startswith("dies"):
            self.dead = True
            raise Died(name)
        raise OSError(f"{name}: {self.fault}")


class Stream:
    """A file that is there once it is closed."""

    def __init__(self, inner: Any, steps: Steps, name: str) -> None:
        self._inner, self._steps, self._name, self.closed = inner, steps, name, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._steps.step(self._name, self._inner.close)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, steps: Steps) -> Iterator[None]:
    create, delete, commit = PyArrowFile.create, PyArrowFileIO.delete, SqlCatalog.commit_table

    def created(file: PyArrowFile, overwrite: bool = False) -> Any:
        return Stream(create(file, overwrite), steps, "write")

    with monkeypatch.context() as patched:
        patched.setattr(PyArrowFile, "create", created)
        patched.setattr(PyArrowFileIO, "delete", lambda io, path: steps.step("delete", lambda: delete(io, path)))
        patched.setattr(SqlCatalog, "commit_table", lambda *given: steps.step("commit", lambda: commit(*given)))
        yield


def rows(first: int, *ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [f"v{first}"] * len(ids)}, SCHEMA)


def opened(folder: Path) -> LakeTable:
    return Lake(open_catalog(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", {})).table("own.t")


def made(folder: Path, version: int, fed: bool, snapshots: int) -> None:
    catalog = open_catalog(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", {})
    catalog.create_namespace("own")
    catalog.create_table("own.t", SCHEMA, properties={"format-version": str(version)})
    table = Lake(catalog).table("own.t")
    for n in range(snapshots):
        table.append(rows(n, 3 * n, 3 * n + 1, 3 * n + 2))
    table.tag("first", table.snapshots()[0].id)
    if fed:
        said = {"firn.key": '["id"]', "firn.mode": "mirror", "firn.stream": "shop"}
        table.iceberg.transaction().set_properties(said).commit_transaction()
    catalog.close()


def cut(table: LakeTable) -> Any:
    later = datetime.now(UTC) + timedelta(days=30)
    return expire(table.iceberg, timedelta(days=1), 20, later)


# What is done, whether a stream feeds the table, and whether it may be done once more without being told an id.
PROGRAMS: Final[dict[str, tuple[Callable[[LakeTable], Any], bool]]] = {
    "append": (lambda table: table.append(rows(9, 90, 91), id="w"), False),
    "overwrite": (lambda table: table.overwrite(rows(9, 1, 90), "id < 5", id="w"), False),
    "upsert": (lambda table: table.upsert(rows(9, 1, 4, 90), key=["id"], id="w"), False),
    "set back": (lambda table: table.rollback("first"), False),
    "restored": (lambda table: table.rollback("first", "skip"), True),
    "tag": (lambda table: table.tag("here"), True),
    "branch": (lambda table: table.branch("aside", "first"), False),
    "drop": (lambda table: None if "first" not in names(table) else table.drop("first"), False),
    "evolve": (lambda table: "x" in table.columns() or table.evolve(add={"x": "int"}), False),
    "expire": (cut, False),
}


def names(table: LakeTable) -> set[str]:
    return {one.name for one in table.refs()}


def looks(table: LakeTable) -> Any:
    """All that a reader sees, and which row is which."""
    read = sorted(map(tuple, (one.values() for one in table.read().pylist())), key=repr)
    told = sorted((one.name, one.kind) for one in table.refs())
    return read, told, list(table.columns()), len(table.iceberg.metadata.snapshots)


@few_cases(4)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_step_that_fails_leaves_the_table_before_or_after_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, version: int
) -> None:
    change, fed = PROGRAMS[program]
    kept, folder = tmp_path / "kept", tmp_path / "lake"
    kept.mkdir()
    folder.mkdir()
    made(folder, version, fed, 23 if program == "expire" else 3)
    shutil.copytree(folder, kept, dirs_exist_ok=True)

    def look() -> Any:
        table = opened(folder)
        for one in table.snapshots()[:: 1 if LONG else 10]:
            assert table.read(as_of=one.id).arrow() is not None, "each snapshot that is kept can be read"
        return looks(table)

    before = look()
    counted = Steps()
    with failing(monkeypatch, counted):
        change(opened(folder))
    after = look()
    assert "commit" in counted.log
    for number, (at, fault) in enumerate(itertools.product(range(1, len(counted.log) + 1), FAULTS)):
        told = counted.log[at - 1] == "commit" and (version == 3 or fault == "lost")
        if not (LONG or told or number % 11 == version):
            continue
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        steps, said = Steps(at, fault), f"{counted.log[at - 1]} {at} {fault}"
        with failing(monkeypatch, steps), contextlib.suppress(FirnError, Died, OSError):
            change(opened(folder))
        assert len(steps.log) >= at, said
        found = look()
        assert found in (before, after), said
        if counted.log[at - 1] == "commit":
            assert found == (after if fault in ("lost", "dies after") else before), said
        change(opened(folder))
        assert look() == after, said
