"""What `firn doctor --storage URL` does: objects of its own are written below a prefix of their own, by many writers at
once, looked at in each way that Firn does, and removed again. What is there already is neither read nor touched.

It asks by the code that Firn itself works with (firn/log/store.py). What is wrong comes with what would not hold in
Firn, or with the setting to change.
"""

import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Final

from firn.config.catalog_products import TRIED
from firn.config.storage_products import product_at
from firn.errors import TerminalError, TransientError
from firn.log import store as storage
from firn.log.epochs import SKEW
from firn_cli.check_parts import SELF_CHECK, Check, Part, Report, Trial, is_abandoned, scratch_name
from firn_cli.storage_advice import advice_on, cause_of, where

_WRITERS: Final = 16
_ROUNDS: Final = 8
_LISTED: Final = 48
_LISTERS: Final = 8
_PART: Final = 9_000_000  # bytes: more than one part of an upload, and less than two
_REQUEST_SECONDS: Final = 5
_MOST_SECONDS: Final = 120.0  # all parts together; a request that is under way then may take its own time
_PARTS: Final = ("reach", "create", "listing", "order", "ranges", "multipart", "overwrite", "clock", "delete")


class Broken(TerminalError):
    """The storage does not do what Firn needs of it. `so`: what does not hold in Firn then."""

    def __init__(self, found: str, so: str) -> None:
        super().__init__(found)
        self.so = so


class OutOfTime(TransientError):
    """Each request was answered, and all together took too long."""


