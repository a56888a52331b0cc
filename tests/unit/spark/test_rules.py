"""The commit job's pure rules: columns, keys, progress, settings. No JVM."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.changes.decode.codec import DecodeSettings, RowCodec
from firn.changes.decode.types import INT53, LONG, STRING, Column, Encoding, decimal, list_of
from firn.changes.decode.types import parse as kind
from firn.commit.staged_changes import facts_of
from firn.config.model import TableRule
from firn.config.names import ICEBERGS, TableName
from firn.errors import ConfigError, EventError
from firn.tables.planning import KeyChanged, check_mode, lacking_key, plan_columns, plan_key
from firn.tables.routing import Target
from firn.tables.table_state import parse, progress_in
from firn_spark.session import catalog_settings


def columns(**types: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind(text)) for name, text in types.items())


def test_a_new_table_gets_the_smallest_types_that_hold_all_that_was_seen() -> None:
    plan = plan_columns((), (), [columns(id="int", a="int"), columns(id="long", b="string")], ["id"])
    assert [(c.name, str(c.type), c.required) for c in plan.columns] == [
        ("id", "long", True),
        ("a", "int", False),
        ("b", "string", False),
    ]
    assert plan.added == plan.columns


def test_a_sources_columns_of_firns_own_names_are_left_out() -> None:
    """But a table from before that has one keeps it."""
    own = {"_firn_pos": "string", "_firn_new": "long", "v__firn_new": "long"}
    assert [column.name for column in plan_columns((), columns(**own), [columns(v="int", **own)]).columns] == ["v"]
    there = columns(v="int", **own)[:1] + columns(_firn_new="long")
    assert plan_columns(there, (), [columns(v="int", **own)]).columns == tuple(there)


def test_a_sources_columns_of_icebergs_own_names_are_left_out() -> None:
    """But a table that has one keeps it."""
    own = dict.fromkeys(ICEBERGS, "long")
    seen = columns(v="int", _FILE="int", **own)
    assert [column.name for column in plan_columns((), columns(**own), [seen]).columns] == ["v", "_FILE"]
    there = columns(v="int", _file="long")
    assert plan_columns(there, (), [columns(v="int", **own)]).columns == there
    assert "is a name that Firn or Iceberg keeps" in str(
        lacking_key(plan_columns((), (), [seen]), ["_pos"], made=False)
    )


def test_a_declaration_beats_what_was_seen() -> None:
    plan = plan_columns((), columns(amount="decimal(12,2)"), [columns(amount="string")])
    assert plan.columns[0].type == decimal(12, 2)


def test_an_existing_column_gets_the_type_that_it_would_have_got_at_once() -> None:
    existing = columns(a="int", b="float", c="string", d="decimal(8,2)", e="long")
    later = [columns(a="string", b="double", c="long", d="decimal(14,4)"), columns(a="long")]
    plan = plan_columns(existing, (), later)
    assert [str(c.type) for c in plan.columns] == ["string", "double", "string", "decimal(14,4)", "long"]
    assert plan.widened == ()
    assert [c.name for c in plan.retyped] == ["a", "b", "d"]
    assert plan.added == ()
    fixed = plan_columns(existing, (), later, fixed=frozenset("abcd"))
    assert [c.name for c in fixed.widened] == ["a", "b"], "where nothing may be rewritten, by Iceberg's promotion"


def test_fixed_and_declared_columns_keep_their_type_against_what_is_seen() -> None:
    existing = columns(a="int", b="int", c="int")
    seen = [columns(a="string", b="long", c="string")]
    plan = plan_columns(existing, columns(c="int"), seen, fixed=frozenset({"a", "b"}))
    assert [str(c.type) for c in plan.columns] == ["int", "long", "int"]
    assert plan.retyped == ()


def test_small_integers_and_fractions_are_double_whether_they_come_at_once_or_not() -> None:
    small, large, fraction = ((Column("a", one),) for one in (INT53, kind("long"), kind("double")))
    assert str(plan_columns((), (), [small, fraction]).columns[0].type) == "double"
    first = plan_columns((), (), [small])
    assert (str(first.columns[0].type), first.inferred) == ("long", {"a": "int53"})
    assert str(plan_columns(small, (), [fraction]).retyped[0].type) == "double"
    assert plan_columns(small, (), [large]).inferred == {}
    assert str(plan_columns(large, (), [fraction]).retyped[0].type) == "string"


def test_columns_added_to_an_existing_table_are_optional_and_its_unwritable_ones_are_left_alone() -> None:
    plan = plan_columns(
        columns(id="int"), (), [columns(id="int", new="int", place="string")], ["new"], frozenset({"place"})
    )
    assert [(c.name, c.required) for c in plan.added] == [("new", False)]


def test_names_that_no_column_can_have_are_told_and_their_values_refused() -> None:
    tags, element = Column("tags", list_of(STRING)), Column("tags.element", STRING)
    plan = plan_columns([], [], [(Column("id", LONG),), (tags, element)], key=("id",))
    assert [column.name for column in plan.columns] == ["id", "tags"]
    assert plan.unnamed == {"tags.element"}
    # What is declared comes before what is only seen, and what a table has already before both.
    declared = plan_columns([], [tags], [(Column("id", LONG), element)])
    assert ([column.name for column in declared.columns], declared.unnamed) == (["id", "tags"], {"tags.element"})
    kept = plan_columns([Column("id", LONG), element], [], [(tags,)])
    assert ([column.name for column in kept.columns], kept.unnamed) == (["id", "tags.element"], {"tags"})

    codec = RowCodec(plan.columns, None, DecodeSettings(), unnamed=plan.unnamed)
    assert codec.decode(b'{"id":1,"tags.element":null}').values == [1, None]
    for image in (b'{"id":1,"tags.element":2}', b'{"id":1,"tags.element" : {}}', b'{"id":1,"tags.element":"a"}'):
        with pytest.raises(EventError, match="called so") as error:
            codec.decode(image)
        assert error.value.code == "bad_image"


def test_what_the_inline_schema_does_not_name_is_not_there() -> None:
    """Else a row would depend on whether the table had a column of that name yet."""
    target = [Column("id", LONG), Column("extra", STRING)]
    image = b'{"id":1,"extra":"x"}'
    codec = RowCodec(target, [Column("id", LONG, source=Encoding("integer"))], DecodeSettings())
    assert codec.decode(image).values == [1, None]
    assert [codec.converters[0](cell) for cell in codec.cells(image)[0]] == [1]
    assert RowCodec(target, None, DecodeSettings()).decode(image).values == [1, "x"]
    assert RowCodec(target, [], DecodeSettings()).decode(image).values == [1, "x"]  # MongoDB's says nothing of rows


def test_a_source_column_with_the_name_of_a_metadata_column_is_left_out() -> None:
    assert [c.name for c in plan_columns((), (), [columns(id="int", _firn_pos="binary")]).columns] == ["id"]


@pytest.mark.parametrize(
    ("configured", "existing", "named", "key"),
    [
        (("a",), None, [("b",), ("c",)], ("a",)),
        (("b", "a"), ("a", "b"), [("c",)], ("a", "b")),
        (None, ("b",), [("b",)], ("b",)),
        (None, ("b",), [], ("b",)),
        (None, None, [("c",)], ("c",)),
        (None, None, [("d", "c"), ("c", "d")], ("c", "d")),
        (None, ("d", "c"), [("c", "d")], ("d", "c")),
        (None, None, [], ()),
        (None, (), [], ()),
    ],
)
def test_the_key_is_the_configured_then_the_tables_then_the_one_that_events_name(
    configured: Any, existing: Any, named: Any, key: Any
) -> None:
    assert plan_key(configured, existing, named) == key


@pytest.mark.parametrize(
    ("configured", "existing", "named", "says"),
    [
        (("a",), (), [], r"the key is \[\] in the table and \[a\] in firn.yaml"),
        (("a",), ("b",), [("b",)], r"\[b\] in the table and \[a\] in firn.yaml"),
        (None, None, [("a",), ("a", "b")], r"events name the keys \[a\] and \[a, b\]; set `key:` or `mode: append`"),
        (None, ("a",), [("a",), ("b",)], r"the key is \[a\] in the table and events name \[b\]; set `key:`"),
        (None, (), [("a",)], r"the table is append, .* now events name \[a\]; set `mode: append`"),
    ],
)
def test_two_keys_of_one_table_are_refused_with_what_to_do(
    configured: Any, existing: Any, named: Any, says: str
) -> None:
    with pytest.raises(KeyChanged, match=says):
        plan_key(configured, existing, named)


@pytest.mark.parametrize(
    ("existing", "named", "key"),
    [(None, [("a",), ("b",)], ()), (None, [("a",)], ("a",)), ((), [("a",)], ()), (("a",), [("b",)], ("a",))],
)
def test_an_append_table_takes_events_of_any_key(existing: Any, named: Any, key: Any) -> None:
    assert plan_key(None, existing, named, "append") == key


def test_a_key_of_epochs_that_a_table_has_behind_it_does_not_hold_it() -> None:
    said = [
        {"table": "a", "flat": None, "schema_id": None, "fact": "key", "value": value, "epoch": epoch, "batch": "b"}
        for epoch, value in ((2, '["a"]'), (1, '["a"]'), (1, '["b"]'))
    ]
    facts = facts_of({("a", 1, "c"): 2, ("a", 2, "c"): 1}, said)["a"]
    assert facts.keys == {("a",): 2, ("b",): 1}
    target = Target(TableName("lake", "t"), TableRule("a", "lake.t"), ("a",), (facts,))
    assert target.named_keys() == {("a",), ("b",)}
    assert target.above(1).named_keys() == {("a",)}
    assert target.above(2).named_keys() == set()


def test_another_mode_than_the_tables_is_refused() -> None:
    check_mode("append", "append")
    check_mode("mirror", None)
    with pytest.raises(KeyChanged, match=r"is in mode append and firn.yaml now makes it mirror"):
        check_mode("mirror", "append")


_KEYS = st.lists(st.sampled_from([(), ("a",), ("b", "a"), ("a", "b"), ("c",)]), max_size=6)


@given(_KEYS, st.sets(st.integers(0, 6)))
def test_the_key_is_the_same_however_the_events_are_split(keys: list[tuple[str, ...]], ends: set[int]) -> None:
    """Or a split stops at the table, and then events of all epochs at once tell what it should have been."""

    def planned(epochs: list[list[tuple[str, ...]]]) -> frozenset[str] | None:
        key: tuple[str, ...] | None = None
        for epoch in epochs:
            if epoch:
                key = plan_key(None, key, {one for one in epoch if one})
        return None if key is None else frozenset(key)

    bounds = [0, *sorted(end for end in ends if end < len(keys)), len(keys)]
    try:
        split = planned([keys[a:b] for a, b in pairwise(bounds)])
    except KeyChanged:
        return
    assert split == planned([keys])


def test_a_key_that_no_change_names_yet_is_the_changes_fault_until_there_is_a_table() -> None:
    plan = plan_columns((), columns(id="int"), [columns(v="string")], ("id", "sku"))
    assert lacking_key(plan, ("v", "id"), made=False) is None
    assert "names sku of its key" in (lacking_key(plan, ("id", "sku"), made=False) or "")
    with pytest.raises(KeyChanged, match="no column sku"):
        lacking_key(plan, ("id", "sku"), made=True)


def test_progress_is_the_highest_epoch_in_the_ancestry_and_not_on_other_branches() -> None:
    snapshots = [
        {"snapshot-id": 1, "summary": {"firn.epoch.shop": "9"}},
        {"snapshot-id": 2, "parent-snapshot-id": 1, "summary": {"firn.epoch.shop": "10", "total-records": "7"}},
        {"snapshot-id": 3, "parent-snapshot-id": 1, "summary": {"firn.epoch.shop": "11"}},
    ]
    table = {
        "location": "file:///t", "schemas": [{"schema-id": 0, "fields": []}], "current-schema-id": 0,
        "snapshots": snapshots, "current-snapshot-id": 2,
    }  # fmt: skip
    state = parse(json.dumps(table))
    assert (state.progress("shop"), state.progress("other"), state.records) == (10, 0, 7)


def test_the_progress_does_not_fall_where_an_older_epoch_landed_after_a_newer_one() -> None:
    assert progress_in("shop", [{"firn.epoch.shop": "9"}, {"firn.epoch.shop": "10"}, {}]) == 10


def test_glue_is_found_where_the_environment_says() -> None:
    environment = {"AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:5000"}
    prefix = "spark.sql.catalog.firn."
    settings = catalog_settings("glue://123456789012", "s3://bucket/lake", environment)
    found = {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
    assert found["catalog-impl"] == "org.apache.iceberg.aws.glue.GlueCatalog"
    assert (found["glue.id"], found["glue.endpoint"]) == ("123456789012", "http://127.0.0.1:5000")
    assert found["client.region"] == "eu-central-1"
    assert "uri" not in found
    assert f"{prefix}glue.id" not in catalog_settings("glue://", "s3://bucket/lake", environment)


@pytest.mark.parametrize("place", [("glue://", "file:///lake"), ("sqlite:////c.db", "s3://bucket/lake")])
def test_a_region_that_nobody_says_is_not_assumed(place: tuple[str, str]) -> None:
    region = "spark.sql.catalog.firn.client.region"
    with pytest.raises(ConfigError, match=r"set AWS_REGION.*spark\.executorEnv\.AWS_REGION"):
        catalog_settings(*place, {})
    assert catalog_settings(*place, {"AWS_DEFAULT_REGION": "eu-west-1"})[region] == "eu-west-1"
    of_catalog = f"glue://#{region.removeprefix('spark.sql.catalog.firn.')}=eu-north-1"
    assert catalog_settings(of_catalog, "s3://bucket/lake", {})[region] == "eu-north-1"
    assert region not in catalog_settings("sqlite:////c.db", "file:///lake", {})


def test_no_other_catalog_than_ours_is_opened() -> None:
    told = catalog_settings("sqlite:////c.db", "file:///lake", {})
    assert told["spark.sql.catalogImplementation"] == "in-memory", "EMR's images say hive"


def test_s3_settings_take_the_endpoint_from_the_environment_and_no_secret() -> None:
    environment = {"AWS_ENDPOINT_URL": "http://127.0.0.1:5000", "AWS_SECRET_ACCESS_KEY": "hidden"}
    environment["AWS_REGION"] = "eu-central-1"
    settings = catalog_settings("sqlite:////c.db", "s3://bucket/warehouse/", environment)
    assert settings["spark.sql.catalog.firn.s3.endpoint"] == "http://127.0.0.1:5000"
    assert settings["spark.sql.catalog.firn.warehouse"] == "s3://bucket/warehouse"
    assert "hidden" not in settings.values()
    with pytest.raises(ValueError, match="file:///"):
        catalog_settings("sqlite:////c.db", "/just/a/path", {})
