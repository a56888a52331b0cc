"""The whole stack as a process: `python -m firn_local` with the repository's own template and functions."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn_lake.catalogs.catalog import open_catalog
from firn_local import tether
from firn_local.environment import REPOSITORY
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.stack
any_client: Any = boto3.session.Session().client

CONFIG = """
catalog: {type: sql}
streams:
  shop:
    envelope: debezium
    tables:
      public.orders: {to: shop.orders, key: [id]}
"""


def change(number: int) -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "ts_ms": 1, "lsn": number}
    source["sequence"] = f'["{number}","{number}"]'
    return {"before": None, "after": {"id": number}, "op": "c", "source": source, "ts_ms": 1}


class Running:
    """One `python -m firn_local`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.dir = folder / "stack"
        config = folder / "firn.yaml"
        if not config.exists():
            config.write_text(CONFIG)
        path = [REPOSITORY / "infra" / "local", REPOSITORY / "layers" / "core" / "python"]
        command = ["-m", "firn_local", "--dir", str(self.dir), "--config", str(config), "--port", "0", "--no-schedules"]
        self.process = subprocess.Popen(
            [sys.executable, *command, *options],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ready(self) -> "Running":
        deadline = time.monotonic() + 40
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                about = json.loads((self.dir / "stack.json").read_text())
            except OSError:
                about = {}
            if about.get("pid") == self.process.pid:
                self.about = about
                return self
            time.sleep(0.05)
        raise AssertionError(f"the stack did not start: {self.process.communicate()[0]}")

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        request = urllib.request.Request(
            self.about["url"] + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "X-Firn-Token": self.about["token"]},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())

    def client(self, service: str) -> Any:
        return any_client(
            service,
            endpoint_url=self.about["aws_endpoint"],
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key=self.about["token"],
        )

    def end(self, sign: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(sign)
        output = self.process.communicate(timeout=20)[0]
        return self.process.returncode, output


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    made: list[Running] = []

    def run(*options: str) -> Running:
        made.append(Running(tmp_path, *options))
        return made[-1]

    yield run
    for running in made:
        if running.process.poll() is None:
            running.process.kill()
        running.process.communicate()


def descendants(pid: int) -> list[int]:
    """All processes below `pid`."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, left = [], [pid]
    while left:
        parent = left.pop()
        children = [child for child, of in parents.items() if of == parent]
        found += children
        left += children
    return found


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def gone(pids: list[int], seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


def start_sleeping_job(running: Running, folder: Path, seconds: int = 120) -> tuple[str, list[int]]:
    """A job that is a real process for a while; returns its id and its processes."""
    script = folder / "sleep.py"
    script.write_text(f"import time\ntime.sleep({seconds})\n")
    emr = running.client("emr-serverless")
    application = running.about["env"]["FIRN_EMR_APPLICATION_ID"]
    run = emr.start_job_run(
        applicationId=application,
        clientToken="sleep",
        executionRoleArn=running.about["env"]["FIRN_EMR_ROLE_ARN"],
        jobDriver={"sparkSubmit": {"entryPoint": str(script)}},
    )["jobRunId"]
    pid = running.dir / "jobs" / run / "pid"
    deadline = time.monotonic() + 20
    while not pid.exists() or not pid.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(2)  # spark-submit is under way, and has children
    return str(run), tether.session_members(int(pid.read_text()))


def staged(running: Running) -> int:
    return len(list((running.dir / "staging" / "staged").rglob("*.parquet")))


def test_events_over_http_and_over_the_queue_are_staged_and_survive_a_kill(start: Callable[..., Running]) -> None:
    first = start().ready()
    status, answer = first.call("POST", "/v1/streams/shop", [change(1), change(2)])
    assert (status, answer["accepted"]) == (202, 2)
    attribute = {"stream": {"DataType": "String", "StringValue": "shop"}}
    queue = first.about["queues"]["Queue"]
    first.client("sqs").send_message(QueueUrl=queue, MessageBody=json.dumps(change(3)), MessageAttributes=attribute)
    deadline = time.monotonic() + 15
    while staged(first) < 2:
        assert time.monotonic() < deadline, (first.dir / "logs" / "ingest_queue.log").read_text()
        time.sleep(0.1)
    processes = descendants(first.process.pid)
    memory = rss_mb(first.process.pid) + sum(map(rss_mb, processes))
    assert memory < 300, f"{memory:.0f} MB"
    first.end(signal.SIGKILL)
    assert gone(processes)

    second = start().ready()
    assert staged(second) == 2
    assert second.call("GET", f"/v1/batches/{answer['batch_id']}")[0] == 200
    assert second.about["env"]["FIRN_EMR_APPLICATION_ID"] == first.about["env"]["FIRN_EMR_APPLICATION_ID"]
    code, output = second.end(signal.SIGINT)
    assert code == 0, output
    assert not (second.dir / "stack.json").exists()


def test_queue_messages_that_name_no_stream_are_the_queue_stream_s(start: Callable[..., Running]) -> None:
    # Debezium Server's SQS sink sets no attributes.
    running = start("--queue-stream", "shop").ready()
    queue = running.about["queues"]["Queue"]
    running.client("sqs").send_message(QueueUrl=queue, MessageBody=json.dumps(change(7)))
    deadline = time.monotonic() + 30
    while staged(running) < 1:
        assert time.monotonic() < deadline, (running.dir / "logs" / "ingest_queue.log").read_text()
        time.sleep(0.1)


SENT_BY: str = "AIDAIT2UOQQY3AUEKVGXU"
"""Whom the embedded SQS names as the sender of every message (moto's DEFAULT_SENDER_ID)."""


def test_who_may_send_by_queue_and_as_which_writer(start: Callable[..., Running], tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * 20)
    rule = "tables: {public.orders: {to: shop.orders, key: [id]}}"
    (tmp_path / "firn.yaml").write_text(f"""
streams:
  shop:
    writers:
      acme: {{auth: {{by: api_key, secret: 'file:{tmp_path}/key', queue: [{SENT_BY}]}}, rows: 'id IN (1, 2)'}}
    {rule}
  strange: {{auth: {{queue: [AROASTRANGERSTRANGER0]}}, {rule.replace("shop.", "strange.")}}}
""")
    running = start().ready()

    def post(event: dict[str, Any], **headers: str) -> int:
        url = f"{running.about['url']}/v1/streams/shop?writer=acme"
        told = {"Content-Type": "application/json", **headers}
        request = urllib.request.Request(url, json.dumps(event).encode(), told, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    told = [post(change(1)), *(post(change(n), **{"X-Api-Key": "k" * 20}) for n in (3, 1))]
    assert told == [401, 403, 202]
    for stream, n in (("shop", 2), ("shop", 3), ("strange", 1)):
        running.client("sqs").send_message(
            QueueUrl=running.about["queues"]["Queue"],
            MessageBody=json.dumps(change(n)),
            MessageAttributes={"stream": {"DataType": "String", "StringValue": stream}},
        )

    def dead() -> dict[str, bytes]:
        files = (running.dir / "staging" / "dead").rglob("*.parquet")
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        return {f"{row['stream']} {row['_dlq_reason']} {row.get('writer')}": row["original"] for row in rows}

    deadline = time.monotonic() + 30
    while len(dead()) < 2 or staged(running) < 3:
        assert time.monotonic() < deadline, (running.dir / "logs" / "ingest_queue.log").read_text()
        time.sleep(0.1)
    assert dead().keys() == {"shop outside_writer acme", "strange sender_not_allowed None"}
    assert dead()["strange sender_not_allowed None"] == json.dumps(change(1)).encode()
    files = (running.dir / "staging" / "staged").rglob("*.parquet")
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert sorted(json.loads(row["after"])["id"] for row in rows) == [1, 2]


def test_tables_are_read_over_http_by_who_is_on_this_machine(start: Callable[..., Running]) -> None:
    running = start().ready()
    catalog = open_catalog(running.about["catalog_uri"], running.about["warehouse"], {})
    catalog.create_namespace("shop")
    rows = pa.table({"id": range(5000)})
    catalog.create_table("shop.orders", rows.schema).append(rows)
    catalog.close()
    status, told = running.call(
        "POST", "/v1/query", {"sql": "SELECT max(id) AS m FROM orders WHERE id < ?", "parameters": [9]}
    )
    assert (status, told["rows"]) == (200, [{"m": 8}])
    assert running.call("GET", "/v1/tables/shop.orders/schema")[1]["columns"] == [{"name": "id", "type": "long"}]
    large = {"sql": "SELECT repeat('x', 1000) AS t FROM shop.orders", "format": "csv"}
    status, told = running.call("POST", "/v1/query", large)
    assert (status, told["rows"]) == (200, 5000)
    with urllib.request.urlopen(told["url"], timeout=10) as file:
        assert len(file.read()) == told["bytes"] > 5_000_000
    assert running.end()[0] == 0


def test_with_s3_nothing_is_on_disk_and_the_stack_says_so(start: Callable[..., Running]) -> None:
    running = start("--s3").ready()
    assert running.about["staging"].startswith("s3://")
    assert running.call("POST", "/v1/streams/shop", [change(1)])[0] == 202
    bucket = running.about["staging"].removeprefix("s3://")
    keys = [item["Key"] for item in running.client("s3").list_objects_v2(Bucket=bucket)["Contents"]]
    assert any(key.startswith("staged/shop/") for key in keys)
    assert not (running.dir / "staging").exists()
    code, output = running.end()
    assert code == 0
    assert "in memory" in output


def test_a_second_stack_on_the_folder_says_which_one_runs_and_exits_2(start: Callable[..., Running]) -> None:
    first = start().ready()
    second = start()
    output = second.process.communicate(timeout=30)[0]
    assert second.process.returncode == 2
    assert str(first.process.pid) in output
    assert first.about["url"] in output
    assert first.call("GET", "/_firn/health")[0] == 200


@few_cases(1)
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_when_the_stack_ends_during_a_job(
    start: Callable[..., Running], tmp_path: Path, sign: signal.Signals
) -> None:
    running = start().ready()
    run, members = start_sleeping_job(running, tmp_path)
    processes = [*descendants(running.process.pid), *members]
    assert len(members) >= 1
    code, _ = running.end(sign)
    assert code == (0 if sign == signal.SIGTERM else -9)
    assert gone(processes)
    if sign == signal.SIGTERM:
        assert json.loads((running.dir / "jobs" / run / "run.json").read_bytes())["state"] == "FAILED"


def test_a_changed_configuration_is_published_and_a_wrong_one_is_not(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    running = start().ready()
    pointer = running.dir / "staging" / "config" / "current.json"
    before = pointer.read_text()
    (tmp_path / "firn.yaml").write_text(CONFIG + "      public.lines: {to: shop.lines, key: [id]}\n")
    deadline = time.monotonic() + 10
    while pointer.read_text() == before:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    good = pointer.read_text()
    (tmp_path / "firn.yaml").write_text(CONFIG.replace("envelope: debezium", "envelope: debezum"))
    time.sleep(3)
    assert pointer.read_text() == good
    _, output = running.end()
    assert "firn.yaml:5" in output
    assert "stays in use" in output


@few_cases(1)
@pytest.mark.parametrize(
    ("text", "says"), [("streams: [\n", "firn.yaml:"), (CONFIG.replace("key:", "kee:"), "kee")], ids=["yaml", "key"]
)
def test_a_wrong_configuration_ends_the_start_with_its_reason(
    start: Callable[..., Running], tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "firn.yaml").write_text(text)
    running = start()
    output = running.process.communicate(timeout=30)[0]
    assert running.process.returncode == 2
    assert says in output
    assert "Traceback" not in output


def test_a_port_in_use_and_a_missing_configuration_are_said(start: Callable[..., Running]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        running = start("--port", str(taken.getsockname()[1]))
        output = running.process.communicate(timeout=30)[0]
    assert (running.process.returncode, "--port 0" in output) == (2, True)
    running = start("--config", "missing.yaml")
    output = running.process.communicate(timeout=30)[0]
    assert (running.process.returncode, "firn init" in output) == (2, True)


@long_only  # each job of tests/e2e runs so, and tests/unit/local/test_emr_requests.py shows its parameters
@pytest.mark.spark
def test_a_real_spark_job_runs_by_spark_submit(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start().ready()
    script = tmp_path / "count.py"
    script.write_text(
        "import sys\nimport firn.errors\nfrom pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "print('rows', spark.range(int(sys.argv[1])).repartition(2).count(), spark.sparkContext.master)\n"
        "print('bind', spark.conf.get('spark.driver.host'), spark.conf.get('spark.demo'))\n"
    )
    emr = running.client("emr-serverless")
    application = running.about["env"]["FIRN_EMR_APPLICATION_ID"]
    run = emr.start_job_run(
        applicationId=application,
        clientToken="real",
        executionRoleArn=running.about["env"]["FIRN_EMR_ROLE_ARN"],
        jobDriver={
            "sparkSubmit": {
                "entryPoint": f"file://{script}",
                "entryPointArguments": ["1000"],
                "sparkSubmitParameters": "--conf spark.demo=yes",
            }
        },
    )["jobRunId"]
    deadline = time.monotonic() + 120
    while (job := emr.get_job_run(applicationId=application, jobRunId=run)["jobRun"])["state"] not in (
        "SUCCESS",
        "FAILED",
    ):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    folder = running.dir / "jobs" / run
    assert job["state"] == "SUCCESS", (folder / "stderr").read_text()[-3000:]
    assert (folder / "stdout").read_text().startswith("rows 1000 local[")
    assert "bind 127.0.0.1 yes" in (folder / "stdout").read_text()
    assert not (folder / "tmp").exists()
