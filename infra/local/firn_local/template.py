"""Reads a SAM template as what the local stack runs: functions with their events, queues and buckets.

Source: AWS SAM specification (AWS::Serverless::Function, its event types Api, SQS, Schedule and EventBridgeRule,
Globals).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firn_local.aws import ACCOUNT, REGION
from firn_local.intrinsics import Scope, TemplateError, load


@dataclass(frozen=True)
class ApiEvent:
    """A REST API route: `path` with {name} and {name+} parameters, `method` in upper case or ANY."""

    path: str
    method: str


@dataclass(frozen=True)
class QueueEvent:
    """An SQS event source. `batch_size` messages at most, gathered for `window` seconds at most."""

    queue_arn: str
    batch_size: int
    window: float
    report_failures: bool


@dataclass(frozen=True)
class ScheduleEvent:
    """A scheduled event every `seconds`; `input` replaces the event when it is not None."""

    name: str
    seconds: float
    input: str | None


@dataclass(frozen=True)
class RuleEvent:
    """An EventBridge rule by its pattern."""

    name: str
    pattern: Mapping[str, Any]


@dataclass(frozen=True)
class Function:
    """A Lambda function. `name` is its code's folder (ingest_http), `logical_id` its name in the template."""

    name: str
    logical_id: str
    handler: str
    code: Path
    layers: tuple[Path, ...]
    environment: Mapping[str, str]
    timeout: float
    memory_mb: int
    api: tuple[ApiEvent, ...] = ()
    queues: tuple[QueueEvent, ...] = ()
    schedules: tuple[ScheduleEvent, ...] = ()
    rules: tuple[RuleEvent, ...] = ()


@dataclass(frozen=True)
class StreamMapping:
    """An event source mapping of Kinesis, DynamoDB Streams or Kafka (AWS::Lambda::EventSourceMapping).

    function         the logical id of the function that is triggered
    batch_size       records at most, gathered for `window` seconds at most
    report_failures  whether the function's answer says from which record on the batch comes again
    bisect           whether a batch that makes the function fail is halved
    retries, max_age how often, and up to which age (s), a batch comes again; -1: without end
    """

    function: str
    batch_size: int = 100
    window: float = 0
    report_failures: bool = False
    bisect: bool = False
    retries: int = -1
    max_age: int = -1


@dataclass(frozen=True)
class Queue:
    """An SQS queue; `attributes` as CreateQueue takes them, redrive policy included."""

    logical_id: str
    name: str
    attributes: Mapping[str, str]

    @property
    def arn(self) -> str:
        """The queue's ARN."""
        return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.name}"


@dataclass(frozen=True)
class Template:
    """What runs. `queues` are ordered so that a dead-letter queue comes before the queues that name it."""

    functions: tuple[Function, ...]
    queues: tuple[Queue, ...]
    buckets: Mapping[str, str]
    binary_types: tuple[str, ...] = ()
    stage: str = "local"
    notes: tuple[str, ...] = field(default=())
    mappings: Mapping[str, StreamMapping] = field(default_factory=dict)  # by kind: kinesis, dynamodb, kafka


# What CreateQueue takes, of what AWS::SQS::Queue has.
_QUEUE_ATTRIBUTES = ("VisibilityTimeout", "MessageRetentionPeriod", "DelaySeconds", "MaximumMessageSize", "FifoQueue")
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


