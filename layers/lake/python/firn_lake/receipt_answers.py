"""Answers about the batches and dead letters of a table, to whom may read it (firn.audit.table_receipts)."""

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import msgspec

from firn.audit.table_receipts import letters_of, receipt_of
from firn.errors import RequestError
from firn.log import published_configs
from firn_lake.answers import Answer, in_json
from firn_lake.question_parameters import BatchOf, LettersOf, read_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firn.log.store import Store


def answer_receipt(
    store: "Store", name: str, target: str | None, only: str | None, parameters: "Mapping[str, str]"
) -> Answer:
    """What became of a batch in the table `name`. `target`: as tables.fed_as; `only`: as for receipt_of.

    Raises RequestError, StorageUnavailable, UnreadableBatch.
    """
    asked = read_parameters(parameters, BatchOf)
    config = published_configs.current(store)
    found = None if target is None else receipt_of(store, config, target, asked.id, only)
    if found is None:
        raise RequestError(
            404, "unknown_batch", f"there is no batch {asked.id[:100]!r} with changes of {name} of which you may hear"
        )
    return in_json({"table": name, **msgspec.to_builtins(found)}, 1)


def answer_letters(
    store: "Store", name: str, target: str | None, only: str | None, parameters: "Mapping[str, str]"
) -> Answer:
    """The dead letters of the table `name`, by day and reason. Raises RequestError, StorageUnavailable."""
    asked = read_parameters(parameters, LettersOf)
    try:
        day = date.fromisoformat(asked.day) if asked.day else None
    except ValueError as error:
        raise RequestError(400, "bad_request", f"{asked.day[:40]!r} is no day: write such as 2026-11-21") from error
    if target is None:
        return in_json({"table": name, "letters": [], "partial": False, "next": None}, 0)
    found = letters_of(store, published_configs.current(store), target, only, datetime.now(UTC), day)
    return in_json({"table": name, **msgspec.to_builtins(found)}, len(found.letters))
