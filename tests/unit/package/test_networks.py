"""Who is in a VPC, and what a deployment without one refuses."""

from functools import cache
from typing import Any

import pytest

from firn.config.reach import databases_of
from firn_local.environment import TEMPLATE
from firn_local.intrinsics import load
from tests.integration.stack.granted import grants, scope_and_resources

TEXT = load(TEMPLATE.read_text())
NETWORK = {"SubnetIds": "subnet-a,subnet-b", "SecurityGroupIds": "sg-a"}
JOB = {"JobSha256": "ab" * 32}
OPEN_TABLES = {"Query", "Tier"}


@cache
def deployed(parameters: frozenset[tuple[str, str]]) -> tuple[Any, dict[str, Any]]:
    """What names mean there, and the resources."""
    return scope_and_resources(TEMPLATE, dict(parameters))


def properties(name: str, **parameters: str) -> dict[str, Any]:
    scope, resources = deployed(frozenset(parameters.items()))
    found: dict[str, Any] = scope.resolve(resources[name]["Properties"])
    return found


def of_type(kind: str) -> set[str]:
    return {name for name, one in deployed(frozenset())[1].items() if one["Type"] == kind}


def refusals(**parameters: str) -> list[str]:
    """What CloudFormation says of these parameters before it makes anything."""
    scope, _ = deployed(frozenset(parameters.items()))
    return [
        one["AssertDescription"]
        for rule in TEXT["Rules"].values()
        if scope.resolve(rule.get("RuleCondition", True))
        for one in rule["Assertions"]
        if not scope.resolve(one["Assert"])
    ]


def test_jobs_and_the_functions_that_open_tables_are_in_the_network_and_no_others() -> None:
    given = {"SubnetIds": ["subnet-a", "subnet-b"], "SecurityGroupIds": ["sg-a"]}
    inside = {name: properties(name, **NETWORK).get("VpcConfig") for name in of_type("AWS::Serverless::Function")}
    assert {name: one for name, one in inside.items() if one} == dict.fromkeys(OPEN_TABLES, given)
    # Who opens tables carries what opens them; a function that is new here has to choose.
    assert {
        name for name in of_type("AWS::Serverless::Function") if "LakeLayer" in properties(name).get("Layers", ())
    } == OPEN_TABLES
    assert properties("SparkApplication", **NETWORK)["NetworkConfiguration"] == given


def test_without_a_network_nothing_is_in_one_and_nobody_may_join_one() -> None:
    assert not any("VpcConfig" in properties(name) for name in of_type("AWS::Serverless::Function"))
    assert "NetworkConfiguration" not in properties("SparkApplication")
    assert not [name for name in of_type("AWS::IAM::Role") if "ec2:" in str(properties(name))]


@pytest.mark.parametrize("function", sorted(OPEN_TABLES))
def test_lambda_may_make_their_interfaces_and_their_code_may_not(function: str) -> None:
    granted = [one for one in grants(TEMPLATE, f"{function}Role", NETWORK) if one.action.startswith("ec2:")]
    # AWS managed policy AWSLambdaVPCAccessExecutionRole, but for its logs.
    assert {one.action.removeprefix("ec2:") for one in granted} == {
        "CreateNetworkInterface", "DescribeNetworkInterfaces", "DescribeSubnets", "DeleteNetworkInterface",
        "AssignPrivateIpAddresses", "UnassignPrivateIpAddresses",
    }  # fmt: skip
    policies = properties(f"{function}Role", **NETWORK)["Policies"]
    statements = [one for policy in policies for one in policy["PolicyDocument"]["Statement"]]
    (joins,) = [one for one in statements if one["Sid"] == "JoinTheNetwork"]
    assert joins["Condition"] == {"Null": {"lambda:SourceFunctionArn": "true"}}


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, None),
        (NETWORK, None),
        ({"SubnetIds": "subnet-a"}, "SecurityGroupIds is missing"),
        ({"SecurityGroupIds": "sg-a"}, "SubnetIds is missing"),
        ({"CatalogUri": "postgresql://db.example.org/lake"}, "CatalogUri names a catalog"),
        ({"CatalogUri": "thrift://metastore:9083", **NETWORK}, None),
        ({"CatalogUri": ""}, None),
        ({"CatalogUri": "sqlite:////catalog.db", "WithEmr": "false"}, None),
    ],
)
def test_a_deployment_that_could_not_work_is_refused_before_anything_is_made(
    parameters: dict[str, str], said: str | None
) -> None:
    found = refusals(GlueDatabases="shop", **JOB, **parameters)
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


@pytest.mark.parametrize(
    ("parameters", "network"),
    [({}, "none"), (NETWORK, "given"), ({"WithEmr": "false", "EmrApplicationId": "00f1"}, "given")],
)
def test_functions_and_commands_know_whether_jobs_have_a_network(parameters: dict[str, str], network: str) -> None:
    scope, _ = deployed(frozenset(parameters.items()))
    assert scope.resolve(TEXT["Outputs"]["Network"]["Value"]) == network
    for name in ("Dispatch", "JobEvents", "Compact", "Expire"):
        assert properties(name, **parameters)["Environment"]["Variables"]["FIRN_NETWORK"] == network


def test_jobs_and_commands_know_their_databases() -> None:
    def told(**parameters: str) -> tuple[str, ...]:
        variables = properties("Dispatch", **JOB, **parameters)["Environment"]["Variables"]
        words = variables["FIRN_SPARK_SUBMIT_PARAMETERS"].split()
        assert len(words) == len(variables["FIRN_SPARK_SUBMIT_PARAMETERS"].split(" "))
        env = "spark.emr-serverless.driverEnv."
        found = dict(one.removeprefix(env).split("=", 1) for one in words if one.startswith(env))
        return databases_of(found)

    scope, _ = scope_and_resources(TEMPLATE, {"GlueDatabases": "shop,crm_*"})
    assert scope.resolve(TEXT["Outputs"]["Databases"]["Value"]) == "shop,crm_*"
    assert told(GlueDatabases="shop,crm_*") == ("shop", "crm_*")
    assert told(GlueDatabases="shop", CatalogUri="") == ("shop",)
    assert told() == ()
    assert told(GlueDatabases="shop", CatalogUri="thrift://metastore:9083", **NETWORK) == ()


def test_no_output_has_the_name_of_a_list() -> None:
    # `sam build` puts a parameter's value where an output has its name, and can't with a list.
    lists = {name for name, one in TEXT["Parameters"].items() if one["Type"] == "CommaDelimitedList"}
    assert len(lists) > 3
    assert not lists & TEXT["Outputs"].keys()
