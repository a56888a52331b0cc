import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firn.log.store import Store, open_store

sys.path.insert(0, str(Path(__file__).parent))

from ingress import Ingress, running_ingress


@pytest.fixture
def ingress() -> Iterator[Ingress]:
    with running_ingress() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """The staging store of the stack in `tmp_path`."""
    return open_store(f"file://{tmp_path}/staging")


@pytest.fixture
def addresses(tmp_path: Path) -> dict[str, str]:
    """A stopped stack's addresses, in its folder `tmp_path` as the commands look for them."""
    said = {
        "url": "http://127.0.0.1:9",
        "staging": f"file://{tmp_path}/staging",
        "warehouse": f"file://{tmp_path}/warehouse",
        "catalog_uri": f"sqlite:///{tmp_path}/catalog.db",
    }
    (tmp_path / "stack.json").write_text(json.dumps(said))
    return said
