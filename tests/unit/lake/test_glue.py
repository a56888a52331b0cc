"""What Glue says, in Firn's errors, where no server can be made to say it."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from firn.errors import ConfigError, UnknownOutcome
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.catalogs.glue import told
from firn_lake.lake import Lake


@pytest.mark.parametrize(("tries", "known"), [(0, True), (1, False)])
def test_another_version_that_a_second_try_meets_may_be_the_first_ones(tries: int, known: bool) -> None:
    said: Any = {
        "Error": {"Code": "ConcurrentModificationException", "Message": "skip"},
        "ResponseMetadata": {"RetryAttempts": tries},
    }

    def update_table(**_given: Any) -> None:
        raise ClientError(said, "UpdateTable")

    with pytest.raises(ClientError if known else UnknownOutcome, match="ConcurrentModification"):
        told(update_table, "update_table", "http://glue")(Name="t")


def test_what_glue_refuses_is_said_as_it_is() -> None:
    def update_table(**_given: Any) -> None:
        raise ClientError(
            {"Error": {"Code": "AccessDeniedException"}, "ResponseMetadata": {"RetryAttempts": 2}},  # type: ignore[typeddict-item]
            "UpdateTable",
        )

    with pytest.raises(ConfigError, match="AccessDenied"):
        told(update_table, "update_table", "http://glue")()


def test_a_database_that_the_role_may_not_look_into_holds_nothing_for_it() -> None:
    def get(**_given: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetTables")

    assert told(get, "get_tables", "http://glue")(DatabaseName="others") == {"TableList": []}
    with pytest.raises(ConfigError, match="AccessDenied"):
        told(get, "get_table", "http://glue")(DatabaseName="others", Name="t")


@pytest.mark.parametrize("place", [("glue://", "file:///lake"), ("sqlite:////c.db", "s3://bucket/lake")])
def test_a_region_that_nobody_says_is_not_assumed(place: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match="set AWS_REGION"):
        open_catalog(*place, {})


def test_two_lakes_of_glue_look_different() -> None:
    def lake(uri: str) -> Lake:
        return Lake(open_catalog(uri, "s3://lake/w", {"AWS_REGION": "eu-central-1"}))

    assert repr(lake("glue://111111111111")) == "<lake glue://111111111111 in eu-central-1>"
    assert repr(lake("glue://#client.region=eu-west-1")) == "<lake glue:// in eu-west-1>"
