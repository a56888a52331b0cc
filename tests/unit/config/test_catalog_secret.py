"""Where a catalog's secret is: written in firn.yaml as a place, and fetched by whoever opens the catalog."""

from pathlib import Path

import pytest

from firn.auth.catalog_secret import catalog_environment
from firn.config.reader import parse
from firn.errors import ConfigError, TransientError

NAME = "PYICEBERG_CATALOG__FIRN__CREDENTIAL"
TEXT = """
warehouse: s3://b/w
catalog: {{type: rest, uri: 'https://c.example.org', properties: {{{0}}}}}
streams: {{shop: {{tables: {{'*': {{to: 'shop.{{table}}'}}}}}}}}
"""


def test_the_place_of_a_secret_may_stand_in_firn_yaml_and_goes_along_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("firn:s3cret\n")
    address = parse(TEXT.format(f"firn.credential: 'file:{tmp_path}/secret'")).catalog.address
    assert "s3cret" not in address
    found = catalog_environment(address, {"A": "b"})
    assert found == {"A": "b", NAME: "firn:s3cret"}


@pytest.mark.parametrize("value", ["firn:s3cret", "file:secret", "vault:/x"])
def test_what_is_no_place_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(ConfigError, match=r"catalog\.properties\.firn\.credential") as caught:
        parse(TEXT.format(f"firn.credential: '{value}'"))
    assert "s3cret" not in str(caught.value)


def test_the_secret_itself_is_refused_and_the_text_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"set it in the environment \\({NAME}\\), or write firn.credential:"):
        parse(TEXT.format("credential: 'firn:s3cret'"))


def test_the_environment_comes_first_and_an_address_without_a_place_asks_nowhere() -> None:
    def never(place: str) -> tuple[str, ...]:
        raise AssertionError(place)

    place = "https://c.example.org#firn.credential=ssm:/firn/x"
    assert catalog_environment(place, {NAME: "own"}, never) == {NAME: "own"}
    assert catalog_environment("sqlite:////c.db", {}, never) == {}


@pytest.mark.parametrize("place", ["file:/nowhere/at/all", "nonsense:x", "firn:s3cret"])
def test_a_secret_that_is_not_there_is_said_to_be_so(place: str) -> None:
    with pytest.raises(ConfigError, match=r"firn\.credential (under catalog\.properties|and jobs get it)") as caught:
        catalog_environment(f"https://c.example.org#firn.credential={place}", {})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("text", ['{"username":"u","password":"c4nary"}', '{\n  "password": "c4nary"\n}'])
def test_a_secret_that_is_json_is_not_taken_for_a_password(text: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(text)
    with pytest.raises(ConfigError, match="is JSON, as RDS keeps it") as caught:
        catalog_environment(f"postgresql://u@db/lake#firn.credential=file:{tmp_path}/secret", {})
    assert "c4nary" not in str(caught.value)
    (tmp_path / "another").write_text("{c4nary")
    found = catalog_environment(f"postgresql://u@db/lake#firn.credential=file:{tmp_path}/another", {})
    assert found[NAME] == "{c4nary"


def test_a_place_that_is_refused_is_named_with_what_roles_may_read() -> None:
    def refused(place: str) -> tuple[str, ...]:
        raise TransientError("secretsmanager refused get_secret_value: AccessDeniedException")

    place = "secretsmanager:firn/dev/catalog"
    with pytest.raises(TransientError, match=f"at {place}: .*AccessDenied.* below firn/ENVIRONMENT/catalog/"):
        catalog_environment(f"https://c.example.org#firn.credential={place}", {}, refused)
