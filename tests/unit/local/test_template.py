"""Reading a SAM template: intrinsics, functions, events, queues; and the repository's own template."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from firn_local.environment import REPOSITORY, TEMPLATE
from firn_local.intrinsics import Scope, TemplateError, load
from firn_local.template import Template, read, schedule_seconds


def resolve(text: str) -> Any:
    scope = Scope(
        values={"Name": "shop", "Empty": "", "Zones": ["a", "b"], "Bucket": "lake", "AWS::Region": "us-east-1"},
        attributes={("Queue", "Arn"): "arn:queue"},
        conditions={
            "IsShop": {"Fn::Equals": [{"Ref": "Name"}, "shop"]},
            "IsOther": {"Fn::Not": [{"Condition": "IsShop"}]},
        },
        mappings={"Sizes": {"us-east-1": {"small": 1}}},
    )
    return scope.resolve(load(f"value: {text}")["value"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!Ref Name", "shop"),
        ("{Ref: Name}", "shop"),
        ("!GetAtt Queue.Arn", "arn:queue"),
        ("{'Fn::GetAtt': [Queue, Arn]}", "arn:queue"),
        ("!Sub 's3://${Bucket}/${AWS::Region}/${Queue.Arn}/${!Literal}'", "s3://lake/us-east-1/arn:queue/${Literal}"),
        ("!Sub ['${Name}-${Local}', {Local: !Ref Bucket}]", "shop-lake"),
        ("!If [IsShop, 1, 2]", 1),
        ("!If [IsOther, 1, 2]", 2),
        ("{a: !If [IsOther, 1, !Ref 'AWS::NoValue'], b: 2}", {"b": 2}),
        ("[!If [IsOther, 1, !Ref 'AWS::NoValue'], 2]", [2]),
        ("!Join ['-', [a, !Ref Name]]", "a-shop"),
        ("!Select [1, !Ref Zones]", "b"),
        ("!Split [',', 'a,b']", ["a", "b"]),
        ("!FindInMap [Sizes, !Ref 'AWS::Region', small]", 1),
        ("!And [!Condition IsShop, !Not [!Condition IsOther]]", True),
        ("!Or [!Condition IsOther, !Equals ['', !Ref Empty]]", True),
    ],
)
def test_an_intrinsic_is_worked_out(text: str, value: Any) -> None:
    assert resolve(text) == value


@pytest.mark.parametrize("text", ["!Ref Nobody", "!GetAtt Nobody.Arn", "!If [Maybe, 1, 2]", "!ImportValue x"])
def test_what_is_not_known_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(TemplateError, match=r"Nobody|Maybe|ImportValue"):
        resolve(text)


@pytest.mark.parametrize(
    ("expression", "seconds"),
    [
        ("rate(1 minute)", 60),
        ("rate(5 minutes)", 300),
        ("rate(2 seconds)", 2),
        ("rate(1 day)", 86400),
        ("cron(0 3 * * ? *)", None),
    ],
)
def test_schedules_are_periods_in_seconds(expression: str, seconds: float | None) -> None:
    assert schedule_seconds(expression) == seconds


def read_text(folder: Path, resources: str, head: str = "") -> Template:
    (folder / "code").mkdir(exist_ok=True)
    (folder / "template.yaml").write_text(f"{head}\nResources:\n{resources}")
    return read(folder / "template.yaml", queue_urls="http://localhost")


def test_globals_lie_under_a_functions_own_properties(tmp_path: Path) -> None:
    head = "Globals: {Function: {Handler: app.handler, Timeout: 9, Environment: {Variables: {A: 1, B: 1}}}}"
    text = "  F: {Type: AWS::Serverless::Function, Properties: {CodeUri: code, Environment: {Variables: {B: true}}}}"
    (function,) = read_text(tmp_path, text, head).functions
    assert (function.name, function.logical_id, function.handler, function.timeout) == ("code", "F", "app.handler", 9)
    assert function.environment == {"A": "1", "B": "true"}


def test_a_resource_whose_condition_is_false_is_left_out(tmp_path: Path) -> None:
    head = "Conditions: {Never: !Equals [a, b]}"
    text = "  Q: {Type: AWS::SQS::Queue, Condition: Never}\n  P: {Type: AWS::SQS::Queue}"
    assert [queue.logical_id for queue in read_text(tmp_path, text, head).queues] == ["P"]


def test_a_dead_letter_queue_comes_before_the_queue_that_names_it(tmp_path: Path) -> None:
    text = (
        "  A: {Type: AWS::SQS::Queue, Properties: {RedrivePolicy: "
        "{deadLetterTargetArn: !GetAtt B.Arn, maxReceiveCount: 3}}}\n"
        "  B: {Type: AWS::SQS::Queue, Properties: {QueueName: dead}}"
    )
    first, second = read_text(tmp_path, text).queues
    assert (first.name, second.logical_id) == ("dead", "A")
    policy = json.loads(second.attributes["RedrivePolicy"])
    assert policy == {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:123456789012:dead", "maxReceiveCount": 3}


def test_events_that_do_not_run_here_are_noted(tmp_path: Path) -> None:
    events = "{A: {Type: Schedule, Properties: {Schedule: 'cron(0 3 * * ? *)'}}, B: {Type: S3, Properties: {}}}"
    text = f"  F: {{Type: AWS::Serverless::Function, Properties: {{CodeUri: code, Handler: a.b, Events: {events}}}}}"
    notes = read_text(tmp_path, text).notes
    assert ["cron" in notes[0], "S3" in notes[1]] == [True, True]


def test_a_function_without_code_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="nowhere"):
        read_text(tmp_path, "  F: {Type: AWS::Serverless::Function, Properties: {CodeUri: nowhere, Handler: a.b}}")


def own(**more: str) -> Template:
    given = {"WithEmr": "false", "EmrApplicationId": "00local", **more}
    return read(TEMPLATE, given, queue_urls="http://localhost:1")


def test_the_repositorys_template_has_its_functions_with_their_events() -> None:
    functions = {function.name: function for function in own().functions}
    assert set(functions) == {
        *("ingest_http", "ingest_queue", "dispatch", "job_events", "compact", "expire", "tier", "alerts", "query")
    }
    assert {(route.method, route.path) for route in functions["ingest_http"].api} == {
        ("POST", "/v1/streams/{stream}"),
        ("POST", "/v1/streams/{stream}/tables/{table}"),
        ("GET", "/v1/streams"),
        ("GET", "/v1/batches/{id}"),
        ("GET", "/v1/health"),
        ("GET", "/v1/tables/{table}/health"),
    }
    (source,) = functions["ingest_queue"].queues
    assert source.report_failures
    assert [schedule.seconds for schedule in functions["dispatch"].schedules] == [60, 86_400]
    assert [schedule.seconds for schedule in functions["tier"].schedules] == [86_400]
    assert [layer.parts[-3] for layer in functions["tier"].layers] == ["layers", "layers"]
    (rule,) = functions["job_events"].rules
    assert rule.pattern["detail"] == {"applicationId": ["00local"], "state": ["SUCCESS", "FAILED", "CANCELLED"]}
    assert own().binary_types == ("*/*",)


def test_the_function_for_streams_is_there_with_what_triggers_it() -> None:
    given = {"WithEmr": "false", "EmrApplicationId": "00local"}
    for parameters, kinds in (
        ({"KinesisStreamArn": "arn:aws:kinesis:us-east-1:123456789012:stream/s"}, {"kinesis"}),
        ({"KafkaTopic": "t", "KafkaBootstrapServers": "b:9092"}, {"kafka"}),
        ({"KafkaTopic": "t", "MskClusterArn": "arn:aws:kafka:us-east-1:123456789012:cluster/b/1"}, {"kafka"}),
    ):
        found = read(TEMPLATE, given | parameters)
        assert "ingest_stream" in {function.name for function in found.functions}
        assert set(found.mappings) == kinds
    assert not own().mappings


def test_the_avro_layer_has_what_the_project_asks_for() -> None:
    lines = (REPOSITORY / "layers/avro/python/requirements.txt").read_text().splitlines()
    wanted = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]["avro"]
    assert [line for line in lines if line and not line.startswith("#")] == wanted


def test_the_queue_waits_long_enough_for_its_function() -> None:
    """Lambda refuses a visibility time-out below the function's, and its guide asks for six times."""
    template = own()
    function = next(function for function in template.functions if function.queues)
    queue = next(queue for queue in template.queues if queue.arn == function.queues[0].queue_arn)
    assert int(queue.attributes["VisibilityTimeout"]) >= 6 * function.timeout
    assert "RedrivePolicy" in queue.attributes


