"""What the template grants, beside what functions were seen to use (test_least_privilege.py of the stack)."""

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest

from firn.config.written_secrets import secret_in
from firn_local import template
from firn_local.environment import TEMPLATE
from firn_local.intrinsics import load
from firn_local.template import read
from tests.integration.stack.granted import grants, scope_and_resources

KEY = "arn:aws:kms:us-east-1:123456789012:key/ab"
ACL = "arn:aws:wafv2:us-east-1:123456789012:regional/webacl/a/b"
GIVEN = {"GlueDatabases": "shop,crm_*", "KmsKeyArn": KEY, "WebAclArn": ACL, "ApiAccessLog": "true"}


def of_kind(kind: str, **parameters: str) -> dict[str, Any]:
    """Properties of the resources of that kind, worked out."""
    scope, resources = scope_and_resources(TEMPLATE, parameters)
    return {name: scope.resolve(one.get("Properties", {})) for name, one in resources.items() if one["Type"] == kind}


def statements(**parameters: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for role, properties in of_kind("AWS::IAM::Role", **parameters).items():
        for policy in properties["Policies"]:
            for statement in policy["PolicyDocument"]["Statement"]:
                yield role, statement


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def test_every_right_on_objects_is_for_buckets_of_this_account() -> None:
    found = [(role, one) for role, one in statements() if any(a.startswith("s3:") for a in listed(one["Action"]))]
    assert len(found) > 25
    for role, one in found:
        assert one.get("Condition") == {"StringEquals": {"aws:ResourceAccount": "123456789012"}}, (role, one["Sid"])


@pytest.mark.parametrize("role", ["JobRole", "QueryRole", "TierRole"])
def test_glue_is_reached_in_the_databases_that_were_named_and_no_others(role: str) -> None:
    glue = "arn:aws:glue:us-east-1:123456789012"
    found = grants(TEMPLATE, role, GIVEN)
    for resource, reached in (
        (f"{glue}:catalog", True), (f"{glue}:database/shop", True), (f"{glue}:table/shop/orders", True),
        (f"{glue}:table/crm_eu/people", True), (f"{glue}:table/bank/accounts", False), (f"{glue}:database/bank", False),
        (f"{glue}:table/shopping/carts", False),
    ):  # fmt: skip
        may = {one.action for one in found if fnmatchcase(resource, one.resource)} - {"glue:GetDatabases"}
        assert any(action.startswith("glue:") for action in may) == reached, (resource, may)


def test_without_names_no_database_is_reached() -> None:
    found = [one for one in grants(TEMPLATE, "JobRole", {}) if one.action == "glue:GetTable"]
    assert not any(fnmatchcase("arn:aws:glue:us-east-1:123456789012:table/shop/orders", one.resource) for one in found)


@pytest.mark.parametrize("role", ["JobRole", "QueryRole", "TierRole"])
@pytest.mark.parametrize(
    ("uri", "databases", "reached"),
    [("", "shop", True), ("", "", False), ("postgresql://db.example.org/lake", "shop", False)],
)
def test_glue_is_also_reached_where_firn_yaml_names_the_catalog_and_databases_are_named(
    role: str, uri: str, databases: str, reached: bool
) -> None:
    found = grants(TEMPLATE, role, {"CatalogUri": uri, "GlueDatabases": databases})
    assert any(one.action == "glue:GetTable" for one in found) == reached


@pytest.mark.parametrize("role", ["JobRole", "TierRole", "QueryRole", "DispatchRole", "IngestQueueRole", "CompactRole"])
@pytest.mark.parametrize(
    "uri", ["https://c.example.org/#firn.credential=secretsmanager:firn/dev/catalog/c", "", "glue://"]
)
def test_the_secret_of_another_catalog_is_known_to_who_opens_it_and_to_no_other(role: str, uri: str) -> None:
    found = grants(TEMPLATE, role, {"CatalogUri": uri, "Environment": "dev"})
    where = {
        "secretsmanager:GetSecretValue": "arn:aws:secretsmanager:us-east-1:123456789012:secret:firn/{}-AbCdEf",
        "ssm:GetParameter": "arn:aws:ssm:us-east-1:123456789012:parameter/firn/{}",
    }
    for action, arn in where.items():
        may = [one.resource for one in found if one.action == action]
        opens = role in ("JobRole", "TierRole") and uri != "glue://"
        # The query function knows its readers' keys, which are anywhere below firn/dev/.
        assert any(fnmatchcase(arn.format("dev/catalog/c"), one) for one in may) == (opens or role == "QueryRole")
        assert not any(fnmatchcase(arn.format("prod/catalog/c"), one) for one in may)
        if role != "QueryRole":
            assert not any(fnmatchcase(arn.format("dev/shop"), one) for one in may)


@pytest.mark.parametrize(
    ("uri", "taken"),
    [
        ("", True), ("glue://", True), ("glue://123456789012", True), ("sqlite:////tmp/a b/catalog.db", True),
        ("postgresql://firn@db.example.org:5432/lake#firn.credential=secretsmanager:firn/dev/catalog/pg", True),
        ("https://a:8181/x,https://b:8181/x#warehouse=lake&firn.credential=ssm:/firn/dev/catalog/c", True),
        ("https://c.example.org:8181/x#scope=lake@acme", True), ("https://[::1]:8181/x#scope=lake@acme", True),
        ("thrift://a:9083,thrift://b:9083#hadoop.hive.metastore.kerberos.principal=hive/_HOST@ACME.ORG", True),
        ("https://c.example.org#scope=a:b@acme", True), ("postgresql://u:4#c4nary@db.example.org/lake", False),
        ("postgresql://firn:c4nary@db.example.org/lake", False), ("https://u:c4n/ary@c.example.org/", False),
        ("https://c.example.org/#token=c4nary", False), ("https://c.example.org/#x=y&credential=a:c4nary", False),
    ],
)  # fmt: skip
def test_the_parameter_of_the_catalog_takes_no_secret(uri: str, taken: bool) -> None:
    parameter = load(TEMPLATE.read_text())["Parameters"]["CatalogUri"]
    assert bool(re.fullmatch(parameter["AllowedPattern"], uri)) == taken
    assert (secret_in(uri) is None) == taken, "what the template lets through, jobs are started with"


def test_as_many_databases_can_be_named_as_the_documents_say() -> None:
    names = ",".join(f"name_{n:07d}" for n in range(80))
    given = {"SubnetIds": "subnet-a", "SecurityGroupIds": "sg-a", "JobSha256": "ab" * 32, "Environment": "e" * 16}
    parameters = {**GIVEN, **given, "GlueDatabases": names}
    for role, properties in of_kind("AWS::IAM::Role", **parameters).items():
        # IAM takes 10,240 characters of inline policies a role, without white space.
        documents = [json.dumps(one["PolicyDocument"], separators=(",", ":")) for one in properties["Policies"]]
        assert sum(map(len, documents)) < 10_240, role
    for function, properties in of_kind("AWS::Serverless::Function", **parameters).items():
        # Lambda takes 4 KB of environment.
        variables = properties.get("Environment", {}).get("Variables", {})
        assert len(json.dumps(variables)) < 4096, function


def test_your_own_key_encrypts_what_is_kept_and_each_role_may_use_it() -> None:
    for bucket in of_kind("AWS::S3::Bucket", **GIVEN).values():
        (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
        assert rule["BucketKeyEnabled"] is True
    for queue in of_kind("AWS::SQS::Queue", **GIVEN).values():
        assert queue["KmsMasterKeyId"] == KEY
        assert "SqsManagedSseEnabled" not in queue
    assert {group["KmsKeyId"] for group in of_kind("AWS::Logs::LogGroup", **GIVEN).values()} == {KEY}
    using = {role for role, one in statements(**GIVEN) if one["Resource"] == KEY}
    assert using == set(of_kind("AWS::IAM::Role", **GIVEN))


def test_without_a_key_the_services_own_keys_encrypt() -> None:
    for bucket in of_kind("AWS::S3::Bucket").values():
        (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    for queue in of_kind("AWS::SQS::Queue").values():
        assert queue["SqsManagedSseEnabled"] is True
        assert "KmsMasterKeyId" not in queue
    assert not any("KmsKeyId" in group for group in of_kind("AWS::Logs::LogGroup").values())
    assert "kms" not in json.dumps(list(statements()))


def test_queues_take_no_plain_http() -> None:
    (policy,) = of_kind("AWS::SQS::QueuePolicy").values()
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "sqs:*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    queues = of_kind("AWS::SQS::Queue")
    assert len(policy["Queues"]) == len(queues)
    assert {arn.rpartition(":")[2] for arn in statement["Resource"]} == {one["QueueName"] for one in queues.values()}


def test_an_open_url_lets_callers_in_by_the_url_alone_and_others_let_nobody_in() -> None:
    kind = "AWS::Lambda::Permission"
    assert of_kind(kind) == {}
    given = {one["Action"]: one for one in of_kind(kind, FunctionUrl="NONE").values()}
    assert given["lambda:InvokeFunctionUrl"]["FunctionUrlAuthType"] == "NONE"
    assert given["lambda:InvokeFunction"]["InvokedViaFunctionUrl"] is True
    assert len({one["FunctionName"] for one in given.values()}) == 1


@pytest.mark.parametrize(
    ("region", "given", "urls"),
    [
        ("us-east-1", "AWS_IAM", 2),
        ("us-east-1", "off", 0),
        ("us-gov-west-1", "AWS_IAM", 0),
        ("il-central-1", "NONE", 0),
    ],
)
def test_a_region_without_function_urls_gets_none_and_the_rest_of_the_stack(
    region: str, given: str, urls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `make templates` holds the list of regions against what CloudFormation knows in each.
    monkeypatch.setattr(template, "REGION", region)
    _, resources = scope_and_resources(TEMPLATE, {"FunctionUrl": given})
    kinds = [one["Type"] for one in resources.values()]
    assert kinds.count("AWS::Lambda::Url") == urls
    assert kinds.count("AWS::Lambda::Permission") == 0
    assert kinds.count("AWS::Serverless::Function") == 9
    outputs = load(TEMPLATE.read_text())["Outputs"]
    assert {outputs[name]["Condition"] for name in ("FunctionUrl", "QueryUrl")} == {"HasFunctionUrl"}


def test_api_gateway_asks_for_no_keys_of_its_own_and_hands_none_out() -> None:
    # They would come in x-api-key, where senders and readers have Firn's.
    assert of_kind("AWS::ApiGateway::UsagePlan") == of_kind("AWS::ApiGateway::ApiKey") == {}
    (api,) = of_kind("AWS::Serverless::Api").values()
    assert "ApiKeyRequired" not in api["Auth"]


def test_the_access_log_and_the_web_acl_are_there_where_they_are_asked_for() -> None:
    (api,) = of_kind("AWS::Serverless::Api").values()
    assert "AccessLogSetting" not in api
    assert of_kind("AWS::WAFv2::WebACLAssociation") == {}
    scope, resources = scope_and_resources(TEMPLATE, GIVEN)
    log = scope.resolve(resources["Api"]["Properties"]["AccessLogSetting"])["Format"]
    assert {"from", "path", "status"} <= json.loads(log).keys()
    assert "header" not in log
    assert "WebAclAssociation" in resources


def test_what_jobs_run_is_written_once_and_stays() -> None:
    policies = of_kind("AWS::S3::BucketPolicy")
    statements = {one["Sid"]: one for one in policies["StagingBucketPolicy"]["PolicyDocument"]["Statement"]}
    (code,) = [one for one in statements["OnlyIfAbsent"]["Resource"] if one.endswith("/code/*")]
    assert statements["CodeStays"]["Resource"] == code
    assert statements["CodeStays"]["Action"] == ["s3:DeleteObject", "s3:DeleteObjectVersion"]


def test_jobs_run_what_was_packaged_and_nothing_else() -> None:
    scope, resources = scope_and_resources(TEMPLATE, {"JobSha256": "ab" * 32})
    variables = scope.resolve(resources["Dispatch"]["Properties"]["Environment"]["Variables"])
    assert variables["FIRN_JOB_SHA256"] == "ab" * 32
    code = [word for word in variables["FIRN_SPARK_SUBMIT_PARAMETERS"].replace(",", " ").split() if "s3://" in word]
    code.append(variables["FIRN_JOB_ENTRY_POINT"])
    assert len(code) == 5
    assert all(f"/code/{'ab' * 32}/" in one for one in code)
    # The driver's Python finds nothing of the archive until start.py has checked it.
    assert "driverEnv.PYTHONPATH" not in variables["FIRN_SPARK_SUBMIT_PARAMETERS"]
    assert "--py-files" not in variables["FIRN_SPARK_SUBMIT_PARAMETERS"]


def test_drivers_and_executors_are_told_the_region() -> None:
    scope, resources = scope_and_resources(TEMPLATE, {"JobSha256": "ab" * 32})
    told = scope.resolve(resources["Dispatch"]["Properties"]["Environment"]["Variables"])[
        "FIRN_SPARK_SUBMIT_PARAMETERS"
    ]
    assert "--conf spark.emr-serverless.driverEnv.AWS_REGION=us-east-1 " in told
    assert "--conf spark.executorEnv.AWS_REGION=us-east-1 " in told


def test_jobs_wait_for_room_and_a_warm_worker_holds_a_driver_or_an_executor_with_its_overhead() -> None:
    scope, resources = scope_and_resources(TEMPLATE, {"WarmDrivers": "1", "WarmExecutors": "1", "JobSha256": "ab" * 32})
    application = scope.resolve(resources["SparkApplication"]["Properties"])
    assert application["SchedulerConfiguration"] == {"MaxConcurrentRuns": 15, "QueueTimeoutMinutes": 60}
    # At EMR's 20 GB a worker any disk is a limit of vCPUs that no parameter says.
    assert application["MaximumCapacity"].keys() == {"Cpu", "Memory"}
    told = scope.resolve(resources["Dispatch"]["Properties"]["Environment"]["Variables"])[
        "FIRN_SPARK_SUBMIT_PARAMETERS"
    ]
    settings = dict(re.findall(r"spark\.(\w+\.\w+)=(\S+)", told))
    for worker in application["InitialCapacity"]:
        kind, has = worker["Key"].lower(), worker["Value"]["WorkerConfiguration"]
        assert has["Cpu"] == f"{settings[f'{kind}.cores']} vCPU"
        heap = int(settings[f"{kind}.memory"].removesuffix("g"))
        # EMR Serverless User Guide, "Understanding application behavior": a tenth of it, 384 MB at least, on top.
        assert heap + max(0.1 * heap, 0.384) <= int(has["Memory"].removesuffix(" GB"))


def test_a_first_deploy_that_fails_leaves_no_bucket_in_the_way_of_the_next() -> None:
    _, resources = scope_and_resources(TEMPLATE, {})
    kept = {name: one for name, one in resources.items() if one["Type"] == "AWS::S3::Bucket"}
    assert {one["DeletionPolicy"] for one in kept.values()} == {"RetainExceptOnCreate"}
    assert {one["UpdateReplacePolicy"] for one in kept.values()} == {"Retain"}


def test_a_paused_deployment_starts_nothing_of_its_own() -> None:
    for paused, state in (("false", "ENABLED"), ("true", "DISABLED")):
        events = [
            event
            for function in of_kind("AWS::Serverless::Function", Paused=paused).values()
            for event in function["Events"].values()
            if event["Type"] in ("Schedule", "EventBridgeRule")
        ]
        assert len(events) == 7
        assert {event["Properties"]["State"] for event in events} == {state}
        local = read(TEMPLATE, {"Paused": paused})
        assert any(one.schedules or one.rules for one in local.functions) == (paused == "false")


KEYS = [f"arn:aws:kms:{region}:123456789012:key/{n}" for n, region in enumerate(("eu-central-1", "us-east-1"))]
ELSEWHERE = {
    "Warehouses": "eu=s3://acme-eu/lake?region=eu-central-1,us=s3://acme-us", "WarehouseBuckets": "acme-eu,acme-us",
    "WarehouseKmsKeyArns": ",".join(KEYS),
}  # fmt: skip


@pytest.mark.parametrize(
    ("role", "may"),
    [
        ("JobRole", {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"}),
        ("QueryRole", {"s3:GetObject"}),
        ("TierRole", {"s3:GetObject", "s3:GetObjectTagging", "s3:PutObjectTagging", "s3:DeleteObjectTagging"}),
        ("DispatchRole", set()), ("IngestHttpRole", set()),
    ],
)  # fmt: skip
def test_buckets_of_other_warehouses_and_their_keys_are_for_whom_they_concern(role: str, may: set[str]) -> None:
    found = grants(TEMPLATE, role, ELSEWHERE)

    def of(resource: str) -> set[str]:
        return {one.action for one in found if fnmatchcase(resource, one.resource)}

    assert [of(f"arn:aws:s3:::{bucket}/lake/x") for bucket in ("acme-eu", "acme-us", "acme-eu2")] == [may, may, set()]
    rules = {"s3:GetLifecycleConfiguration", "s3:PutLifecycleConfiguration"} if role == "TierRole" else set()
    assert of("arn:aws:s3:::acme-us") == ({"s3:ListBucket"} | rules if may else set())
    assert [of(key) for key in KEYS] == [{"kms:Decrypt", "kms:GenerateDataKey"} if may else set()] * 2
    for one in grants(TEMPLATE, role, {}):
        assert not fnmatchcase("arn:aws:s3:::acme-eu/lake/x", one.resource), "without them nobody has any right there"


def test_jobs_and_functions_are_told_where_other_warehouses_are() -> None:
    functions = of_kind("AWS::Serverless::Function", **ELSEWHERE)
    told = {
        name: one.get("Environment", {}).get("Variables", {}).get("FIRN_WAREHOUSES") for name, one in functions.items()
    }
    assert {name for name, one in told.items() if one} >= {"Query", "Tier", "Dispatch"}
    submit = functions["Dispatch"]["Environment"]["Variables"]["FIRN_SPARK_SUBMIT_PARAMETERS"].split()
    for of in ("spark.emr-serverless.driverEnv", "spark.executorEnv"):
        assert f"{of}.FIRN_WAREHOUSES={ELSEWHERE['Warehouses']}" in submit
    pattern = load(TEMPLATE.read_text())["Parameters"]["Warehouses"]["AllowedPattern"]
    for text, fits in (
        ("", 1), (ELSEWHERE["Warehouses"], 1), ("eu=s3://a", 1), ("eu=gs://a", 0), ("eu=s3://a b", 0),
        ("eu=s3://a?region=x&endpoint=http://y", 0), ("eu=s3://a --conf x=y", 0), ("eu=s3://a,", 0),
    ):  # fmt: skip
        assert bool(re.fullmatch(pattern, text)) == bool(fits), text
