"""The lifecycle rules that Firn wants of Azure's and Google's storage, as their own tools take them. Pure: whoever owns
the account puts them there, since both take all rules of an account or bucket at once.

Azure: "Lifecycle management policy structure"; Google: "Object Lifecycle Management", both in the clouds' documents.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from firn.errors import ConfigError
from firn.maintenance.bucket_lifecycle import StagingDays


def rules(staging: str) -> Mapping[str, Any]:
    """What expires in the staging area: Azure's policy or Google's configuration, by the address. Raises ConfigError
    for S3 and folders."""
    kind = staging.partition("://")[0]
    if kind == "abfss":
        return {"rules": _azure_staging(staging)}
    if kind == "gs":
        return {"lifecycle": {"rule": _google_staging(staging)}}
    raise ConfigError(
        f"rules are for Azure (abfss://) and Google (gs://), not for {staging}: in S3 Firn keeps them itself, and a "
        "folder has none"
    )


def _azure_staging(staging: str) -> list[dict[str, Any]]:
    # More than so many days: what SQS brings again after 14 finds its receipt.
    return [
        _azure_rule(f"firn{folder}", f"{_azure_prefix(staging)}{folder}/", days)
        for folder, days in asdict(StagingDays()).items()
    ]


def _azure_rule(name: str, prefix: str, days: int) -> dict[str, Any]:
    filters = {"blobTypes": ["blockBlob"], "prefixMatch": [prefix]}
    actions = {"baseBlob": {"delete": {"daysAfterModificationGreaterThan": days}}}
    return {
        "name": name, "enabled": True, "type": "Lifecycle", "definition": {"filters": filters, "actions": actions},
    }  # fmt: skip


def _azure_prefix(url: str) -> str:
    """`abfss://lake@acme…/staging` -> `lake/staging/`: the container is part of it."""
    where, _, path = url.removeprefix("abfss://").partition("/")
    return f"{where.partition('@')[0]}/{_folder(path)}"


def _google_staging(staging: str) -> list[dict[str, Any]]:
    prefix = _folder(staging.removeprefix("gs://").partition("/")[2])
    # An object has an age once it reaches it: a day more, as on Azure and S3.
    return [
        {"action": {"type": "Delete"}, "condition": {"age": days + 1, "matchesPrefix": [f"{prefix}{folder}/"]}}
        for folder, days in asdict(StagingDays()).items()
    ]


def _folder(path: str) -> str:
    return f"{path.strip('/')}/" if path.strip("/") else ""
