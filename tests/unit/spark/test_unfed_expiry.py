"""The care of a table that no stream feeds: expiry reckons from main as it is then, not as it was before compaction."""

from types import SimpleNamespace
from typing import Any

import pytest
from obstore.store import MemoryStore

from firn.config.maintenance import Expiry
from firn.config.names import TableName
from firn.config.reader import parse
from firn.maintenance import unfed
from firn_spark import maintenance_job

CARE = "care: {also: [reports.*], expire: {at_least: 20, at_most: 500}}"
CONFIG = parse(f"{CARE}\nstreams: {{shop: {{tables: {{a: {{to: shop.a, key: [id]}}}}}}}}", "firn.yaml")
NAME = TableName("reports", "one")
FLINK = {"flink.job-id": "a", "flink.max-committed-checkpoint-id": "7"}
PLAIN = {"operation": "append"}


def table(*newest_first: dict[str, str]) -> Any:
    return SimpleNamespace(name=NAME, state=SimpleNamespace(ancestry=newest_first, location="memory:///one"))


def test_what_compaction_and_others_put_on_main_pushes_no_writers_place_out(monkeypatch: pytest.MonkeyPatch) -> None:
    before, since = (*[PLAIN] * 30, FLINK, *[PLAIN] * 30), [{"operation": "replace"}] * 3
    now = table(*since, *before)
    rules: list[Expiry] = []

    def expire_all(_spark: Any, _store: Any, _table: Any, rule: Expiry, *_: Any, **__: Any) -> list[Any]:
        rules.append(rule)
        return []

    for name, made in (("facts_beside", lambda *_: None), ("fence", lambda *_: None), ("expire_all", expire_all)):
        monkeypatch.setattr(maintenance_job, name, made)
    job = object.__new__(maintenance_job._Job)
    request = maintenance_job.Request("run", ("expire",), (NAME,), dry_run=True)
    there: Any = SimpleNamespace(look_again=lambda _: now)
    job.__dict__ |= {"_spark": None, "_store": MemoryStore(), "_config": CONFIG, "_request": request, "_tables": there}
    assert list(job._cared(table(*before), [unfed.HEALTH])) == []
    assert [FLINK in now.state.ancestry[: rule.at_least] for rule in rules] == [True]
