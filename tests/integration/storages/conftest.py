"""Each storage that this machine can run, as Firn opens it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from firn.log.store import Store, open_store
from tests.s3_servers import RIGHT, s3_environment


@dataclass(frozen=True)
class Place:
    """`url` is where staging would be; `env` how it is reached, which this process's environment says too."""

    url: str
    env: dict[str, str] = field(default_factory=dict)

    def store(self, folder: str) -> Store:
        """A part of it of its own."""
        return open_store(f"{self.url}/{folder}")


@pytest.fixture(scope="module", params=["file", *RIGHT])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("storage")
    if request.param == "file":
        yield Place(folder.as_uri())
        return
    with s3_environment(request.param, folder, "staging", "lake") as env:
        yield Place("s3://staging", env)


@pytest.fixture
def store(place: Place, request: pytest.FixtureRequest) -> Store:
    return place.store(request.node.name.partition("[")[0])
