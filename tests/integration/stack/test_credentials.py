"""The staging store is reached with whichever credentials there are: obstore's own ways, else boto3's."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest

from firn_local.aws import AwsEndpoint
from firn_local.calls import Call

pytestmark = pytest.mark.stack

PROGRAM = """
import os
from firn.log.store import get, open_store, put
store = open_store("s3://lake/x")
put(store, "a", b"1")
assert get(store, "a") == b"1"
"""
TOKEN = "Bearer only-the-job-knows"


class Endpoint(BaseHTTPRequestHandler):
    """A container's endpoint for credentials, as ECS, EKS and others have one."""

    def do_GET(self) -> None:
        known = self.headers.get("Authorization") == TOKEN
        said = {"AccessKeyId": "container", "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"}
        self.send_response(200 if known else 403)
        self.end_headers()
        self.wfile.write(json.dumps(said if known else {}).encode())

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/credentials"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def heard() -> list[Call]:
    return []


@pytest.fixture(scope="module")
def endpoint(heard: list[Call]) -> Iterator[AwsEndpoint]:
    started = AwsEndpoint(observe=heard.append)
    started.start()
    client: Any = boto3.session.Session().client(
        "s3", endpoint_url=started.url, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    client.create_bucket(Bucket="lake")
    yield started
    started.stop()


def run(endpoint: AwsEndpoint, said: dict[str, str]) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    told = {"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": endpoint.url, "AWS_EC2_METADATA_DISABLED": "true"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**plain, **told, **said}, capture_output=True, text=True, check=False
    )


WAYS = ["static", "profile", "container, token in a file", "container, token in the environment"]


@pytest.mark.parametrize("way", WAYS)
def test_the_store_is_reached_with_credentials_from(
    way: str, endpoint: AwsEndpoint, heard: list[Call], container: str, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "profiles").write_text("[jobs]\naws_access_key_id = profile\naws_secret_access_key = s\n")
    said = {
        "static": {"AWS_ACCESS_KEY_ID": "static", "AWS_SECRET_ACCESS_KEY": "s"},
        "profile": {"AWS_PROFILE": "jobs", "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "profiles")},
        "container, token in a file": {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": container,
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"),
        },
        "container, token in the environment": {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": container,
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": TOKEN,
        },
    }[way]
    heard.clear()
    done = run(endpoint, said)
    assert done.returncode == 0, done.stderr
    assert {call.who for call in heard} == {way.partition(",")[0]}


def test_where_there_are_none_it_says_so_and_what_to_do(endpoint: AwsEndpoint) -> None:
    done = run(endpoint, {"AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_CONFIG_FILE": "/nowhere"})
    assert done.returncode == 1
    assert "ConfigError: no AWS credentials are found" in done.stderr


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"AWS_ACCESS_KEY_ID": "a"}, "ConfigError: AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not"),
        (
            {"AWS_SECRET_ACCESS_KEY": "s", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"},
            "ConfigError: AWS_SECRET_ACCESS_KEY is set and AWS_ACCESS_KEY_ID is not",
        ),
        (
            {"AWS_PROFILE": "nobody"},
            "ConfigError: AWS credentials for the staging store can't be read: The config",
        ),
        ({"AWS_SHARED_CREDENTIALS_FILE": "broken"}, "ConfigError: AWS credentials for the staging store can't be read"),
        ({"AWS_SHARED_CREDENTIALS_FILE": "half"}, "ConfigError: AWS credentials for the staging store can't be read"),
        (
            {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "another"},
            "StorageUnavailable: AWS credentials for the staging store are not given out",
        ),
    ],
)
def test_credentials_that_are_no_whole_are_an_error_of_ours_that_says_so(
    said: dict[str, str], why: str, endpoint: AwsEndpoint, container: str, tmp_path: Path
) -> None:
    (tmp_path / "broken").write_text("[default\nnonsense")
    (tmp_path / "half").write_text("[default]\naws_access_key_id = a\n")
    places = {"broken": str(tmp_path / "broken"), "half": str(tmp_path / "half"), "container": container}
    done = run(endpoint, {name: places.get(value, value) for name, value in said.items()})
    assert f"firn.errors.{why}" in done.stderr, done.stderr
