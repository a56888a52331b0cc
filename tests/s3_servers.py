"""S3 servers for tests: the embedded stack's (moto under one lock), a real versitygw, and two that are wrong."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import boto3
import pytest
from botocore.config import Config

from firn_demo import versitygw
from firn_local.aws import AwsApplication, AwsEndpoint
from firn_local.serving import Server

RIGHT = ("moto", "versitygw")
_NONE_OF = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")


class Forgetful:
    """Passes over If-None-Match, as a proxy in front of a right storage may."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return self._application(environ, start_response)


class Racy(Forgetful):
    """Looks whether there is an object, and then writes: right, but for who comes in between."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "PUT" and "HTTP_IF_NONE_MATCH" in environ:
            look = {**environ, "REQUEST_METHOD": "HEAD", "CONTENT_LENGTH": "0"}
            said: list[str] = []
            list(self._application(look, lambda status, *_: said.append(status)))  # type: ignore[arg-type]
            if said[0].startswith("200"):
                body = b"<Error><Code>PreconditionFailed</Code></Error>"
                start_response("412 Precondition Failed", [("Content-Length", str(len(body)))])
                return [body]
            time.sleep(0.2)
        return super().__call__(environ, start_response)


WRONG: dict[str, Callable[[WSGIApplication], WSGIApplication]] = {"forgetful": Forgetful, "racy": Racy}


@contextmanager
def s3_server(kind: str, folder: Path) -> Iterator[dict[str, str]]:
    """A server of one of RIGHT or WRONG. -> the AWS_* by which clients reach it. `folder` is its own."""
    if kind == "versitygw":
        if why := versitygw.missing():
            pytest.skip(why)
        with versitygw.versitygw(folder) as env:
            yield env
        return
    endpoint = AwsEndpoint()  # whose credentials take any secret key for S3
    served = endpoint if kind == "moto" else Server(WRONG[kind](AwsApplication()), threads=24)
    served.start()
    try:
        yield {**endpoint.credentials, "AWS_ENDPOINT_URL": served.url}
    finally:
        served.stop()


@contextmanager
def s3_environment(kind: str, folder: Path, *buckets: str) -> Iterator[dict[str, str]]:
    """The same, with this process's environment set for it and `buckets` made in it."""
    with s3_server(kind, folder) as env, pytest.MonkeyPatch.context() as patch:
        for name in _NONE_OF:
            patch.delenv(name, raising=False)
        for name, value in env.items():
            patch.setenv(name, value)
        s3 = client(env)
        for bucket in buckets:
            s3.create_bucket(Bucket=bucket)
        s3.close()
        yield env


def client(env: dict[str, str]) -> Any:
    """A boto3 client of it."""
    any_client: Any = boto3.session.Session().client
    return any_client(
        "s3",
        endpoint_url=env.get("AWS_ENDPOINT_URL_S3") or env["AWS_ENDPOINT_URL"],
        region_name=env["AWS_REGION"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
        config=Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}),
    )
