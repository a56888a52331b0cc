"""An S3 of somebody else's in place of the stack's own: where staging and warehouse are then."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from firn.log.cloud_stores import is_loopback


class NoOtherS3(Exception):
    """It can't be used. The text says what to do."""


@dataclass(frozen=True)
class OtherS3:
    """Its endpoint and the keys to it. Functions and jobs have one pair of keys: the stack takes these for its own."""

    endpoint: str
    access_key: str
    secret_key: str
    region: str

    @classmethod
    def at(cls, endpoint: str, environment: Mapping[str, str]) -> Self:
        """With the keys of the environment. Raises NoOtherS3 where there are none, or `endpoint` is no server's
        address."""
        if (found := urlsplit(endpoint)).scheme not in ("http", "https") or not found.hostname or " " in endpoint:
            raise NoOtherS3("--s3-endpoint is not the address of an S3: write https://host, or http://127.0.0.1:7070")
        if found.username is not None or found.path.strip("/") or found.query or found.fragment:
            raise NoOtherS3("--s3-endpoint has more than a host and a port: keys are AWS_ACCESS_KEY_ID and "
                            "AWS_SECRET_ACCESS_KEY in the environment, and buckets are the stack's own")  # fmt: skip
        if found.scheme == "http" and not is_loopback(endpoint):
            raise NoOtherS3(f"--s3-endpoint {endpoint} is not on this machine: write https://")
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
        if lacking := [name for name in names if not environment.get(name)]:
            raise NoOtherS3(f"an S3 at {endpoint} needs {', '.join(lacking)} in the environment (docs/storages.md)")
        return cls(endpoint, *(environment[name] for name in names))

    @property
    def variables(self) -> dict[str, str]:
        """What clients need in their environment beside the stack's own endpoint, which keeps the other services."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }

    def make_buckets(self, names: Iterable[str]) -> None:
        """Those that are not there yet. Raises NoOtherS3."""
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError

        s3 = boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(connect_timeout=5, read_timeout=30, s3={"addressing_style": "path"}),
        )
        try:
            there = {one["Name"] for one in s3.list_buckets()["Buckets"]}
            for name in sorted({*names} - there):
                s3.create_bucket(Bucket=name)
        except (BotoCoreError, ClientError) as error:
            raise NoOtherS3(
                f"no buckets can be made at {self.endpoint}: {error}; "
                "see that the server runs and that the keys are its own"
            ) from error
        finally:
            s3.close()


def key_of_caller(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """One key for each function and for jobs, as one role on AWS: the stack's endpoint can tell who calls. Another S3
    knows one key."""
    told = "AWS_ACCESS_KEY_ID" in environment and "AWS_ENDPOINT_URL_S3" not in environment
    return {"AWS_ACCESS_KEY_ID": name} if told else {}