class StorageCheck:
    """One run of it. `url`: any that open_store opens. `seconds`: what all parts may take."""

    def __init__(
        self,
        url: str,
        report: Report = lambda _part: None,
        environment: Mapping[str, str] | None = None,
        seconds: float = _MOST_SECONDS,
    ) -> None:
        self._url = url.rstrip("/")
        self._trial = Trial(report, self._explained)
        self._environment = os.environ if environment is None else environment
        self._prefix = f"{SELF_CHECK}/{scratch_name()}"
        self._until = time.monotonic() + seconds
        self._held: storage.Store | None = None
        self._wrote = False

    def checks(self) -> Iterator[Check]:
        """What the storage is, and each part as it was found. After the first that is wrong the others are not tried;
        what was made is removed whatever happens."""
        product = product_at(self._url, self._environment)
        is_tried = True if product.state == TRIED else None
        place = where(self._url, self._environment)
        yield Check("storage", is_tried, f"{product.name} at {place}: {product.state}, {product.how}")
        parts: Iterator[tuple[str, Part]] = ((name, getattr(self, f"_{name}")) for name in _PARTS)
        try:
            yield from self._trial.each(parts)
        finally:
            removed = (
                self._trial.one("remove", self._remove) if self._wrote else Check("remove", None, "nothing was made")
            )
        yield removed

    def _explained(self, part: str, error: Exception) -> tuple[str, str]:
        if isinstance(error, Broken):
            return str(error), error.so
        return cause_of(error), advice_on(error, part, self._url, self._environment)

    @property
    def _store(self) -> storage.Store:
        if self._held is None:
            self._held = storage.open_store(self._url, seconds=_REQUEST_SECONDS)
        return self._held

    def _path(self, name: str) -> str:
        if time.monotonic() > self._until:
            raise OutOfTime("the checks before this took too long")
        self._wrote = True
        return f"{self._prefix}/{name}"

    def _reach(self) -> str:
        left = [path for path in storage.paths(self._store, SELF_CHECK) if is_abandoned(path.split("/")[1])]
        storage.remove(self._store, left)  # of checks that were killed
        return "it answers"

    def _create(self) -> str:
        """The one thing that correctness rests on."""
        so = (
            "do not let Firn stage here: two functions can seal the same epoch and both believe it theirs, so that "
            "acknowledged changes are lost or committed twice (docs/storages.md)"
        )
        slowest = 0.0
        for n in range(_ROUNDS):
            began = time.monotonic()
            path = self._path(f"create/{n}")
            won = self._race(path, n)
            slowest = max(slowest, time.monotonic() - began)
            there = storage.get(self._store, path)
            if len(won) != 1:
                raise Broken(f"of {_WRITERS} writers that create one object if it is absent {len(won)} were told that "
                             "they did: conditional puts (If-None-Match: *) do not hold", so)  # fmt: skip
            if there != won[0]:
                raise Broken("an object that was created if absent does not hold what its writer wrote", so)
        return f"{_ROUNDS} of {_ROUNDS} rounds have one winner of {_WRITERS} writers, the slowest took {slowest:.1f} s"

    def _race(self, path: str, n: int) -> list[bytes]:
        """What those wrote who were told that they created the object."""
        start = threading.Barrier(_WRITERS)

        def create(writer: int) -> bytes | None:
            mine = f"{self._prefix} round {n} writer {writer}".encode()
            start.wait()
            return mine if storage.put_if_absent(self._store, path, mine) else None

        with ThreadPoolExecutor(_WRITERS) as pool:
            return [mine for mine in pool.map(create, range(_WRITERS)) if mine is not None]

    def _listing(self) -> str:
        def listed(n: int) -> bool:
            path = self._path(f"list/{n % 4}/{n:04d}")
            storage.put(self._store, path, b"x")
            return path in storage.paths(self._store, f"{self._prefix}/list/{n % 4}")

        with ThreadPoolExecutor(_LISTERS) as pool:
            seen = sum(pool.map(listed, range(_LISTED)))
        if seen < _LISTED:
            raise Broken(
                f"{_LISTED - seen} of {_LISTED} objects were not in a listing that was made after they were written",
                "do not let Firn stage here: until a listing shows them, acknowledged changes are missing from fresh "
                "reads, audits and cuts",
            )
        return f"{seen} of {_LISTED} objects are listed at once"

    def _order(self) -> str:
        every = sorted(f"{self._prefix}/list/{n % 4}/{n:04d}" for n in range(_LISTED))
        after = every[len(every) // 3]
        found = storage.paths(self._store, f"{self._prefix}/list", self._in_time(after))
        if found != [path for path in every if path > after]:
            wanted = len(every) - every.index(after) - 1
            raise Broken(
                f"a listing from an object on has {len(found)} of {wanted} objects (start-after)",
                "do not let Firn stage here: it finds new batches and epochs by such listings, and what is left out is "
                "not committed",
            )
        return f"a listing from one on has the {len(found)} after it"

    def _in_time(self, path: str) -> str:
        return self._path(path.removeprefix(f"{self._prefix}/"))

    def _ranges(self) -> str:
        data, path = random.Random(1).randbytes(200_000), self._path("ranges")
        storage.put(self._store, path, data)
        with storage.ObjectFile(self._store, path) as file:
            for start, length in ((0, 4), (65_536, 1_000), (199_992, 8), (199_000, 5_000)):
                file.seek(start)
                if file.read(length) != data[start : start + length]:
                    raise _wrong_range(start, length)
        if storage.tail(self._store, path, 8) != data[-8:]:
            raise _wrong_range(len(data) - 8, 8)
        return "parts of an object are what was written there"

    def _multipart(self) -> str:
        data, path = random.Random(2).randbytes(_PART), self._path("multipart")
        so = "large results of queries, and files of tables that Spark writes in parts, can't be kept here"
        writer = storage.ObjectWriter(self._store, path)
        writer.write(data)
        if storage.exists(self._store, path):
            raise Broken("an upload in parts is there before it was ended", so)
        writer.close()
        if storage.get(self._store, path) != data:
            raise Broken("an object that was written in parts is not what was written", so)
        return f"{_PART / 1e6:.0f} MB in parts are what was written, and there once they are ended"

    def _overwrite(self) -> str:
        path, read = self._path("overwrite/one"), list[str]()
        so = "do not let Firn stage here: functions and jobs would go by a configuration or a state that was replaced"
        for data in (b"old", b"new"):
            storage.put(self._store, path, data)
            found = storage.get_version(self._store, path)
            if found is None or found[0] != data:
                raise Broken("an object that was written again was read as it had been before", so)
            if storage.versions(self._store, f"{self._prefix}/overwrite") != {path: found[1]}:
                raise Broken("a listing and a read give an object different entity tags", so)
            read.append(found[1])
        if read[0] == read[1]:
            raise Broken("an object that was written again has the entity tag that it had before", so)
        return "what was written again is read at once, by another entity tag"

    def _clock(self) -> str:
        path, before = self._path("clock"), datetime.now(UTC)
        storage.put(self._store, path, b"x")
        after = datetime.now(UTC)
        at = storage.modified(self._store, path)
        if at is None:
            raise Broken("an object that was written is not there", "nothing that is written here stays")
        apart = max((before - at).total_seconds(), (at - after).total_seconds(), 0.0)
        if apart > SKEW.total_seconds():
            raise Broken(
                f"its clock and this machine's are {apart:.0f} s apart",
                f"set the one that is wrong: Firn bears {SKEW.total_seconds() / 60:.0f} minutes, and does not find in "
                "the log what is further apart",
            )
        return f"its clock and this machine's are less than {int(apart) + 1} s apart"

    def _delete(self) -> str:
        path, prefix = self._path("delete/one"), f"{self._prefix}/delete"
        storage.put(self._store, path, b"x")
        for _ in range(2):  # what is gone already is fine
            storage.remove(self._store, [path])
        if storage.exists(self._store, path) or storage.paths(self._store, prefix):
            raise Broken("an object that was deleted is there, or is listed", "the log and tables keep what is to go, "
                         "and it is paid for; look whether the bucket locks its objects")  # fmt: skip
        return "what is deleted is gone, from listings too"

    def _remove(self) -> str:
        storage.remove(self._store, storage.paths(self._store, self._prefix))
        left = storage.paths(self._store, self._prefix)
        if left:
            raise Broken(f"{len(left)} objects are left", f"remove what lies below {self._url}/{self._prefix}")
        return f"all below {self._prefix} is gone"


def _wrong_range(start: int, length: int) -> Broken:
    return Broken(
        f"bytes {start} to {start + length} of an object are not those that were written there",
        "tables can't be read here: jobs and queries read parts of Parquet files",
    )
