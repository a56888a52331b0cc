"""Streams that ask who sends, on the embedded stack: the firn command signs, others are turned away."""

import base64
import json
import tempfile
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import Stack

FOLDER = Path(tempfile.mkdtemp(prefix="firn-secrets-"))
SIGNING, OTHER, API_KEY = FOLDER / "signing", FOLDER / "other", FOLDER / "key"
CONFIG = f"""
streams:
  shop:
    envelope: auto
    auth: {{by: signature, secret: 'file:{SIGNING}'}}
    tables:
      '*': {{to: 'shop.{{table}}'}}
  web:
    envelope: rows
    tables:
      users: {{to: web.users, key: [id]}}
      '*': {{to: 'web.{{table}}', mode: append}}
  crm:
    envelope: auto
    auth: {{by: api_key, secret: 'file:{API_KEY}'}}
    tables:
      '*': {{to: 'crm.{{table}}'}}
"""
EVENT = {
    "op": "c",
    "before": None,
    "after": {"id": 1},
    "source": {"connector": "postgresql", "schema": "public", "table": "t", "sequence": '["1","2"]'},
}


@pytest.fixture(autouse=True, scope="module")
def secrets() -> None:
    SIGNING.write_text("whsec_" + base64.b64encode(bytes(range(32))).decode())
    OTHER.write_text("whsec_" + base64.b64encode(bytes(32)).decode())
    API_KEY.write_text("k" * 32)


@pytest.mark.stack
@pytest.mark.parametrize(("stream", "secret"), [("shop", SIGNING), ("crm", API_KEY)])
def test_firn_send_with_the_right_secret_and_with_a_wrong_one(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str, secret: Path
) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text(json.dumps(EVENT) + "\n")
    for wrong in (None, OTHER):
        if wrong:
            monkeypatch.setenv("FIRN_SECRET_FILE", str(wrong))
        refused = stack.firn("send", stream, str(file), check=False)
        assert refused.returncode == 1
        assert "HTTP 401: this request is not from a sender of this stream" in refused.stdout + refused.stderr
        assert "Traceback" not in refused.stderr
    monkeypatch.setenv("FIRN_SECRET_FILE", str(secret))
    for duplicates in (0, 1):
        sent = json.loads(stack.firn("send", stream, str(file), "--json").stdout)
        assert (sent["accepted"], sent["duplicates"]) == (1, duplicates)


@pytest.mark.stack
def test_a_secret_file_that_is_none_is_said(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text(json.dumps(EVENT) + "\n")
    for secret, said in ((tmp_path / "none", "can't be read"), (tmp_path / "bad", "the sender's secret is not valid")):
        (tmp_path / "bad").write_text("whsec_AAAA")
        monkeypatch.setenv("FIRN_SECRET_FILE", str(secret))
        refused = stack.firn("send", "shop", str(file), check=False)
        assert refused.returncode == 1
        assert said in refused.stdout + refused.stderr
        assert "Traceback" not in refused.stderr


@pytest.mark.stack
def test_plain_rows_are_sent_to_their_table_and_found_before_they_are_committed(stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "rows.ndjson"
    file.write_text('{"id": 1, "name": "Ada"}\n{"id": 2, "name": "Grace"}\n{"id": 1, "name": "Ada L."}\n')
    for duplicates in (0, 1):
        sent = json.loads(stack.firn("send", "web", str(file), "--table", "users", "--json").stdout)
        assert (sent["accepted"], sent["duplicates"]) == (3, duplicates)
    found = json.loads(stack.firn("query", "--fresh", "--json", "SELECT id, name FROM web.users ORDER BY id").stdout)
    assert found == [{"id": 1, "name": "Ada L."}, {"id": 2, "name": "Grace"}]
    odd = "100%41 a/b é?"  # its name is the table's, to the letter
    for way in ((), ("--queue",)):
        stack.firn("send", "web", str(file), "--table", odd, *way)
    until, rows = time.monotonic() + 30, []
    while rows != [{"n": 6}] and time.monotonic() < until:
        rows = json.loads(stack.firn("query", "--fresh", "--json", f'SELECT count(*) AS n FROM web."{odd}"').stdout)
    assert rows == [{"n": 6}], "three by each way"
    refused = stack.firn("send", "web", str(file), check=False)
    assert refused.returncode == 1
    assert "post them to /v1/streams/web/tables/TABLE" in " ".join((refused.stdout + refused.stderr).split())
