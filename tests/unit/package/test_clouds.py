"""A warehouse on Azure or Google, a table bucket, Glue's REST endpoint: what the template gives, and refuses."""

import re
from fnmatch import fnmatchcase
from itertools import pairwise

import pytest

from firn.config.written_secrets import secret_in
from firn_local.environment import TEMPLATE
from firn_local.intrinsics import load
from infra.package.job import CLOUDS, JARS
from tests.integration.stack.granted import grants
from tests.unit.package.test_networks import JOB, NETWORK, properties, refusals

AZURE = "abfss://lake@acme.dfs.core.windows.net/w"
PLACE = "secretsmanager:firn/dev/storage/azure"
CLIENT = {"AzureClientId": "00aa", "AzureTenantId": "00bb", "AzureSecret": PLACE, "Warehouse": AZURE}
KEY = {"AzureSecret": PLACE, "Warehouse": AZURE}
GOOGLE = {"GoogleCredentials": "ssm:/firn/dev/storage/google", "Warehouse": "gs://acme-lake/w"}
BUCKET = "arn:aws:s3tables:us-east-1:123456789012:bucket/acme"
PARAMETERS = load(TEMPLATE.read_text())["Parameters"]


def submitted(**given: str) -> dict[str, str]:
    """Settings of Spark that jobs are started with, and their jars."""
    text = properties("Dispatch", **JOB, **given)["Environment"]["Variables"]["FIRN_SPARK_SUBMIT_PARAMETERS"]
    assert secret_in(text) is None, "a job is refused with it"
    words = text.split(" ")
    assert "" not in words
    return {"jars": words[words.index("--jars") + 1]} | dict(
        word.split("=", 1) for before, word in pairwise(words) if before == "--conf"
    )


@pytest.mark.parametrize(
    ("given", "names", "jar"),
    [
        (CLIENT, {"AZURE_CLIENT_ID": "00aa", "AZURE_TENANT_ID": "00bb", "FIRN_AZURE_CLIENT_SECRET": PLACE}, "azure"),
        (KEY, {"FIRN_AZURE_KEY": PLACE}, "azure"),
        (GOOGLE, {"FIRN_GOOGLE_CREDENTIALS": "ssm:/firn/dev/storage/google"}, "google"),
        ({}, {}, None),
    ],
)
def test_jobs_and_queries_are_told_where_tables_are_and_the_places_of_secrets(
    given: dict[str, str], names: dict[str, str], jar: str | None
) -> None:
    def of_clouds(found: dict[str, str]) -> dict[str, str]:
        named = ("AZURE_", "FIRN_AZURE", "FIRN_GOOGLE")
        return {name: value for name, value in found.items() if name.startswith(named)}

    told = submitted(**given)
    for prefix in ("spark.emr-serverless.driverEnv.", "spark.executorEnv."):
        assert of_clouds({name.removeprefix(prefix): v for name, v in told.items() if name.startswith(prefix)}) == names
    jars = [url.rpartition("/")[2] for url in told["jars"].split(",")]
    assert jars == [*JARS.values(), *([CLOUDS[jar][2]] if jar else [])], "as they are packed"
    query = properties("Query", **given)["Environment"]["Variables"]
    assert of_clouds(query) == names
    for function in ("Query", "Dispatch", "Tier", "Compact"):
        warehouse = properties(function, **given)["Environment"]["Variables"]["FIRN_WAREHOUSE"]
        assert (warehouse == given.get("Warehouse")) == bool(given), warehouse


@pytest.mark.parametrize("role", ["JobRole", "QueryRole", "TierRole", "DispatchRole", "IngestQueueRole"])
@pytest.mark.parametrize("given", [CLIENT, GOOGLE, {}])
def test_the_secret_of_a_storage_is_known_to_who_opens_tables_and_to_no_other(role: str, given: dict[str, str]) -> None:
    found = grants(TEMPLATE, role, {**given, "Environment": "dev"})
    where = {
        "secretsmanager:GetSecretValue": "arn:aws:secretsmanager:us-east-1:123456789012:secret:firn/{}-AbCdEf",
        "ssm:GetParameter": "arn:aws:ssm:us-east-1:123456789012:parameter/firn/{}",
    }
    for action, arn in where.items():
        may = [one.resource for one in found if one.action == action]
        knows = role == "QueryRole" or (role == "JobRole" and bool(given))
        assert any(fnmatchcase(arn.format("dev/storage/a"), one) for one in may) == knows
        assert not any(fnmatchcase(arn.format("prod/storage/a"), one) for one in may)


