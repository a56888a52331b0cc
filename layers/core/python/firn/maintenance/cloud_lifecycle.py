"""The lifecycle rules that Firn wants of Azure's and Google's storage, as their own tools take them. Pure: whoever owns
the account puts them there, since both take all rules of an account or bucket at once.

Azure: "Lifecycle management policy structure"; Google: "Object Lifecycle Management", both in the clouds' documents.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from firn.errors import ConfigError
from firn.maintenance.bucket_lifecycle import StagingDays

AZURE_TIERS: Final = {"Cool": "tierToCool", "Cold": "tierToCold"}
GOOGLE_CLASSES: Final = ("NEARLINE", "COLDLINE", "ARCHIVE")
_UNREADABLE: Final = "is an archive: reads of a table would fail until it is rehydrated"


@dataclass(frozen=True)
class Cold:
    """What is not written for so many days moves to this class (Azure: access tier)."""

    days: int
    storage_class: str


def rules(staging: str, warehouse: str = "", cold: Cold | None = None) -> Mapping[str, Any]:
    """What expires in the staging area, and with `cold` what moves in the warehouse: Azure's policy or Google's
    configuration, by the addresses. Raises ConfigError for S3 and folders, for two clouds, and for a class that is none
    or that can't be read."""
    places = [place for place in (staging, warehouse) if place]
    kinds = {place.partition("://")[0] for place in places}
    if cold is not None and not warehouse:
        raise ConfigError("what becomes cold are the warehouse's files: say where it is")
    if kinds == {"abfss"}:
        return {"rules": [*_azure_staging(staging), *(_azure_cold(warehouse, cold) if cold else ())]}
    if kinds == {"gs"}:
        return {"lifecycle": {"rule": [*_google_staging(staging), *(_google_cold(warehouse, cold) if cold else ())]}}
    raise ConfigError(
        f"rules are for one of Azure (abfss://) and Google (gs://), not for {' and '.join(places)}: in S3 Firn keeps "
        "them itself, and a folder has none"
    )


def _azure_staging(staging: str) -> list[dict[str, Any]]:
    # More than so many days: what SQS brings again after 14 finds its receipt.
    return [
        _azure_rule(f"firn{folder}", f"{_azure_prefix(staging)}{folder}/", {"delete": _older(days)})
        for folder, days in asdict(StagingDays()).items()
    ]


def _azure_cold(warehouse: str, cold: Cold) -> list[dict[str, Any]]:
    if cold.storage_class not in AZURE_TIERS:
        why = _UNREADABLE if cold.storage_class == "Archive" else "is no access tier for tables"
        raise ConfigError(f"{cold.storage_class} {why}; write {' or '.join(AZURE_TIERS)}")
    return [_azure_rule("firncold", _azure_prefix(warehouse), {AZURE_TIERS[cold.storage_class]: _older(cold.days)})]


def _azure_rule(name: str, prefix: str, action: Mapping[str, Any]) -> dict[str, Any]:
    filters = {"blobTypes": ["blockBlob"], "prefixMatch": [prefix]}
    definition = {"filters": filters, "actions": {"baseBlob": action}}
    return {"name": name, "enabled": True, "type": "Lifecycle", "definition": definition}


def _older(days: int) -> dict[str, int]:
    return {"daysAfterModificationGreaterThan": days}


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


def _google_cold(warehouse: str, cold: Cold) -> list[dict[str, Any]]:
    if cold.storage_class not in GOOGLE_CLASSES:
        raise ConfigError(f"{cold.storage_class} is no colder class; write {', '.join(GOOGLE_CLASSES)}")
    prefix = _folder(warehouse.removeprefix("gs://").partition("/")[2])
    condition: dict[str, Any] = {"age": cold.days, "matchesStorageClass": ["STANDARD"]}
    action = {"type": "SetStorageClass", "storageClass": cold.storage_class}
    return [{"action": action, "condition": condition | ({"matchesPrefix": [prefix]} if prefix else {})}]


def _folder(path: str) -> str:
    return f"{path.strip('/')}/" if path.strip("/") else ""
