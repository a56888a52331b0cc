"""Each function may do what it does, and no more: the calls at the endpoint against the roles of the template.

The functions run as always, with obstore and boto3; the endpoint sees who signed what. A grant that no step of the
scenario needs fails the test, and so does a call that no grant covers: whoever adds a right adds the step that uses it.
"""

import base64
import hashlib
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from moto.s3.models import s3_backends

from examples.sources.postgres import Postgres
from firn.backfill import backfill_request, chunk_plan
from firn.changes.envelopes.parser import parse
from firn.changes.placement.map_changes import admit
from firn.ingest import accept
from firn.log import (
    attempts,
    cuts,
    epochs,
    holds,
    layout,
    published_configs,
    pulls,
    query_usage,
    read_records,
    shard_maps,
    table_health,
)
from firn.log.batches import FORMAT
from firn.log.dead_letters import replay_marks
from firn.log.holds import Quarantine
from firn.log.store import Store, open_store
from firn.log.table_health import Health
from firn.log.usage_layout import month_of
from firn.runs.job_runs import ENDED
from firn.sinks import state as sinks
from firn.sinks.state import SinkStates
from firn.usage import job_account
from firn.views import view_state
from firn.views.view_state import ViewState, ViewStates
from firn_lake.catalogs.catalog import open_catalog
from firn_local import stack as stack_module
from firn_local.aws import ACCOUNT
from firn_local.calls import Call
from firn_local.environment import TEMPLATE
from firn_local.events import job_state_event
from firn_local.spark_submit import SparkSubmit
from firn_local.stack import ROLE_ARN, Options, Stack
from tests.integration.stack import pulled_database
from tests.integration.stack.granted import (
    BY_LAMBDA,
    BY_LAMBDA_OF_A_QUEUE,
    BY_LAMBDA_OF_STREAMS,
    Grant,
    differences,
    forget_aws,
    grants,
    with_what_holds_it,
)
from tests.unit.alerts.receiver import KEY as WEBHOOK_KEY
from tests.unit.alerts.receiver import receiving

pytestmark = pytest.mark.stack

CONFIG = """
console:
  auth: {by: api_key, secret: 'secretsmanager:firn/local/lookers'}
  actions: {auth: {by: api_key, secret: 'ssm:/firn/local/actors'}}
query: {auth: {by: api_key, secret: 'secretsmanager:firn/local/readers'},
        readers: {acme: {auth: {by: api_key, secret: 'ssm:/firn/local/acme'}, tables: [shop.orders], seconds: 999}}}
alerts:
  targets:
    oncall: {webhook: 'secretsmanager:firn/local/alerts/url', secret: 'ssm:/firn/local/alerts/key'}
    ops: {sns: 'arn:aws:sns:us-east-1:123456789012:firn-alerts'}
  rules: {held: {on: quarantine}, dead: {on: dead_letters, streams: [bank], to: [ops]}, slot: {on: slot_lag},
          late: {on: freshness, tables: [bank.orders]}, all: {on: freshness}}
streams:
  shop: {job: shop, commit: {every: 1s}, rate: 5MB/s,
         tables: {public.orders: {to: shop.orders, key: [id], care: {tier: {cold_after: 30d}}},
                  public.lots: {to: 'shop.lots_{shard}', key: [id], columns: {w: string},
                                shard: {by: tenant(w), most: 9}}}}
  bank: {job: bank, commit: {every: 1s}, rate: 5MB/s,
         tables: {public.orders: {to: bank.orders, key: [id]},
                  public.lots: {to: 'bank.lots_{shard}', key: [id], columns: {w: string},
                                shard: {by: tenant(w), most: 9}}}}
  signed: {auth: {by: api_key, secret: 'secretsmanager:firn/local/signed'}, tables: {t: {to: s.t}}}
  keyed: {auth: {by: api_key, secret: 'ssm:/firn/local/keyed'}, tables: {t: {to: k.t}}}
  clicks: {envelope: rows, tables: {t: {to: c.t, mode: append}},
           kinesis: 'arn:aws:kinesis:us-east-1:123456789012:stream/clicks'}
  users: {envelope: rows, tables: {t: {to: u.t, mode: append}},
          kafka: {topics: [users], registry: {url: 'http://127.0.0.1:1', secret: 'secretsmanager:firn/local/signed'}}}
  notes: {envelope: rows, tables: {t: {to: n.t, mode: append}},
          kafka: {topics: [notes], registry: {url: 'http://127.0.0.1:1', secret: 'ssm:/firn/local/keyed'}}}
  pulled: {tables: {public.items: {to: p.items, key: [id]}}}
  other: {tables: {public.items: {to: o.items, key: [id]}}}
  saved: {job: saved, writers: {acme: {auth: {by: api_key, secret: 'ssm:/firn/local/keyed'}, storage: 1GB,
          stored_in: ['a.*']}}, tables: {t: {to: a.t, mode: append}}}
views:
  v.shop: {sql: SELECT id FROM shop.orders}
  v.bank: {sql: SELECT id FROM bank.orders}
"""
KEY = "an-api-key-of-twenty-and-more"
OTHER_KEY = "another-api-key-of-twenty-and-more"
# A job that runs until its stream's file says how it shall end: these tests are about the functions.
JOB = """
import pathlib, sys, time
stream = sys.argv[sys.argv.index("--stream") + 1]
file = pathlib.Path(r"{folder}") / stream
while not file.exists():
    time.sleep(0.05)
sys.exit(int(file.read_text()))
"""
ROLES = {
    "ingest_http": ("IngestHttpRole", BY_LAMBDA),
    "ingest_queue": ("IngestQueueRole", BY_LAMBDA | BY_LAMBDA_OF_A_QUEUE),
    "ingest_stream": ("IngestStreamRole", BY_LAMBDA | BY_LAMBDA_OF_STREAMS),
    "dispatch": ("DispatchRole", BY_LAMBDA),
    "job_events": ("JobEventsRole", BY_LAMBDA),
    "compact": ("CompactRole", BY_LAMBDA),
    "expire": ("ExpireRole", BY_LAMBDA),
    "tier": ("TierRole", BY_LAMBDA),
    "query": ("QueryRole", BY_LAMBDA),
    "pull": ("PullRole", BY_LAMBDA),
    "console": ("ConsoleRole", BY_LAMBDA),
    "alerts": ("AlertsRole", BY_LAMBDA),
}


