"""What the template grants to each role, and how that compares with the calls that were seen."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from moto.glue.models import glue_backends
from moto.s3.models import s3_backends

from firn_local.aws import ACCOUNT, REGION
from firn_local.calls import Call
from firn_local.intrinsics import load
from firn_local.template import _scope

# What Lambda itself does with a function's role, where no endpoint of ours sees it: logs (Developer Guide, "Lambda
# permissions with CloudWatch Logs"), and the queue of an event source (the same, "Using Lambda with Amazon SQS").
BY_LAMBDA = {"logs:CreateLogStream", "logs:PutLogEvents"}
BY_LAMBDA_OF_A_QUEUE = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
# The same of streams ("Using Lambda to process records from Amazon Kinesis Data Streams", "Using AWS Lambda with Amazon
# DynamoDB", "Using Lambda with Amazon MSK").
BY_LAMBDA_OF_STREAMS = {
    *(f"kinesis:{name}" for name in ("DescribeStream", "DescribeStreamSummary", "GetRecords", "GetShardIterator")),
    *("kinesis:ListShards", "sqs:SendMessage"),
    *(f"dynamodb:{name}" for name in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")),
    *(f"kafka:{name}" for name in ("DescribeCluster", "DescribeClusterV2", "GetBootstrapBrokers")),
    *(f"kafka-cluster:{name}" for name in ("Connect", "DescribeTopic", "ReadData", "DescribeGroup", "AlterGroup")),
    *(f"ec2:{name}NetworkInterface" for name in ("Create", "Delete")),
    *(f"ec2:Describe{name}" for name in ("NetworkInterfaces", "SecurityGroups", "Subnets", "Vpcs")),
}
# What EMR does with the jobs' role: logs (EMR Serverless User Guide, "Logging for EMR Serverless with CloudWatch"), and
# the packaged job, which the local runner takes from the source tree.
BY_EMR = BY_LAMBDA | {"logs:DescribeLogStreams", "logs:DescribeLogGroups"}


def forget_aws() -> None:
    """Forgets what stacks before left under the same names: moto is one for a whole test process."""
    s3_backends[ACCOUNT]["aws"].reset()
    glue_backends[ACCOUNT][REGION].reset()


@dataclass(frozen=True, order=True)
class Grant:
    """One action on one resource pattern, from the statement `sid`."""

    sid: str
    action: str
    resource: str

    def covers(self, call: Call) -> bool:
        """Whether this allows the call."""
        return fnmatchcase(call.action, self.action) and fnmatchcase(call.resource, self.resource)


def with_what_holds_it(seen: Iterable[Call]) -> list[Call]:
    """The calls, and those of Glue on what holds their resource besides: Glue asks for the right on the catalog and the
    database of a table too, and to list tables on the tables (Developer Guide, "Specifying AWS Glue resource ARNs")."""
    found = []
    for call in seen:
        found.append(call)
        base, _, rest = call.resource.partition("/")
        if call.action.startswith("glue:"):
            names = rest.split("/")
            home = base.rpartition(":")[0]
            held = [f"{home}:catalog", f"{home}:database/{names[0]}"]
            held += [f"{home}:table/{names[0]}/*"] if call.action == "glue:GetTables" else []
            found += [Call(call.who, call.action, resource) for resource in held]
    return found


def scope_and_resources(template: Path, parameters: Mapping[str, str]) -> tuple[Any, dict[str, Any]]:
    """What names mean, and the resources whose condition holds."""
    data = load(template.read_text())
    scope = _scope(data, parameters, "http://localhost")
    resources = data["Resources"]
    return scope, {
        name: one for name, one in resources.items() if "Condition" not in one or scope.condition(one["Condition"])
    }


def grants(template: Path, role: str, parameters: Mapping[str, str]) -> list[Grant]:
    """All that a role of the template grants."""
    scope, resources = scope_and_resources(template, parameters)
    found = []
    for policy in scope.resolve(resources[role]["Properties"]["Policies"]):
        for statement in policy["PolicyDocument"]["Statement"]:
            assert statement["Effect"] == "Allow", f"{role}: only Allow is compared"
            found += [
                Grant(statement["Sid"], action, resource)
                for action in _list(statement["Action"])
                for resource in _list(statement["Resource"])
            ]
    return found


def differences(granted: Iterable[Grant], seen: Iterable[Call], unseen: Iterable[str]) -> list[str]:
    """What is granted and was not used, and what was used and is not granted. `unseen`: actions that can't be seen."""
    granted, seen, unseen = list(granted), sorted(set(seen)), set(unseen)
    told = [
        f"granted and not used: {one.action} on {one.resource} ({one.sid})"
        for one in granted
        if one.action not in unseen and not any(one.covers(call) for call in seen)
    ]
    told += [f"granted without a reason: {action}" for action in sorted(unseen - {one.action for one in granted})]
    used = {f"used and not granted: {c.action} on {c.resource}" for c in seen if not any(g.covers(c) for g in granted)}
    return told + sorted(used)


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