def read(path: Path, parameters: Mapping[str, str] | None = None, *, queue_urls: str = "") -> Template:
    """Read the template at `path`. Raises TemplateError that names what can't be run.

    `parameters` override the template's defaults; `queue_urls` is the SQS endpoint that !Ref of a queue starts with.
    """
    data = load(path.read_text())
    scope = _scope(data, parameters or {}, queue_urls)
    resources = {
        logical_id: resource
        for logical_id, resource in data.get("Resources", {}).items()
        if "Condition" not in resource or scope.condition(resource["Condition"])
    }
    notes: list[str] = []
    functions = []
    defaults = data.get("Globals", {}).get("Function", {})
    for logical_id, resource in resources.items():
        if resource["Type"] == "AWS::Serverless::Function":
            properties = scope.resolve(
                _merged(defaults, resource.get("Properties", {}), skip=("Policies", "Role", "LoggingConfig"))
            )
            functions.append(_function(logical_id, properties, resources, path.parent, notes))
    queues = [
        _queue(logical_id, scope.resolve(resource.get("Properties", {})), scope)
        for logical_id, resource in resources.items()
        if resource["Type"] == "AWS::SQS::Queue"
    ]
    queues.sort(key=lambda queue: "RedrivePolicy" in queue.attributes)
    apis = [r.get("Properties", {}) for r in resources.values() if r["Type"] == "AWS::Serverless::Api"]
    api = (
        scope.resolve({key: apis[0][key] for key in ("BinaryMediaTypes", "StageName") if key in apis[0]})
        if apis
        else {}
    )
    return Template(
        functions=tuple(functions),
        queues=tuple(queues),
        buckets={i: str(scope.values[i]) for i, r in resources.items() if r["Type"] == "AWS::S3::Bucket"},
        binary_types=tuple(kind.replace("~1", "/") for kind in api.get("BinaryMediaTypes", ())),
        stage=str(api.get("StageName", "local")),
        notes=tuple(notes),
        mappings=dict(
            _mapping(scope.resolve(resource["Properties"]))
            for resource in resources.values()
            if resource["Type"] == "AWS::Lambda::EventSourceMapping"
        ),
    )


def _mapping(properties: Mapping[str, Any]) -> tuple[str, StreamMapping]:
    """The kind of its source, and how it brings records. A function's !Ref is its name or its logical id."""
    arn = str(properties.get("EventSourceArn", "")).split(":")
    return arn[2] if len(arn) > 2 else "kafka", StreamMapping(
        str(properties["FunctionName"]),
        int(properties.get("BatchSize", StreamMapping.batch_size)),
        float(properties.get("MaximumBatchingWindowInSeconds", 0)),
        "ReportBatchItemFailures" in properties.get("FunctionResponseTypes", ()),
        bool(properties.get("BisectBatchOnFunctionError", False)),
        int(properties.get("MaximumRetryAttempts", -1)),
        int(properties.get("MaximumRecordAgeInSeconds", -1)),
    )


def _scope(data: Mapping[str, Any], parameters: Mapping[str, str], queue_urls: str) -> Scope:
    declared = data.get("Parameters", {})
    unknown = set(parameters) - set(declared)
    if unknown:
        raise TemplateError(f"the template has no parameter {', '.join(sorted(unknown))}")
    values: dict[str, Any] = {
        "AWS::Region": REGION,
        "AWS::AccountId": ACCOUNT,
        "AWS::Partition": "aws",
        "AWS::StackName": "local",
        "AWS::URLSuffix": "amazonaws.com",
    }
    for name, parameter in declared.items():
        if name not in parameters and "Default" not in parameter:
            raise TemplateError(f"the parameter {name} has no default and the local stack gives it no value")
        value = parameters.get(name, parameter.get("Default"))
        is_list = "List" in parameter.get("Type", "")
        values[name] = [part.strip() for part in str(value).split(",")] if is_list else value
    attributes: dict[tuple[str, str], str] = {}
    scope = Scope(values, attributes, data.get("Conditions", {}), data.get("Mappings", {}))
    for logical_id, resource in data.get("Resources", {}).items():
        reference, found = _resource_values(logical_id, resource, scope, queue_urls)
        values[logical_id] = reference
        attributes.update({(logical_id, name): value for name, value in found.items()})
    return scope


def _resource_values(
    logical_id: str, resource: Mapping[str, Any], scope: Scope, urls: str
) -> tuple[str, dict[str, str]]:
    """What !Ref and !GetAtt give for a resource here. A name that is not given is made from the logical id."""
    properties = resource.get("Properties", {})

    def named(key: str) -> str:
        name = properties.get(key)
        return str(scope.resolve(name)) if name is not None else re.sub(r"(?<=[a-z])(?=[A-Z])", "-", logical_id).lower()

    match resource.get("Type"):
        case "AWS::SQS::Queue":
            name = named("QueueName")
            arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
            url = f"{urls}/{ACCOUNT}/{name}"
            return url, {"Arn": arn, "QueueName": name, "QueueUrl": url}
        case "AWS::S3::Bucket":
            name = named("BucketName")
            return name, {"Arn": f"arn:aws:s3:::{name}", "DomainName": f"{name}.s3.amazonaws.com"}
        case "AWS::IAM::Role":
            name = named("RoleName")
            return name, {"Arn": f"arn:aws:iam::{ACCOUNT}:role/{name}"}
        case "AWS::Serverless::Function":
            name = named("FunctionName")
            return name, {"Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"}
        case "AWS::EMRServerless::Application":
            arn = f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/00localapplicat"
            return "00localapplicat", {"ApplicationId": "00localapplicat", "Arn": arn}
    return logical_id, {"Arn": f"arn:aws:local:{REGION}:{ACCOUNT}:{logical_id}"}


