"""A real job with real Spark needs no more than its role and the policy that dispatch started it with."""

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import boto3
import pytest

from firn_local.calls import Call
from firn_local.environment import TEMPLATE
from firn_local.stack import Options, Stack
from tests.integration.stack.granted import BY_EMR, differences, forget_aws, grants, with_what_holds_it
from tests.soak import long_only
from tests.unit.runs.test_session_policy import allowed, permits

pytestmark = [pytest.mark.stack, pytest.mark.spark]

CONFIG = """
streams:
  shop:
    commit: {every: 1s, linger: 0s}
    tables:
      public.orders: {to: shop.orders, key: [id]}
      public.log: {to: shop.log, mode: append}
views:
  shop.totals: {sql: SELECT count(*) AS orders FROM shop.orders}
"""

TABLE = ("GetTable", "CreateTable", "UpdateTable")
# What of its role a job needs on worse days only.
NOT_NEEDED_BY_A_GOOD_COMMIT = {
    "s3:DeleteObject on {lake}/*",  # the files of a commit that another one overtook
    "s3:AbortMultipartUpload on {lake}/*",  # a large file that could not be finished
    "s3:ListBucket on {lake}",  # to be told that a file is gone, not that it is forbidden
    "s3:GetObject on {log}/code/*",  # the packaged job, which the local runner takes from the source tree
    "s3:PutObject on {log}/epochs/*",  # a job that lingers seals
    "s3:PutObject on {log}/dead/*",
    "s3:PutObject on {log}/quarantine/*",
    "s3:GetObject on {log}/quarantine/*",
    "s3:PutObject on {log}/state/*",  # it opens a gate that was shut
    "s3:PutObject on {log}/rebuilds/*",  # firn rebuild
    "s3:PutObject on {log}/staged/*",  # firn backfill, as what follows
    *(f"s3:{do} on {{log}}/backfills/*" for do in ("GetObject", "PutObject")),
    "secretsmanager:GetSecretValue on {secrets}:secret:firn/local/sources/*",
    "ssm:GetParameter on {parameters}:parameter/firn/local/sources/*",
    "s3:GetObject on {log}/tier/*",  # a table that has cold files
    "s3:GetObject on {log}/pulls/*",  # a stream that is pulled
    *(f"s3:{do} on {{log}}/sinks/*" for do in ("GetObject", "PutObject")),  # a stream that writes files
    *(f"s3:{do} on {{log}}/{of}/*" for do in ("GetObject", "PutObject") for of in ("care", "health")),  # at its turn
    *(f"glue:DeleteTable on {of}" for of in ("{glue}:catalog", "{database}", "{tables}")),  # firn rebuild
    # Looking for orphans (tests/integration/spark/test_job_rights.py).
    *(f"glue:GetTables on {of}" for of in ("{glue}:catalog", "{database}", "{tables}")),
    *(f"glue:GetDatabases on {{glue}}:{of}" for of in ("catalog", "database/*")),
    # What is asked of a table or a database is asked of the catalog and of the table's database too.
    *(f"glue:{do} on {{glue}}:catalog" for do in ("GetDatabase", "CreateDatabase", *TABLE)),
    *(f"glue:{do} on {{database}}" for do in TABLE),
    *(f"glue:{do} on {{tables}}" for do in ("GetDatabase", "CreateDatabase")),
    # An object that is there already is read back: perhaps a put of our own was answered by nobody (log/store.py).
    "s3:GetObject on {log}/dead/*",
    "s3:GetObject on {log}/jobs/*",
    "s3:GetObject on {log}/rebuilds/*",
}


def change(number: int, table: str = "orders", op: str = "c") -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "public", "table": table, "ts_ms": 1, "lsn": number}
    source["sequence"] = f'["{number}","{number}"]'
    row = {"id": number if op == "c" else 1, "note": "x"}
    return {"op": op, "before": row if op == "d" else None, "after": row if op == "c" else None, "source": source}