@pytest.mark.parametrize("role", ["JobRole", "QueryRole", "TierRole"])
def test_with_tables_elsewhere_nobody_has_rights_on_objects_of_the_stacks_own_warehouse(role: str) -> None:
    lake = "arn:aws:s3:::firn-dev-lake-123456789012-us-east-1/warehouse/shop/t/data/x"
    for given, may in ((GOOGLE, False), ({}, True)):
        found = grants(TEMPLATE, role, {**given, "Environment": "dev"})
        assert any(one.action == "s3:GetObject" and fnmatchcase(lake, one.resource) for one in found) == may


def test_a_table_bucket_is_written_by_jobs_read_by_queries_and_is_the_only_one() -> None:
    for role, may in (
        ("JobRole", {"write", "read"}),
        ("QueryRole", {"read"}),
        ("TierRole", set()),
        ("DispatchRole", set()),
    ):
        found = {
            one.action: one.resource for one in grants(TEMPLATE, role, {"TableBucketArn": BUCKET, "CatalogUri": ""})
        }
        rights = {name for name in found if name.startswith("s3tables:")}
        assert ("s3tables:PutTableData" in rights) == ("write" in may)
        assert ("s3tables:GetTableData" in rights) == ("read" in may)
        assert not any(
            word in name for name in rights for word in ("Policy", "Bucket") if name != "s3tables:GetTableBucket"
        )
    on = {one.resource for one in grants(TEMPLATE, "JobRole", {"TableBucketArn": BUCKET}) if "s3tables" in one.action}
    assert on == {BUCKET, f"{BUCKET}/table/*"}
    assert not any("s3tables" in one.action for one in grants(TEMPLATE, "JobRole", {}))


@pytest.mark.parametrize(
    ("given", "by_rest", "keys"),
    [
        ({"CatalogUri": "", "GlueDatabases": "shop"}, True, False),
        ({"CatalogUri": "", "GlueDatabases": "shop", "LakeFormation": "true"}, True, True),
        ({"GlueDatabases": "shop"}, False, False),
        ({"CatalogUri": ""}, False, False),
    ],
)
def test_glue_s_rest_endpoint_may_be_asked_where_firn_yaml_can_name_it(
    given: dict[str, str], by_rest: bool, keys: bool
) -> None:
    for role in ("JobRole", "QueryRole"):
        actions = {one.action for one in grants(TEMPLATE, role, given)}
        assert ("glue:GetCatalog" in actions) == by_rest
        assert ("lakeformation:GetDataAccess" in actions) == keys
    assert "lakeformation:GetDataAccess" not in {one.action for one in grants(TEMPLATE, "TierRole", given)}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**CLIENT, **NETWORK}, None),
        ({**GOOGLE, **NETWORK}, None),
        ({**GOOGLE, "WithEmr": "false"}, None),
        (GOOGLE, "Warehouse is in a cloud that jobs without a network"),
        ({"Warehouse": AZURE, **NETWORK}, "Warehouse lets nobody in"),
        ({**GOOGLE, **NETWORK, "AzureSecret": PLACE}, "Warehouse is in one cloud"),
        ({**KEY, **NETWORK, "AzureClientId": "a"}, "AzureTenantId is missing"),
        ({**KEY, **NETWORK, "AzureTenantId": "a"}, "AzureClientId is missing"),
    ],
)
def test_a_warehouse_that_could_not_be_used_is_refused_before_anything_is_made(
    given: dict[str, str], said: str | None
) -> None:
    found = refusals(GlueDatabases="shop", **JOB, **given)
    assert len(found) == (said is not None), found
    assert said is None or said in found[0]


@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("Warehouse", "", True), ("Warehouse", AZURE, True), ("Warehouse", "gs://acme-lake", True),
        ("Warehouse", "s3://acme/w", False), ("Warehouse", f"{AZURE}?sig=c4nary", False),
        ("Warehouse", "wasbs://lake@acme.blob.core.windows.net/w", False),
        ("AzureSecret", PLACE, True), ("AzureSecret", "ssm:/firn/dev/storage/a", True),
        ("AzureSecret", "c4nary", False), ("AzureSecret", "secretsmanager:other/x", False),
        ("GoogleCredentials", '{"type": "service_account"}', False),
        ("GoogleCredentials", "file:/etc/passwd", False), ("TableBucketArn", BUCKET, True),
        ("TableBucketArn", f"{BUCKET}/table/x", False), ("TableBucketArn", "arn:aws:s3:::acme", False),
    ],
)  # fmt: skip
def test_the_parameters_take_addresses_and_places_and_no_secrets(name: str, value: str, taken: bool) -> None:
    assert bool(re.fullmatch(PARAMETERS[name]["AllowedPattern"], value)) == taken