def event(number: int, **more: Any) -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "ts_ms": 1, "lsn": number}
    return {"op": "c", "before": None, "after": {"id": number}, "source": source, **more}


class Ground:
    """A stack with S3 and jobs of our own, and what was asked at its endpoint."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.stack, self.folder = stack, folder
        self.about = stack.description
        self.application = str(self.about["env"]["FIRN_EMR_APPLICATION_ID"])

    def client(self, service: str) -> Any:
        make: Any = boto3.session.Session().client
        return make(
            service, endpoint_url=self.about["aws_endpoint"], region_name="us-east-1",
            aws_access_key_id="test", aws_secret_access_key=self.about["token"],
        )  # fmt: skip

    def post(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        request = urllib.request.Request(
            self.about["url"] + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "X-Firn-Token": self.about["token"]}
            | {k.replace("_", "-"): v for k, v in headers.items()},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def invoke(self, function: str, event: dict[str, Any]) -> dict[str, Any]:
        status, answer = self.post(f"/_firn/invoke/{function}", event)
        assert status == 200, answer
        (told,) = answer["streams"]
        assert "error" not in told, told
        return dict(told)

    def wait_for_care(self) -> None:
        """Until no job cares for tables any more: one at a time is enough."""
        emr = self.client("emr-serverless")

        def ended() -> bool:
            runs = emr.list_job_runs(applicationId=self.application)["jobRuns"]
            return all(run["state"] in ENDED for run in runs if run["name"].startswith("care-"))

        wait(ended)

    def end(self, stream: str, code: int) -> dict[str, Any]:
        """Let the stream's run end so, and say what GetJobRun shows."""
        emr = self.client("emr-serverless")
        (self.folder / stream).write_text(str(code))
        deadline = time.monotonic() + 30
        while True:
            runs = emr.list_job_runs(applicationId=self.application)["jobRuns"]
            mine = [run for run in runs if run["name"].startswith(f"firn-{stream}-")]
            if all(run["state"] in ("SUCCESS", "FAILED") for run in mine):
                break
            assert time.monotonic() < deadline, mine
            time.sleep(0.1)
        (self.folder / stream).unlink()
        run = emr.get_job_run(applicationId=self.application, jobRunId=mine[0]["id"])["jobRun"]
        return {**run, "createdAt": run["createdAt"].timestamp(), "updatedAt": run["updatedAt"].timestamp()}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Call]]:
    """All calls of a scenario that needs every right."""
    forget_aws()
    folder = tmp_path_factory.mktemp("least")
    (folder / "job.py").write_text(JOB.format(folder=folder))
    found: list[Call] = []
    with pulled_database.database() as server, pytest.MonkeyPatch.context() as patch:
        (folder / "firn.yaml").write_text(CONFIG + pulled_database.sources(server))
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        ours = partial(SparkSubmit, command=(sys.executable, str(folder / "job.py")))
        patch.setattr(stack_module, "SparkSubmit", ours)
        options = Options(folder / "stack", s3=True, glue=True, port=0, config=folder / "firn.yaml", schedules=False)
        with Stack(options, say=lambda _line: None, observe=found.append) as stack:
            patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
            for name, value in stack.description["env"].items():
                if name.startswith("AWS_"):
                    patch.setenv(name, value)
            ground = Ground(stack, folder)
            http(ground)
            queue(ground)
            streams(ground)
            jobs(ground, "shop", lambda _run: ground.invoke("dispatch", {"stream": "shop"}))
            jobs(ground, "bank", lambda run: ground.invoke("job_events", job_state_event(run, "RUNNING")))
            tenants(ground)
            if server is not None:
                databases(ground, server)
            care(ground)
            tiers(ground)
            queries(ground)
            console(ground)
            alerts(ground)
        yield found


