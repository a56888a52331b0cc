"""`firn publish` and the processes that remember a configuration."""

from pathlib import Path

import pytest

from firn.log.published_configs import CurrentConfig, publish
from firn_cli.commands.publish import publish as publish_file
from tests.unit.conftest import CONFIG
from tests.unit.log.storage_faults import FaultyStore


@pytest.mark.parametrize("by_another", [False, True], ids=["published here", "published just before, by firn up"])
def test_when_publish_returns_no_function_works_by_the_configuration_before(
    tmp_path: Path, *, by_another: bool
) -> None:
    store = FaultyStore()
    publish(store, CONFIG)
    function = CurrentConfig(store)
    before = function().sha
    file = tmp_path / "firn.yaml"
    file.write_text(CONFIG + "# and more\n")
    if by_another:
        publish(store, file.read_text())
    publish_file(store, file, None)
    assert function().sha != before