def _merged(defaults: Mapping[str, Any], properties: Mapping[str, Any], skip: tuple[str, ...]) -> dict[str, Any]:
    """Globals under a function's own properties: maps merge, lists add up, anything else is replaced (SAM, Globals)."""
    merged = {key: value for key, value in {**defaults, **properties}.items() if key not in skip}
    if "Environment" in defaults and "Environment" in properties:
        variables = {**defaults["Environment"].get("Variables", {}), **properties["Environment"].get("Variables", {})}
        merged["Environment"] = {"Variables": variables}
    if "Layers" in defaults and "Layers" in properties:
        merged["Layers"] = [*defaults["Layers"], *properties["Layers"]]
    return merged


def _function(
    logical_id: str, properties: Mapping[str, Any], resources: Mapping[str, Any], root: Path, notes: list[str]
) -> Function:
    code = (root / properties["CodeUri"]).resolve()
    if not code.is_dir():
        raise TemplateError(f"{logical_id}: its CodeUri {properties['CodeUri']} is not a folder below {root}")
    layers = []
    # What !Ref of a layer gives here is its logical id.
    for layer in properties.get("Layers", ()):
        content = (root / resources[layer]["Properties"]["ContentUri"]).resolve()
        layers.append(content / "python" if (content / "python").is_dir() else content)
    api: list[ApiEvent] = []
    queues: list[QueueEvent] = []
    schedules: list[ScheduleEvent] = []
    rules: list[RuleEvent] = []
    for name, event in properties.get("Events", {}).items():
        detail = event.get("Properties", {})
        match event["Type"]:
            case "Api":
                api.append(ApiEvent(detail["Path"], str(detail["Method"]).upper()))
            case "SQS" if detail.get("Enabled", True):
                queues.append(
                    QueueEvent(
                        detail["Queue"],
                        int(detail.get("BatchSize", 10)),
                        float(detail.get("MaximumBatchingWindowInSeconds", 0)),
                        "ReportBatchItemFailures" in detail.get("FunctionResponseTypes", ()),
                    )
                )
            case "Schedule" | "EventBridgeRule" if detail.get("State") == "DISABLED":
                continue
            case "Schedule" if detail.get("Enabled", True):
                seconds = schedule_seconds(detail["Schedule"])
                if seconds is None:
                    notes.append(
                        f"{logical_id}: the schedule {detail['Schedule']} does not run here; invoke it by hand"
                    )
                else:
                    schedules.append(ScheduleEvent(name, seconds, detail.get("Input")))
            case "EventBridgeRule":
                rules.append(RuleEvent(name, detail["Pattern"]))
            case kind if kind not in ("SQS", "Schedule"):
                notes.append(f"{logical_id}: events of type {kind} do not run here")
    return Function(
        # `sam build` calls the folder as the resource; its source is called the same in snake case.
        name=code.name if code.name != logical_id else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", logical_id).lower(),
        logical_id=logical_id,
        handler=properties["Handler"],
        code=code,
        layers=tuple(layers),
        environment={k: _text(v) for k, v in properties.get("Environment", {}).get("Variables", {}).items()},
        timeout=float(properties.get("Timeout", 3)),
        memory_mb=int(properties.get("MemorySize", 128)),
        api=tuple(api),
        queues=tuple(queues),
        schedules=tuple(schedules),
        rules=tuple(rules),
    )


def schedule_seconds(expression: str) -> float | None:
    """Seconds of `rate(5 minutes)`; None for cron(…), which does not run here. A rate in seconds is a local extra."""
    found = re.fullmatch(r"rate\((\d+) (second|minute|hour|day)s?\)", expression.strip())
    return float(found[1]) * _UNITS[found[2]] if found else None


def _queue(logical_id: str, properties: Mapping[str, Any], scope: Scope) -> Queue:
    attributes = {name: _text(properties[name]) for name in _QUEUE_ATTRIBUTES if name in properties}
    if "RedrivePolicy" in properties:
        attributes["RedrivePolicy"] = json.dumps(properties["RedrivePolicy"])
    return Queue(logical_id, scope.attributes[logical_id, "QueueName"], attributes)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
