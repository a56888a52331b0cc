"""Tables in a REST catalog that lets in who signs as AWS does, on Iceberg's own handlers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firn.errors import UnknownOutcome
from firn_lake.catalogs.catalog import open_catalog
from tests.aws_signatures import Signer
from tests.integration.catalogs.test_contract import SCHEMA, ids, rows
from tests.rest_catalog import RestServer, rest_server

pytestmark = pytest.mark.stack

REGION, KEY, SECRET = "eu-central-1", "AKIAFIRN", "c4nary/secret+key"
SIGNED = f"rest.sigv4-enabled=true&rest.signing-name=s3tables&rest.signing-region={REGION}"
COMMIT = ("POST", "/v1/namespaces/lake/tables/t")


@pytest.fixture
def signed(jvm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestServer]:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with rest_server(tmp_path, jvm) as running:
        running.signer = Signer(KEY, SECRET, REGION, "s3tables")
        yield running


def test_a_table_is_made_committed_to_and_dropped_by_signed_requests_and_none_is_sent_twice(
    signed: RestServer, tmp_path: Path
) -> None:
    with open_catalog(f"{signed.url}#{SIGNED}", f"file://{tmp_path}/warehouse", {}) as catalog:
        catalog.create_namespace("lake")
        table = catalog.create_table("lake.t", SCHEMA)
        table.append(rows(1, 2))
        signed.calls.clear()
        signed.lose = lambda method, path: (method, path) == COMMIT
        with pytest.raises(UnknownOutcome, match="not known whether"):
            table.append(rows(3))
        signed.lose = lambda _method, _path: False
        assert signed.calls.count(COMMIT) == 1
        assert ids(catalog.load_table("lake.t")) == [1, 2, 3]
        catalog.rename_table("lake.t", "lake.u")
        catalog.drop_table("lake.u")
    assert signed.refused == []
