"""examples/rows does what its page says, and so do the examples of docs/schemas.md."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from firn.config.reader import parse
from firn.deployment.config_text import config_text
from firn.errors import RequestError
from firn.ingest.accept import accept
from firn.log import published_configs

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "rows"
PAGE = (ROOT / "docs" / "schemas.md").read_text("utf-8")
NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)


def test_two_of_five_clicks_are_taken_and_the_answer_says_what_is_wrong_with_the_others() -> None:
    store = MemoryStore()
    published_configs.publish(store, config_text(EXAMPLE / "firn.yaml"))
    config = published_configs.current(store)
    done = accept(store, config, "web", (EXAMPLE / "clicks.ndjson").read_bytes(), now=NOW, table="clicks")
    assert done.accepted == 2
    assert [(e.index, e.reason, e.message.partition(":")[0]) for e in done.errors] == [
        (2, "type_mismatch", "column user_id"), (3, "missing_field", "column page"), (4, "missing_field", "column id"),
    ]  # fmt: skip
    users = [{"id": 1, "name": "Ada", "born": "1815-12-10", "credit": 12.5}, {"id": 2, "name": None}]
    assert accept(store, config, "web", json.dumps(users[:1]).encode(), now=NOW, table="users").accepted == 1
    with pytest.raises(RequestError, match="1: missing_field: column name"):
        accept(store, config, "web", json.dumps(users).encode(), now=NOW, table="users")


def test_the_pages_examples_are_read() -> None:
    texts = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert texts
    for text in texts:
        assert parse(text).streams["web"].has_schemas


def test_the_page_names_each_type_and_the_answer_is_what_ingest_says() -> None:
    from firn.config.schema_reader import _KNOWN

    assert [kind for kind in _KNOWN if f"| `{kind}` |" not in PAGE] == []
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (body,) = re.findall(r"-d '(\[.*?\])'", PAGE, re.DOTALL)
    (answer,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    told = json.loads(answer)
    done = accept(MemoryStore(), parse(text), "web", body.encode(), now=NOW, table="clicks")
    assert {"accepted": done.accepted, "rejected": done.rejected, "schema": done.schema} == {
        name: told[name] for name in ("accepted", "rejected", "schema")
    }
    assert [[e.index, e.reason, e.message] for e in done.errors] == [
        [e["index"], e["reason"], e["message"]] for e in told["errors"]
    ]