def http(ground: Ground) -> None:
    """What senders do."""
    ground.client("secretsmanager").create_secret(Name="firn/local/signed", SecretString=KEY)
    ground.client("ssm").put_parameter(Name="/firn/local/keyed", Value=KEY, Type="SecureString")
    status, first = ground.post("/v1/streams/shop", event(1), Idempotency_Key="one")
    assert (status, first["duplicate"]) == (202, False)
    status, again = ground.post("/v1/streams/shop", event(1), Idempotency_Key="one")
    assert (status, again["duplicate"]) == (202, True)
    status, bad = ground.post("/v1/streams/bank", [event(1), {"op": "what"}])
    assert (status, bad["rejected"]) == (202, 1)
    for stream in ("signed", "keyed"):
        assert ground.post(f"/v1/streams/{stream}", [], x_api_key=KEY)[0] == 202
    assert ground.post(f"/v1/batches/{first['batch_id']}")[1]["state"] == "staged"


def queue(ground: Ground) -> None:
    """What queue messages do: one good, one bad, and the good one's receipt."""
    sqs = ground.client("sqs")
    url = next(url for name, url in ground.about["queues"].items() if "Dead" not in name)
    stream = {"stream": {"DataType": "String", "StringValue": "shop"}}
    before = len(staged(ground))
    for body in (json.dumps(event(2)), "no JSON"):
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=stream)
    wait(lambda: len(staged(ground)) > before)
    # SQS brings a message again now and then: its receipt says where it is staged.
    attributes = {"stream": {"stringValue": "shop"}}
    message = {"messageId": "again", "body": json.dumps(event(7)), "messageAttributes": attributes}
    for _ in range(2):
        status, answer = ground.post("/_firn/invoke/ingest_queue", {"Records": [message]})
        assert (status, answer) == (200, {"batchItemFailures": []})


def streams(ground: Ground) -> None:
    """What records of streams do: a good one, a bad one, and such as need a registry that has a password."""
    kinesis = ground.client("kinesis")
    wait(lambda: "clicks" in kinesis.list_streams()["StreamNames"])
    before = len(staged(ground))
    for data in (b'{"id": 1}', b"no JSON"):
        kinesis.put_record(StreamName="clicks", Data=data, PartitionKey="1")
    wait(lambda: len(staged(ground)) > before)
    value = base64.b64encode(b"\0\0\0\0\1avro").decode()
    for topic in ("users", "notes"):
        record = {"topic": topic, "partition": 0, "offset": 0, "value": value}
        event = {"eventSource": "aws:kafka", "records": {f"{topic}-0": [record]}}
        assert ground.post("/_firn/invoke/ingest_stream", event)[0] == 502, "there is no registry"


