"""Every reason that the source code can give has its advice and its line in docs/dead-letters.md, and no other has."""

import re
from pathlib import Path

from firn.changes.decode.codec import DECIMAL_AS_TEXT
from firn.log.dead_letters.reasons import ADVICE, advice

ROOT = Path(__file__).parents[3]
# Errors about one event, and about the text of one queue message, which becomes a letter as a whole.
RAISED = re.compile(r'(?:EventError|Refused)\(\s*"(\w+)"|RequestError\(\s*4(?:00|13),\s*"(\w+)"|\bfault = "(\w+)"')


def codes() -> set[str]:
    found: set[str] = set()
    for folder in ("layers/core/python/firn/changes", "layers/core/python/firn/config", "spark_emr"):
        for file in (ROOT / folder).rglob("*.py"):
            found.update(code for match in RAISED.findall(file.read_text()) for code in match if code)
    for name in ("ingest/accept.py", "ingest/queue.py", "ingest/reprocess.py"):
        text = (ROOT / "layers/core/python/firn" / name).read_text()
        found.update(re.findall(r'EventError\(\s*"(\w+)"', text))
    return found


def test_the_scan_finds_the_codes() -> None:
    assert {"bad_json", "not_utf8", "no_key", "type_mismatch", "message_conflict", "reserved_name"} <= codes()


def test_each_reason_has_its_advice() -> None:
    assert codes() - set(ADVICE) == set()


def test_the_page_lists_each_reason_and_no_other() -> None:
    page = (ROOT / "docs" / "dead-letters.md").read_text()
    reasons = page.split("## Reasons")[1].split("##")[0]
    assert re.findall(r"^\| `(\w+)` \|", reasons, re.MULTILINE) == list(ADVICE)


def test_a_reason_of_a_newer_firn_is_looked_up() -> None:
    assert "docs/dead-letters.md" in advice("invented_later")


def test_a_decimal_that_is_no_base64_is_likely_sent_as_text() -> None:
    said = advice("type_mismatch", f"column total: the text is not base64{DECIMAL_AS_TEXT}")
    assert said.startswith("write `debezium: {decimal.handling.mode: string}` of the stream into firn.yaml")
    assert said.endswith(f"else {advice('type_mismatch')}")
    assert advice("type_mismatch", "column total: not a number") == advice("type_mismatch")
