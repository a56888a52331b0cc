"""Where the demo keeps its data: `make demo STORAGE=…`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from firn.errors import ConfigError
from firn_demo import versitygw


@dataclass(frozen=True)
class Storage:
    """`name` for people; the stack's `options`, and the `environment` that it is started in."""

    name: str
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


IN_MEMORY: Final = Storage("in its S3 endpoint", ("--s3",))
FILES: Final = Storage("in files")
STORAGES: Final = ("s3", "file", "versitygw")


@contextmanager
def storage_of(name: str, folder: Path) -> Iterator[Storage]:
    """One of STORAGES, for as long as it is used. `folder` gets what a server needs. Raises ConfigError for another
    name, VersitygwLacks."""
    if name == "versitygw":
        with versitygw.versitygw(folder / "versitygw") as reached:
            endpoint = reached["AWS_ENDPOINT_URL_S3"]
            yield Storage(f"in versitygw at {endpoint}", ("--s3-endpoint", endpoint), reached)
    elif name in STORAGES:
        yield FILES if name == "file" else IN_MEMORY
    else:
        raise ConfigError(f"there is no storage {name!r} for the demo: write {', '.join(STORAGES)}")
