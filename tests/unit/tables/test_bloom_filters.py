"""Table properties for the Bloom filters that firn.yaml asks for."""

from firn.changes.decode.types import INT, STRING, Column, Type
from firn.tables.bloom_filters import ASKED, ENABLED, VALUES, enabled, properties

COLUMNS = (Column("id", INT), Column("email", STRING), Column("paid", Type("boolean")))


def test_columns_are_switched_on_by_name_or_as_the_key() -> None:
    found = properties(("id", "email"), ("id",), COLUMNS, {})
    assert found == {
        f"{ENABLED}id": "true", f"{VALUES}id": "200000", f"{ENABLED}email": "true", f"{VALUES}email": "200000",
        ASKED: '["id", "email"]',
    }  # fmt: skip
    assert enabled(found) == ("id", "email")
    assert enabled(properties("key", ("id",), COLUMNS, {})) == ("id",)
    assert properties("key", (), COLUMNS, {}) == {}
    assert properties((), ("id",), COLUMNS, {}) == {}


def test_what_is_no_longer_asked_for_is_switched_off_and_others_settings_stay() -> None:
    now = {**properties(("id", "email"), (), COLUMNS, {}), f"{ENABLED}other": "true", f"{VALUES}email": "5"}
    changes = properties(("email",), (), COLUMNS, now)
    assert changes[f"{ENABLED}id"] == "false"
    assert changes[f"{VALUES}email"] == "5"
    assert enabled({**now, **changes}) == ("email", "other")
    assert enabled({**now, **properties((), (), COLUMNS, now)}) == ("other",)


def test_a_boolean_gets_none() -> None:
    assert enabled(properties(("paid", "id"), (), COLUMNS, {})) == ("id",)
