import pytest

from firn.errors import ConfigError
from firn.ingest.bodies import Limits
from firn.log.published_configs import CurrentConfig, current_sha, load, publish
from firn.log.store import paths
from firn.settings import Settings
from tests.unit.conftest import CONFIG
from tests.unit.log.storage_faults import FaultyStore


def test_a_published_configuration_is_found_by_its_hash_and_as_the_current_one() -> None:
    store = FaultyStore()
    config = publish(store, CONFIG)
    assert current_sha(store) == config.sha
    assert load(store, config.sha) == config
    assert CurrentConfig(store)() == config


def test_an_older_configuration_stays_readable_after_a_newer_one() -> None:
    store = FaultyStore()
    old = publish(store, CONFIG)
    new = publish(store, CONFIG + "# and more\n")
    assert load(store, old.sha).text == CONFIG
    assert current_sha(store) == new.sha != old.sha


def test_a_wrong_configuration_is_not_published() -> None:
    store = FaultyStore()
    with pytest.raises(ConfigError):
        publish(store, "streams: {shop: {envelop: debezium}}")
    assert paths(store, "config") == []


def test_the_current_configuration_is_looked_at_again_after_two_seconds() -> None:
    store, seconds = FaultyStore(), [0.0]
    current = CurrentConfig(store, clock=lambda: seconds[0])
    old = publish(store, CONFIG)
    assert current() is current()
    new = publish(store, CONFIG + "# more\n")
    seconds[0] = 1.9
    assert current().sha == old.sha
    seconds[0] = 2.0
    assert current().sha == new.sha
    reads = store.reads
    seconds[0] = 11.0
    assert current().sha == new.sha
    assert store.reads == reads + 1  # the pointer alone


def test_without_a_configuration_the_error_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="firn init"):
        CurrentConfig(FaultyStore())()


def test_a_missing_version_is_named() -> None:
    with pytest.raises(ConfigError, match=r"config/abc\.yaml"):
        load(FaultyStore(), "abc")


def test_settings_come_from_the_environment() -> None:
    settings = Settings.from_environment({"FIRN_STAGING": "memory://x", "FIRN_MAX_BODY_BYTES": "100"})
    assert (settings.staging, settings.limits) == ("memory://x", Limits(100, Limits.inflated))


@pytest.mark.parametrize(
    "environment", [{}, {"FIRN_STAGING": ""}, {"FIRN_STAGING": "memory://x", "FIRN_MAX_BODY_BYTES": "4MB"}]
)
def test_wrong_settings_name_the_variable(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="FIRN_"):
        Settings.from_environment(environment)
