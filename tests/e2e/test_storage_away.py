"""S3 away during a POST: 503 and nothing acknowledged; back again: the retry lands once."""

import json
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from firn.log import layout, published_configs
from firn.log.batches import read_meta
from firn.log.store import listing, open_store
from firn_local.aws import AwsEndpoint, s3_authorization
from firn_local.environment import TEMPLATE
from firn_local.host import FunctionHost, HostSettings
from firn_local.queues import create_queues
from firn_local.stack import local_parameters, sqs_client
from firn_local.template import read

CONFIG = "streams: {shop: {tables: {public.t: {to: shop.t, key: [id]}}}}"
BODY = json.dumps(
    {
        "op": "c",
        "before": None,
        "after": {"id": 1},
        "source": {"connector": "postgresql", "schema": "public", "table": "t", "sequence": '["1","1"]'},
    }
).encode()


def post(url: str) -> int:
    request = urllib.request.Request(
        f"{url}/v1/streams/shop", BODY, {"Content-Type": "application/json", "Idempotency-Key": "the-retry"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.stack
def test_with_s3_away_a_post_is_a_503_and_its_retry_lands_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as at_the_end:
        s3 = AwsEndpoint()
        s3.start()
        # Stopped twice is stopped; an endpoint that is left would answer whatever runs next in this process.
        at_the_end.callback(s3.stop)
        for name, value in s3.credentials.items():
            monkeypatch.setenv(name, value)
        signed = {"Authorization": s3_authorization()}
        urllib.request.urlopen(
            urllib.request.Request(f"{s3.url}/staging", headers=signed, method="PUT"), timeout=10
        ).close()
        store = open_store("s3://staging")
        published_configs.publish(store, CONFIG)
        template = read(TEMPLATE, local_parameters(TEMPLATE, {}), queue_urls=s3.url)
        sqs = sqs_client(s3)
        host = FunctionHost(
            template,
            s3.credentials | {"FIRN_STAGING": "s3://staging"},
            tmp_path,
            HostSettings(schedules=False),
            sqs=sqs,
            queue_urls=create_queues(sqs, template.queues),
        )
        host.start()
        at_the_end.callback(host.stop)

        s3.stop()
        assert post(host.server.url) == 503

        # The buckets are in moto's memory in this process: they are still there when the endpoint comes back.
        s3 = AwsEndpoint(s3.port)
        s3.start()
        at_the_end.callback(s3.stop)
        assert list(listing(store, layout.staged_prefix("shop"))) == []
        assert post(host.server.url) == 202
        assert post(host.server.url) == 202
        [(path, size)] = listing(store, layout.staged_prefix("shop"))
        meta = read_meta(store, path, size)
        assert meta is not None
        assert meta.accepted == 1
