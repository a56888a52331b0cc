"""Storage of each cloud, as a server on this machine answers for it: fixtures of the tests that need one."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from firn_lake.catalogs import object_io
from tests.azurite import azurite
from tests.fake_gcs import fake_gcs

CLOUDS: dict[str, Callable[[Path], AbstractContextManager[Any]]] = {"azure": azurite, "google": fake_gcs}


@pytest.fixture(scope="session", params=sorted(CLOUDS))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`environment`: what a process that stores there needs in its own; `url(prefix)`: an address there."""
    with CLOUDS[request.param](tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def cloud(server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same, and this process may store there."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    object_io._store.cache_clear()  # stores of another test's server
    return server
