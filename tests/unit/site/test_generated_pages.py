"""Pages made from the code say all of it, and the schema in docs/ is the one that the code gives."""

import json

import msgspec

from firn.log.dead_letters.reasons import ADVICE
from firn.metrics import Metric
from infra.site import command_line_page, error_page, http_api, metrics_page, parameters_page, settings_page
from infra.site.__main__ import SCHEMA, schema_text


def test_the_schema_in_docs_is_what_firn_config_schema_prints() -> None:
    assert SCHEMA.read_text() == schema_text(), "run .venv/bin/python -m infra.site schema"


def test_every_code_of_an_answer_says_what_to_do_and_no_other() -> None:
    assert error_page.answers().keys() == error_page.WHAT_TO_DO.keys()


def test_codes_are_found_where_they_are_raised() -> None:
    assert error_page.answers()["unknown_table"] == {404}
    assert error_page.answers()["backlog_full"] == {429}
    assert error_page.answers()["not_encodable"] == {422}


def test_the_error_page_has_every_reason_of_a_dead_letter() -> None:
    page = error_page.page()
    assert all(f"| `{reason}` |" in page for reason in ADVICE)


def test_every_command_has_its_part() -> None:
    page = command_line_page.page()
    assert "firn dead replay" in command_line_page.commands()
    assert all(f"# `{command}`\n" in page for command in command_line_page.commands())
    assert "| `--as-of <str>` |" in page


def test_every_metric_has_its_line() -> None:
    assert all(f"| `{one.value}` | {one.unit} |" in metrics_page.page() for one in Metric)


def test_every_route_is_described_and_every_reference_leads_somewhere() -> None:
    document = http_api.document()
    assert "/v1/streams/{stream}/tables/{table}" in document["paths"]
    text = json.dumps(document)
    wanted = set(
        msgspec.json.decode(json.dumps([part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]]))
    )
    assert wanted
    assert wanted <= document["components"]["schemas"].keys()


def test_parameters_limits_and_settings_come_from_what_counts() -> None:
    assert "| `MaxBodyBytes` | `4194304` |" in parameters_page.parameters_page()
    assert "| 4,194,304 | `MaxBodyBytes`" in parameters_page.limits_page()
    assert "## `streams.NAME.commit`" in settings_page.page()