def test_lifecycle_rules_expire_what_may_go_and_nothing_that_was_acknowledged() -> None:
    text = load(TEMPLATE.read_text())
    buckets = {name: text["Resources"][name]["Properties"] for name in ("StagingBucket", "WarehouseBucket")}
    rules = {name: of["LifecycleConfiguration"]["Rules"] for name, of in buckets.items()}
    days = {rule["Prefix"]: rule["ExpirationInDays"] for rule in rules["StagingBucket"] if "ExpirationInDays" in rule}
    logs = {"dead/", "replays/", "receipts/", "alerts/", "attempts/", "jobs/", "reads/", "care/", "results/", "usage/"}
    assert set(days) == logs
    assert all("ExpirationInDays" not in rule for rule in rules["WarehouseBucket"])
    # A letter whose replay is forgotten could be replayed twice.
    assert days["replays/"] > text["Parameters"]["DeadLetterDays"]["MaxValue"]
    assert not any("Transitions" in rule for found in rules.values() for rule in found)


def test_every_setting_of_the_functions_is_declared_in_the_template() -> None:
    declared = {name for function in own(Console="on").functions for name in function.environment}
    source = (REPOSITORY / "layers/core/python/firn/settings.py").read_text()
    assert set(re.findall(r'"(FIRN_[A-Z_]+)"', source)) <= declared


def test_the_layers_requirements_are_the_projects_dependencies() -> None:
    lines = (REPOSITORY / "layers/core/python/requirements.txt").read_text().splitlines()
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert [line for line in lines if line and not line.startswith("#")] == project["dependencies"]


def test_the_lake_layer_has_the_projects_pyiceberg_and_no_pyarrow() -> None:
    lines = (REPOSITORY / "layers/lake/python/requirements.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    lake = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]["lake"]
    assert wanted[0] in lake
    assert wanted[0].startswith("pyiceberg[")
    assert not any(line.startswith(("pyarrow", "duckdb")) for line in wanted)


def test_the_query_layer_has_what_the_lake_layer_lacks_of_the_projects_lake() -> None:
    lake = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]["lake"]
    lines = {
        line
        for layer in ("lake", "query")
        for line in (REPOSITORY / f"layers/{layer}/python/requirements.txt").read_text().splitlines()
    }
    assert set(lake) <= lines