@long_only
def test_a_job_does_what_its_role_and_its_policy_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_aws()
    (tmp_path / "firn.yaml").write_text(CONFIG)
    seen: list[Call] = []
    options = Options(tmp_path / "stack", s3=True, glue=True, port=0, config=tmp_path / "firn.yaml", schedules=False)
    with Stack(options, say=lambda _line: None, observe=seen.append) as stack:
        about = stack.description
        make: Any = boto3.session.Session().client
        emr = make(
            "emr-serverless", endpoint_url=about["aws_endpoint"], region_name="us-east-1",
            aws_access_key_id="test", aws_secret_access_key=about["token"],
        )  # fmt: skip
        application = about["env"]["FIRN_EMR_APPLICATION_ID"]

        def post(path: str, body: Any) -> Any:
            headers = {"Content-Type": "application/json", "X-Firn-Token": about["token"]}
            request = urllib.request.Request(about["url"] + path, json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())

        policies = []
        for n, events in enumerate(([change(1), change(2, "log")], [change(3), change(4, op="d")]), start=1):
            post("/v1/streams/shop", events)
            (done,) = post("/_firn/invoke/dispatch", {"force": True})["streams"]
            run = {"state": ""}
            deadline = time.monotonic() + 240
            while run["state"] not in ("SUCCESS", "FAILED"):
                assert time.monotonic() < deadline, run
                time.sleep(0.5)
                run = emr.get_job_run(applicationId=application, jobRunId=done["run"])["jobRun"]
            assert run["state"] == "SUCCESS", (n, run)
            policies.append(run["executionIamPolicy"]["policy"])

    assert policies[0] == policies[1]
    log = f"arn:aws:s3:::{about['staging'].removeprefix('s3://')}"
    lake = f"arn:aws:s3:::{about['warehouse'].split('/')[2]}"
    glue = "arn:aws:glue:us-east-1:123456789012"
    database, tables = "arn:aws:glue:*:*:database/shop", "arn:aws:glue:*:*:table/shop/*"
    mine = [call for call in seen if call.who == "job"]
    places = {(call.action, *call.resource.split(":::")[1].split("/")[:2]) for call in mine if ":::" in call.resource}
    assert ("s3:PutObject", about["staging"].removeprefix("s3://"), "cuts") in places
    assert ("s3:PutObject", about["warehouse"].split("/")[2], "warehouse") in places

    role = grants(TEMPLATE, "JobRole", {"Environment": "local", "GlueDatabases": "shop"})
    found = differences(role, mine, BY_EMR)
    assert [one for one in found if not one.startswith("granted and not used")] == []
    told = {one.removeprefix("granted and not used: ").split(" (")[0] for one in found}
    named = {"log": log, "lake": lake, "glue": glue, "database": database, "tables": tables}
    named |= {
        one: f"arn:aws:{of}:us-east-1:123456789012"
        for one, of in (("secrets", "secretsmanager"), ("parameters", "ssm"))
    }
    assert told == {right.format(**named) for right in NOT_NEEDED_BY_A_GOOD_COMMIT}

    objects = {call for call in mine if "Object" in call.action}
    refused = [
        call
        for call in objects
        if not allowed(policies[0], *reversed(call.resource.split(":::")[1].split("/", 1)), action=call.action)
    ]
    assert refused == []
    asked = {call for call in with_what_holds_it(mine) if call.action.startswith("glue:")}
    assert {call.action for call in asked} >= {"glue:CreateTable", "glue:UpdateTable"}
    # The view was made, and brought to the second cut.
    of_view = {call.action for call in asked if call.resource == f"{glue}:table/shop/totals"}
    assert of_view >= {"glue:CreateTable", "glue:UpdateTable"}
    assert [call for call in asked if not permits(policies[0], call.action, call.resource)] == []
    # The policy does narrow: what another stream's job does is refused to this one.
    assert not allowed(policies[0], "epochs/other/1.json", about["staging"].removeprefix("s3://"))
    assert not allowed(policies[0], "warehouse/bank/accounts/data/x", about["warehouse"].split("/")[2])
    assert not permits(policies[0], "glue:UpdateTable", f"{glue}:table/bank/accounts")
