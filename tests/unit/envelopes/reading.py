"""One event of an emitter, read."""

import json
from typing import Any

from firn.changes.change import Change
from firn.changes.decode.connect_schema import columns_of
from firn.changes.envelopes.parser import parse


def body(*events: Any) -> bytes:
    return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in events).encode()


def changes(envelope: str, *events: Any) -> list[Change]:
    """The changes of events that are all well, the same by `auto`."""
    found = parse(body(*events), envelope)
    assert found.rejected == []
    assert parse(body(*events), "auto") == found
    return list(found.changes())


def change(envelope: str, event: Any) -> Change:
    (found,) = changes(envelope, event)
    return found


def ignored(envelope: str, *events: Any) -> dict[str, int]:
    found = parse(body(*events), envelope)
    assert (len(found), found.rejected) == (0, [])
    assert parse(body(*events), "auto").ignored == found.ignored
    return found.ignored


def refused(envelope: str, event: Any) -> tuple[str, str]:
    """Why an event is a dead letter."""
    (found,) = parse(body(event), envelope).rejected
    return found.code, found.message


def row(image: bytes | None) -> Any:
    return None if image is None else json.loads(image)


def types(change: Change) -> dict[str, str]:
    """The columns of its schema."""
    assert change.schema is not None
    return {one.name: str(one.type) for one in columns_of(change.schema)}
