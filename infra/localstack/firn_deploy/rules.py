"""The lifecycle rules of a template's buckets, in the words of S3's own API.

LocalStack's CloudFormation drops them silently; S3's own call works there (firn_lake.tiering.lifecycle).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from firn_local.intrinsics import Scope, TemplateError, load


def bucket_rules(template: Path, parameters: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """Logical id of a bucket -> its rules, with the deployed `parameters`. Raises TemplateError, naming the rule."""
    data = load(template.read_text())
    scope = Scope(parameters, {}, data.get("Conditions", {}), data.get("Mappings", {}))
    found = {}
    for name, resource in data["Resources"].items():
        declared = resource.get("Properties", {}).get("LifecycleConfiguration")
        if resource["Type"] != "AWS::S3::Bucket" or declared is None:
            continue
        if "Condition" in resource and not scope.condition(resource["Condition"]):
            continue
        rules: Sequence[Mapping[str, Any]] = scope.resolve(declared)["Rules"]
        found[name] = [_rule(name, rule) for rule in rules]
    return found


def _rule(bucket: str, declared: Mapping[str, Any]) -> dict[str, Any]:
    """AWS::S3::Bucket Rule -> LifecycleRule of PutBucketLifecycleConfiguration."""
    rule: dict[str, Any] = {"ID": declared["Id"], "Status": declared["Status"], "Filter": {"Prefix": ""}}
    for key, value in declared.items():
        match key:
            case "Id" | "Status":
                pass
            case "Prefix":
                rule["Filter"] = {"Prefix": value}
            case "ExpirationInDays":
                rule["Expiration"] = {"Days": int(value)}
            case "ExpiredObjectDeleteMarker":
                rule["Expiration"] = {key: str(value).lower() == "true"}
            case "AbortIncompleteMultipartUpload":
                rule[key] = {"DaysAfterInitiation": int(value["DaysAfterInitiation"])}
            case "NoncurrentVersionExpiration":
                rule[key] = {name: int(number) for name, number in value.items()}
            case "Transitions":
                rule[key] = [
                    {"Days": int(one["TransitionInDays"]), "StorageClass": one["StorageClass"]} for one in value
                ]
            case _:
                raise TemplateError(f"{bucket}, lifecycle rule {declared['Id']}: {key} is not known here yet")
    return rule
