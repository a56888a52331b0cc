import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from ingress import Ingress, running_ingress


@pytest.fixture
def ingress() -> Iterator[Ingress]:
    with running_ingress() as running:
        yield running
