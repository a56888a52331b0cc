"""The AWS endpoint over real HTTP, with boto3 and obstore."""

import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import boto3
import obstore
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.s3.models import S3Backend
from obstore.store import S3Store
from pyarrow import fs

from firn.log.store import get_version, put, versions
from firn_local.aws import AwsEndpoint

pytestmark = pytest.mark.stack
any_client: Any = boto3.session.Session().client


@pytest.fixture(scope="module")
def endpoint() -> Iterator[AwsEndpoint]:
    server = AwsEndpoint()
    server.start()
    yield server
    server.stop()


def client(endpoint: AwsEndpoint, service: str) -> Any:
    return any_client(
        service,
        endpoint_url=endpoint.url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"max_attempts": 0}, max_pool_connections=32),
    )


@pytest.fixture(scope="module")
def s3(endpoint: AwsEndpoint) -> Any:
    made = client(endpoint, "s3")
    made.create_bucket(Bucket="lake")
    return made


@pytest.fixture(autouse=True)
def _slow_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold moto between its check of If-None-Match and its write, where another request would slip in."""
    put = S3Backend.put_object

    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(0.003)
        return put(*arguments, **named)

    monkeypatch.setattr(S3Backend, "put_object", slow)


def together(count: int, work: Any) -> list[Any]:
    """Run work(n) in `count` threads that start at one moment."""
    barrier = threading.Barrier(count)

    def run(n: int) -> Any:
        barrier.wait()
        return work(n)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_one_of_sixteen_boto3_threads_wins_a_put_if_absent(s3: Any) -> None:
    for attempt in range(5):
        key = f"boto3/{attempt}"

        def put(n: int, key: str = key) -> str:
            try:
                s3.put_object(Bucket="lake", Key=key, Body=str(n).encode(), IfNoneMatch="*")
            except ClientError as error:
                return str(error.response["Error"]["Code"])
            return f"won {n}"

        answers = together(16, put)
        winners = [answer for answer in answers if answer.startswith("won")]
        assert len(winners) == 1
        assert Counter(answers)["PreconditionFailed"] == 15
        assert s3.get_object(Bucket="lake", Key=key)["Body"].read() == winners[0][4:].encode()


def test_one_of_sixteen_obstore_threads_wins_a_put_if_absent(s3: Any, endpoint: AwsEndpoint) -> None:
    store = S3Store(
        "lake",
        endpoint=endpoint.url,
        region="us-east-1",
        access_key_id="test",
        secret_access_key="test",
        client_options={"allow_http": True},
    )
    for attempt in range(5):
        path = f"obstore/{attempt}"

        def put(n: int, path: str = path) -> bool:
            try:
                obstore.put(store, path, str(n).encode(), mode="create")
            except obstore.exceptions.AlreadyExistsError:
                return False
            return True

        assert sum(together(16, put)) == 1


def test_one_of_sixteen_threads_wins_a_compare_and_swap(s3: Any) -> None:
    tag = s3.put_object(Bucket="lake", Key="swap", Body=b"0")["ETag"]

    def put(n: int) -> bool:
        try:
            s3.put_object(Bucket="lake", Key="swap", Body=f"new {n}".encode(), IfMatch=tag)
        except ClientError:
            return False
        return True

    assert sum(together(16, put)) == 1


def test_listing_while_keys_are_put_never_fails(s3: Any) -> None:
    def work(n: int) -> None:
        for k in range(20):
            if n % 2:
                s3.put_object(Bucket="lake", Key=f"busy/{n}/{k}", Body=b"x")
            else:
                s3.list_objects_v2(Bucket="lake", Prefix="busy/")

    together(8, work)
    assert s3.list_objects_v2(Bucket="lake", Prefix="busy/")["KeyCount"] == 80


def test_no_message_is_lost_when_others_are_deleted_at_the_same_time(endpoint: AwsEndpoint) -> None:
    sqs = client(endpoint, "sqs")
    url = sqs.create_queue(QueueName="busy")["QueueUrl"]
    seen: list[str] = []

    def work(n: int) -> None:
        if n % 2:
            for k in range(40):
                sqs.send_message(QueueUrl=url, MessageBody=f"{n}-{k}")
            return
        while True:
            messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", [])
            if not messages:
                return
            for message in messages:
                seen.append(message["Body"])
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    together(8, work)
    assert sorted(seen) == sorted(f"{n}-{k}" for n in (1, 3, 5, 7) for k in range(40))


def test_a_long_poll_ends_when_a_message_comes_and_blocks_nobody_meanwhile(endpoint: AwsEndpoint, s3: Any) -> None:
    sqs = client(endpoint, "sqs")
    url = sqs.create_queue(QueueName="slow")["QueueUrl"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=10)
        s3.put_object(Bucket="lake", Key="meanwhile", Body=b"x")
        assert not waiting.done()
        sqs.send_message(QueueUrl=url, MessageBody="here")
        assert waiting.result(timeout=3)["Messages"][0]["Body"] == "here"


def test_a_message_comes_back_after_its_visibility_time_out_and_then_goes_to_the_dead_letter_queue(
    endpoint: AwsEndpoint,
) -> None:
    sqs = client(endpoint, "sqs")
    dead = sqs.create_queue(QueueName="poison-dead")["QueueUrl"]
    policy = '{"deadLetterTargetArn": "arn:aws:sqs:us-east-1:123456789012:poison-dead", "maxReceiveCount": "2"}'
    url = sqs.create_queue(QueueName="poison", Attributes={"VisibilityTimeout": "1", "RedrivePolicy": policy})[
        "QueueUrl"
    ]
    sqs.send_message(QueueUrl=url, MessageBody="poison")
    for _ in range(2):
        assert sqs.receive_message(QueueUrl=url, WaitTimeSeconds=3)["Messages"][0]["Body"] == "poison"
        assert "Messages" not in sqs.receive_message(QueueUrl=url)
    assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=2)
    assert sqs.receive_message(QueueUrl=dead)["Messages"][0]["Body"] == "poison"


def test_the_endpoint_listens_on_loopback_only(endpoint: AwsEndpoint) -> None:
    assert endpoint.url.startswith("http://127.0.0.1:")


def test_a_long_poll_in_sqs_older_protocol_blocks_nobody_either(endpoint: AwsEndpoint, s3: Any) -> None:
    url = client(endpoint, "sqs").create_queue(QueueName="older")["QueueUrl"]
    form = urlencode({"Action": "ReceiveMessage", "QueueUrl": url, "WaitTimeSeconds": 2, "Version": "2012-11-05"})
    credential = "Credential=test/20260101/us-east-1/sqs/aws4_request"
    scope = f"AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature={'0' * 64}"
    request = urllib.request.Request(url, form.encode(), {"Authorization": scope})
    with ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        waiting = pool.submit(lambda: urllib.request.urlopen(request, timeout=10).read())
        time.sleep(0.3)
        s3.put_object(Bucket="lake", Key="meanwhile", Body=b"x")
        assert time.monotonic() - began < 1.5
        assert b"ReceiveMessageResponse" in waiting.result()
        assert time.monotonic() - began >= 1.9


def test_of_many_updates_of_one_version_of_a_glue_table_one_is_taken(endpoint: AwsEndpoint) -> None:
    """What Iceberg's commits to Glue rest on."""
    glue = client(endpoint, "glue")
    glue.create_database(DatabaseInput={"Name": "versions"})
    glue.create_table(DatabaseName="versions", TableInput={"Name": "orders", "Parameters": {"metadata_location": "0"}})

    def update(n: int) -> str:
        table = {"Name": "orders", "Parameters": {"metadata_location": str(n)}}
        try:
            glue.update_table(DatabaseName="versions", TableInput=table, VersionId="1", SkipArchive=True)
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "taken"

    with ThreadPoolExecutor(8) as pool:
        said = Counter(pool.map(update, range(1, 9)))
    assert said == {"taken": 1, "ConcurrentModificationException": 7}
    found = glue.get_table(DatabaseName="versions", Name="orders")["Table"]
    assert found["VersionId"] == "2"
    glue.update_table(DatabaseName="versions", TableInput={"Name": "orders"}, VersionId="2")
    glue.update_table(DatabaseName="versions", TableInput={"Name": "orders"})  # whoever names none takes what there is