def tenants(ground: Ground) -> None:
    """What is counted of writers: how large their tables are, what they sent, what the jobs of their stream used."""
    for _ in range(2):
        ground.invoke("dispatch", {"stream": "saved", "force": True})
    run = {"applicationId": ground.application, "name": "firn-saved-1-1-9", "clientToken": "saved"}
    driver = {
        "sparkSubmit": {"entryPoint": str(ground.folder / "job.py"), "entryPointArguments": ["--stream", "saved"]}
    }
    ground.client("emr-serverless").start_job_run(**run, executionRoleArn=ROLE_ARN, jobDriver=driver)
    ground.invoke("job_events", job_state_event(ground.end("saved", 0), "RUNNING"))
    used = job_account.total(open_store(ground.about["staging"]), "saved", month_of(datetime.now(UTC)))
    assert (used.vcpu_seconds, used.memory_seconds) == (120, 480), "two vCPUs, for a minute at least"


def staged(ground: Ground) -> list[str]:
    listed = ground.client("s3").list_objects_v2(Bucket=ground.about["staging"].removeprefix("s3://"), Prefix="staged/")
    return [one["Key"] for one in listed.get("Contents", [])]


def wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def jobs(ground: Ground, stream: str, go: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """What becomes of epochs: sealed, run, run again, given up; and one without changes. `go`: a dispatch by the
    function that is looked at, which takes the end of a run as its reason."""
    store = open_store(ground.about["staging"])
    at = "2026-03-01T00:00:00.000Z"
    rule = published_configs.load(store, published_configs.current_sha(store)).streams[stream].tables[1]
    assert rule.shard is not None
    first_map = shard_maps.read(store, stream, rule.to, rule.shard, 1)
    made = first_map.next(admit(first_map.map, {"a": rule.shard.home("a")}), at, "a")
    assert shard_maps.put(store, stream, rule.to, made)
    # A run of another range is there first, so that its end can be told.
    first = {"applicationId": ground.application, "name": f"firn-{stream}-1-1-9", "clientToken": stream}
    driver = {"sparkSubmit": {"entryPoint": str(ground.folder / "job.py"), "entryPointArguments": ["--stream", stream]}}
    ground.client("emr-serverless").start_job_run(**first, executionRoleArn=ROLE_ARN, jobDriver=driver)
    run = ground.end(stream, 0)
    done = go(run)
    assert (done["sealed"], bool(done["run"])) == ([1], True), done
    batch = ground.post("/v1/streams/" + stream, event(3))[1]["batch_id"]
    pull(store, stream, 1)
    done = go(run)
    assert (done["sealed"], bool(done["waits_for"])) == ([2], True), done
    assert ground.post(f"/v1/batches/{batch}")[1]["state"] == "sealed"
    attempts.begin(store, stream, 1, 1, 10)
    attempts.fail(store, stream, 1, 1, 10, "transient", "storage was away")
    ground.end(stream, 1)
    for attempt in range(11, 17):  # three times all, three times the first epoch alone
        assert go(run)["run"], "a failed run is followed by another"
        attempts.begin(store, stream, 1, 1, attempt)
        attempts.begin(store, stream, 1, 2, attempt)
        ground.end(stream, 1)
    held = go(run)
    assert "epoch 1" in held["quarantined"], held
    ground.end(stream, 1)
    holds.hold(store, Quarantine(1, stream, 1, at, "failed", "bad", "fix it", table="a.b"))
    assert ground.post(f"/v1/batches/{batch}")[0] == 200
    # All is committed, and then come nothing but heartbeats.
    assert cuts.write(store, cuts.make(stream, 2, at, {}, files={"raw": 2}))
    sinks.write(store, stream, SinkStates(seen=2))  # no files are due
    assert ground.post(f"/v1/batches/{batch}")[1]["cut"] == 2
    heartbeat = {"source": {"connector": "postgresql", "schema": "", "table": ""}, "ts_ms": 1}
    assert ground.post("/v1/streams/" + stream, heartbeat)[1]["accepted"] == 0
    now = datetime.now(UTC)
    found = epochs.candidates(store, stream, now, above=2)
    assert epochs.seal(
        store, stream, found, now=now, config=published_configs.current_sha(store), nonce="n"
    )  # and died
    go(run)
    assert cuts.newest(store, stream) == 3


def pull(store: Store, stream: str, number: int) -> None:
    """What a pull stages: a plan, its batch, and that it is done. Whoever seals or reads the batch asks for that."""
    config = published_configs.load(store, published_configs.current_sha(store))
    at = layout.instant(datetime.now(UTC))
    plan = pulls.Plan(FORMAT, stream, "db", number, number, number + 1, at, 0, pulls.Database("1", 1, "slot"))
    assert pulls.create(store, plan)
    parsed = parse(json.dumps(event(20_000 + number)).encode(), "debezium")
    accept.accept_part(store, config, stream, parsed, pulls.batch_of(plan, 0), plan.path)
    pulls.finish(store, plan, pulls.Done(FORMAT, 1, 1))


def databases(ground: Ground, server: Postgres) -> None:
    """What the pull does, with passwords from both places."""
    ground.client("secretsmanager").create_secret(Name="firn/local/database", SecretString=server.password)
    ground.client("ssm").put_parameter(Name="/firn/local/database", Value=server.password, Type="SecureString")

    def invoke(event: dict[str, Any]) -> dict[str, Any]:
        status, answer = ground.post("/_firn/invoke/pull", event)
        assert status == 200, answer
        return dict(answer)

    bucket = ground.about["staging"].removeprefix("s3://").split("/")[0]
    pulled_database.pull(server, open_store(ground.about["staging"]), invoke, bucket)


def care(ground: Ground) -> None:
    """What the schedules do of tables: nothing is known, nothing is due, something is due."""
    store = open_store(ground.about["staging"])
    assert ground.post("/v1/tables/shop.orders/health")[0] == 404
    now = layout.instant(datetime.now(UTC))
    long_ago, at = datetime.now(UTC) - timedelta(days=20), "2026-03-01T00:00:00.000Z"
    config = published_configs.load(store, published_configs.current_sha(store))
    accept.accept(store, config, "keyed", json.dumps(event(1)).encode(), now=long_ago)
    found = epochs.candidates(store, "keyed", long_ago + timedelta(minutes=1), above=0)
    assert epochs.seal(store, "keyed", found, now=long_ago, config=config.sha, nonce="n")
    assert cuts.write(store, cuts.make("keyed", 1, at, {}, files={"raw": 1}))
    holds.hold(store, Quarantine(1, "keyed", 1, at, "failed", "bad", "fix it", table="a.b", epoch=2, last=1))
    backfill(store, "keyed")
    backfill_request.end(store, "keyed", "first", backfill_request.End(FORMAT, "done", at))
    for function, debt in (("compact", {"rewrite_bytes": 1, "small": 9}), ("expire", {"snapshots": 5000})):
        first = ground.post(f"/_firn/invoke/{function}", {})[1]
        assert (first["run"], _of_keyed(first)) == (None, {"compact": None, "expire": 2}[function]), first
        table_health.write(store, "shop", [Health("shop.orders", now, orphans_at=now, **debt)])
        assert (done := ground.post(f"/_firn/invoke/{function}", {})[1])["run"], done
        table_health.write(store, "shop", [], gone=["shop.orders"])
        ground.wait_for_care()
    table_health.write(store, "shop", [Health("shop.orders", now)])
    assert ground.post("/v1/tables/shop.orders/health")[1]["due"] == {"orphans": "never looked for"}


def _of_keyed(answer: dict[str, Any]) -> int | None:
    """Staged objects of that stream that were swept; None if nothing was."""
    return next((one["batches"] for one in answer.get("swept", ()) if one["stream"] == "keyed"), None)


def tiers(ground: Ground) -> None:
    """What becomes of cold files: one is tagged, and loses its tag when it is new again."""
    catalog = open_catalog("glue://", ground.about["warehouse"])
    catalog.create_namespace("shop")
    rows = pa.table({"id": range(8_000), "text": [hashlib.sha256(b"%d" % n).hexdigest() for n in range(8_000)]})
    table = catalog.create_table("shop.orders", rows.schema)
    table.append(rows)
    store = open_store(ground.about["staging"])
    now = datetime.now(UTC)
    read_records.record(store, "shop.orders", "shop/orders", ["*"], now - timedelta(hours=5))
    table_health.write(store, "shop", [Health("shop.orders", layout.instant(now))])
    written(ground, now - timedelta(days=100))
    told = tiered(ground)
    assert (told["tagged"], told["cold_files"]) == (1, 1), told
    assert table_health.read(store, "shop")["shop.orders"].cold_files == 1
    written(ground, now)
    table.append(rows.slice(0, 5))
    assert tiered(ground)["released"] == 1
    catalog.close()


def queries(ground: Ground) -> None:
    """What readers do, with keys from both places: a table, a cut, and a result that is too large for a response."""
    ground.client("secretsmanager").create_secret(Name="firn/local/readers", SecretString=KEY)
    ground.client("ssm").put_parameter(Name="/firn/local/readers", Value=OTHER_KEY, Type="SecureString")
    store = open_store(ground.about["staging"])
    text = {"sql": "SELECT max(text) AS t, count(*) AS n FROM shop.orders WHERE id < 10 OR id = 9000"}
    status, told = ground.post("/v1/query", text, x_api_key=KEY)
    assert (status, [row["n"] for row in told["rows"]]) == (200, [15]), told
    assert ground.post("/v1/query", text)[0] == 401
    assert ground.post("/v1/query", {**text, "cut": 99}, x_api_key=KEY)[1]["error"] == "no_such_cut"
    assert ground.post("/v1/query", {**text, "cut": 3, "stream": "shop"}, x_api_key=KEY)[1]["error"] == "no_such_moment"
    assert ground.post("/v1/streams/shop", event(9000))[0] == 202
    pull(store, "shop", 2)
    status, told = ground.post("/v1/query", {**text, "fresh": True}, x_api_key=KEY)
    assert (status, [row["n"] for row in told["rows"]]) == (200, [16]), told
    scoped_queries(ground, store)
    receipts(ground, store)
    large = {"sql": "SELECT repeat(chr(97 + (range % 26)::INTEGER), 1000) AS t FROM range(5000)", "format": "csv"}
    status, told = ground.post("/v1/query", large, x_api_key=KEY)
    assert (status, told["rows"], told["bytes"]) == (200, 5000, 5000 * 1003 + 4), told
    with urllib.request.urlopen(told["url"], timeout=60) as answer:
        assert len(answer.read()) == told["bytes"]
    text_now = (ground.folder / "firn.yaml").read_text()
    text_now = text_now.replace("secretsmanager:firn/local/readers", "ssm:/firn/local/readers")
    published_configs.publish(store, text_now.replace("{cold_after: 30d}", "{predictive: true}"))
    wait(lambda: ground.post("/v1/tables", x_api_key=OTHER_KEY)[0] == 200)
    for _ in range(2):
        assert ground.post("/v1/query", text, x_api_key=OTHER_KEY)[0] == 200
    assert ground.post("/v1/tables", x_api_key=KEY)[0] == 401
    # A file that is gone is told from one that is forbidden.
    table = open_catalog("glue://", ground.about["warehouse"]).load_table("shop.orders")
    table.append(pa.table({"id": [1], "text": ["gone"]}))
    newest = table.inspect.entries().to_pylist()[-1]["data_file"]["file_path"]
    bucket, _, key = newest.removeprefix("s3://").partition("/")
    ground.client("s3").delete_object(Bucket=bucket, Key=key)
    last = {"sql": "SELECT max(id) AS n, max(text) AS t FROM shop.orders"}
    status, told = ground.post("/v1/query", last, x_api_key=OTHER_KEY)
    assert (status, told["error"], "is missing" in told["message"]) == (500, "unreadable_file", True), told


def receipts(ground: Ground, store: Store) -> None:
    """What became of a batch in a table, one of whose events is a dead letter that came again."""
    batch = ground.post("/v1/streams/shop", [event(9001), event(9002, after="none")])[1]["batch_id"]
    again = replay_marks.make(layout.batch_dead_path(batch), 0, batch, "config", [0], {})
    assert replay_marks.claim(store, again)
    told = ground.post(f"/v1/tables/shop.orders/batch?id={batch}", x_api_key=KEY)[1]
    assert (told["rows"], [(one["letters"], one["replayed"]) for one in told["dead"]]) == (1, [(1, 1)]), told
    assert ground.post("/v1/tables/shop.orders/dead", x_api_key=KEY)[1]["letters"][0]["letters"] == 1


def scoped_queries(ground: Ground, store: Store) -> None:
    """What a reader of some tables uses is counted: here with its hundredth query, which is marked."""
    key = f"acme.{KEY}"
    ground.client("ssm").put_parameter(Name="/firn/local/acme", Value=key, Type="SecureString")
    now = datetime.now(UTC)
    for _ in range(99):
        query_usage.add(store, "acme", 1, now)
    assert ground.post("/v1/query", {"sql": "SELECT count(*) AS n FROM shop.orders"}, x_api_key=key)[0] == 200
    used = query_usage.used_in(store, "acme", month_of(now))
    assert used.queries == 100
    assert used.seconds > 99


def backfill(store: Store, stream: str) -> None:
    """A backfill that somebody asked for, and that has its plan."""
    at = "2026-03-01T00:00:00.000Z"
    backfill_request.write(store, backfill_request.Request(FORMAT, "first", stream, "postgres://u@h/d", at))
    table, chunk = chunk_plan.PlannedTable("public.t", "{}", []), chunk_plan.Chunk(0, "t")
    chunk_plan.fix(store, stream, chunk_plan.Plan(FORMAT, "first", at, [table], [chunk]))


def console(ground: Ground) -> None:
    """What a person does there: looks at everything, replays a letter, and has others act."""
    ground.client("secretsmanager").create_secret(Name="firn/local/lookers", SecretString=KEY)
    ground.client("ssm").put_parameter(Name="/firn/local/actors", Value=OTHER_KEY, Type="SecureString")
    store = open_store(ground.about["staging"])
    table_health.write(store, "shop", [Health("shop.orders", layout.instant(datetime.now(UTC)))])
    n, at = cuts.newest(store, "shop") + 1, "2026-03-01T00:00:00.000Z"
    cuts.write(store, cuts.make("shop", n, at, {"shop.orders": 1}, files={"raw": n}))
    attempts.begin(store, "shop", n + 1, n + 1, 1)
    attempts.fail(store, "shop", n + 1, n + 1, 1, "transient", "storage was away")
    backfill(store, "shop")
    [batch, *_] = ground.post("/v1/console/streams/shop/batches", x_api_key=KEY)[1]["batches"]
    [run, *_] = ground.post("/v1/console/jobs", x_api_key=KEY)[1]["runs"]
    paths = "overview streams/shop streams/shop/epochs dead-letters?stream=bank quarantine tables tables/shop.orders"
    paths += f" session actions streams/shop/receipts?key=one streams/shop/batches/{batch['id']} jobs/{run['id']}"
    told = {path: ground.post(f"/v1/console/{path}", x_api_key=KEY) for path in paths.split()}
    assert {path: answer for path, answer in told.items() if answer[0] != 200} == {}
    assert ground.post("/v1/console/actions/pause", {}, X_Firn_Console="1", x_api_key=KEY)[0] == 403
    [letter, *_] = told["dead-letters?stream=bank"][1]["letters"]
    corrected = {
        "stream": "bank",
        "object": letter["object"],
        "row": str(letter["row"]),
        "original": json.dumps(event(5)),
    }
    asked: list[tuple[str, dict[str, str]]] = [("replay", corrected), ("pause", {}), ("unpause", {})]
    asked += [("flush", {"stream": "keyed"}), ("resume", {"stream": "keyed", "name": "a.b"})]
    view_state.write(store, "shop", ViewStates(views={"v.held": ViewState(tries=1)}))
    asked += [("resume", {"stream": "shop", "name": "v.held"})]
    asked += [(name, {"table": "shop.orders"}) for name in ("compact", "expire")]
    done = {}
    for name, fields in asked:
        done[name] = ground.post(f"/v1/console/actions/{name}", fields, X_Firn_Console="1", x_api_key=OTHER_KEY)
    assert {name: answer for name, answer in done.items() if answer[0] != 200} == {}
    assert ground.post("/v1/console/dead-letters?stream=bank", x_api_key=KEY)[1]["letters"][0]["replayed_in"]


def alerts(ground: Ground) -> None:
    """What is held, and letters that wait, are told to a webhook and a topic; and a person looks at them."""
    ground.client("ssm").put_parameter(Name="/firn/local/alerts/key", Value=WEBHOOK_KEY, Type="SecureString")
    with receiving() as receiver:
        ground.client("secretsmanager").create_secret(Name="firn/local/alerts/url", SecretString=receiver.url)
        status, answer = ground.post("/_firn/invoke/alerts", {})
        assert (status, answer["failed"], answer["unknown"]) == (200, 0, 0), answer
        assert {one["alert"] for one in receiver.messages} == {"held"}
        done = ground.post("/v1/console/actions/test-alerts", {}, X_Firn_Console="1", x_api_key=OTHER_KEY)[1]
        assert done["lines"] == ["oncall: sent", "ops: sent"], done
    status, page = ground.post("/v1/console/alerts", x_api_key=KEY)
    assert (status, {one["rule"] for one in page["alerts"]}) == (200, {"held", "dead"}), page
    assert {told["state"] for one in page["alerts"] for told in one["told"]} == {"sent"}


def tiered(ground: Ground) -> dict[str, Any]:
    status, answer = ground.post("/_firn/invoke/tier", {})
    assert status == 200, answer
    (told,) = answer["tables"]
    return dict(told)


def written(ground: Ground, when: datetime) -> None:
    """Let all data files have been written then."""
    keys = s3_backends[ACCOUNT]["aws"].get_bucket(ground.about["warehouse"].split("/")[2]).keys
    for key in [one for one in keys if "/data/" in one]:
        keys[key].last_modified = when.replace(tzinfo=None)


@pytest.mark.parametrize("function", ROLES)
def test_a_function_may_do_what_it_does_and_no_more(seen: list[Call], function: str) -> None:
    expect_seen(seen, function)
    role, unseen = ROLES[function]
    found = differences(granted(TEMPLATE, role), of(seen, function), unseen)
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("function", ROLES)
def test_a_right_too_many_and_a_right_too_few_are_found(seen: list[Call], function: str, tmp_path: Path) -> None:
    expect_seen(seen, function)
    role, unseen = ROLES[function]
    text = TEMPLATE.read_text()
    added = text.replace("Action: s3:ListBucket\n", "Action: [s3:ListBucket, s3:DeleteObject]\n")
    removed = text.replace("- !Sub ${StagingBucket.Arn}/config/*\n", "- !Sub ${StagingBucket.Arn}/confi/*\n")
    told = {}
    for name, mutated in (("added", added), ("removed", removed)):
        assert mutated != text
        (tmp_path / name).write_text(mutated)
        told[name] = differences(granted(tmp_path / name, role), of(seen, function), unseen)
    assert any(one.startswith("granted and not used: s3:DeleteObject") for one in told["added"]), told
    assert any(one.startswith("used and not granted: s3:GetObject") for one in told["removed"]), told
    assert any(one.startswith("granted and not used: s3:GetObject") for one in told["removed"]), told


def test_what_is_written_once_is_written_with_the_condition_that_the_bucket_asks_for(seen: list[Call]) -> None:
    writes = [call for call in seen if call.action == "s3:PutObject"]
    folders = {"staged", "receipts", "epochs", "cuts", "alerts"}
    once = [call for call in writes if call.resource.split("/")[1] in folders]
    assert {call.resource.split("/")[1] for call in once} == folders
    assert [call for call in once if not call.if_absent] == []
    assert [call for call in writes if not call.if_absent] != [], "others are overwritten, and S3 has to let them"


def expect_seen(seen: list[Call], function: str) -> None:
    """Skips the pull where there is no PostgreSQL."""
    if function == "pull" and not of(seen, function):
        pytest.skip("no PostgreSQL here: install postgresql (its initdb) to run this")


def granted(template: Path, role: str) -> list[Grant]:
    # As the stack reads it, where the function's own application is the one that is given.
    parameters = {"Environment": "local", "WithEmr": "false", "EmrJobRoleArn": ROLE_ARN, "EmrApplicationId": "00*"}
    parameters |= {"GlueDatabases": "shop", "WithPull": "true"}
    parameters |= {"GlueDatabases": "shop", "Console": "on"}
    parameters |= {"AlertTopicArns": "arn:aws:sns:us-east-1:123456789012:firn-alerts"}
    parameters |= {
        "KinesisStreamArn": "arn:aws:kinesis:us-east-1:123456789012:stream/clicks",
        "DynamoDbStreamArn": "arn:aws:dynamodb:us-east-1:123456789012:table/t/stream/1",
        "KafkaTopic": "users",
        "MskClusterArn": "arn:aws:kafka:us-east-1:123456789012:cluster/bank/1",
    }
    return grants(template, role, parameters)


def of(seen: list[Call], function: str) -> list[Call]:
    """The function's calls."""
    return with_what_holds_it(call for call in seen if call.who == function)