def test_arrows_own_client_makes_and_removes_empty_objects(endpoint: AwsEndpoint, s3: Any) -> None:
    """It asks with `Expect: 100-continue` whether to send a body of no bytes."""
    given = endpoint.credentials
    s3.create_bucket(Bucket="arrow")
    files = fs.S3FileSystem(
        endpoint_override=endpoint.url, access_key=given["AWS_ACCESS_KEY_ID"], region=given["AWS_REGION"],
        secret_key=given["AWS_SECRET_ACCESS_KEY"], request_timeout=3,
    )  # fmt: skip
    files.open_output_stream("arrow/a/b/empty").close()
    files.delete_file("arrow/a/b/empty")  # and keeps the folder, as an empty object
    assert [one["Key"] for one in s3.list_objects_v2(Bucket="arrow")["Contents"]] == ["a/b/"]


def test_a_listing_and_a_read_give_an_object_the_same_version(endpoint: AwsEndpoint, s3: Any) -> None:
    """What is kept of an epoch is checked by it, at no cost (firn.log.epochs)."""
    store: Any = S3Store(
        "lake",
        endpoint=endpoint.url,
        region="us-east-1",
        access_key_id="test",
        secret_access_key="test",
        client_options={"allow_http": True},
    )
    found = []
    for data in (b"old", b"new"):
        put(store, "version/one", data)
        read = get_version(store, "version/one")
        assert read is not None
        assert versions(store, "version") == {"version/one": read[1]}
        found.append(read[1])
    assert len({*found}) == 2
