"""A running Firn, embedded or deployed: its addresses, and what is opened or called by them."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firn.errors import FirnError

if TYPE_CHECKING:
    from firn.config.reach import Reach
    from firn.log.store import Store
    from firn.runs.emr import EmrJobs
    from firn.settings import Settings


class NoStack(FirnError):
    """No stack runs where the command looked for one."""


class Paused(FirnError):
    """No job may start (`firn pause`). Nothing was done."""


@dataclass(frozen=True)
class Stack:
    """Addresses of a running stack. `env` is what its functions see (AWS_*, FIRN_*); `dir` holds logs and job runs."""

    dir: Path
    url: str
    staging: str = ""
    warehouse: str = ""
    catalog_uri: str = ""
    queues: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    pid: int | None = None
    dispatch: str | None = None  # the deployed function's name; None: the embedded stack's
    alerts: str = ""  # of a deployment, likewise; "": it has none
    scheduled: bool = True  # False: deployed with Paused=true
    token: str = ""  # by which the embedded stack knows its owner
    has_console: bool = True
    signed_urls: Mapping[str, str] = field(default_factory=dict)  # of a deployment: "console", "query"
    reach: "Reach | None" = None  # what its jobs can reach; None: whatever this machine does

    def store(self) -> "Store":
        """The staging store. Raises StorageUnavailable."""
        from firn.log.store import open_store

        self.use_environment()
        return open_store(self._known(self.staging, "staging store"))

    def catalog_address(self) -> str:
        """Where its Iceberg catalog is: its own, or the one that the published configuration names.

        Raises NoStack (only its URL is known), ConfigError, StorageUnavailable.
        """
        from firn.log import published_configs

        self.use_environment()
        uri = self.catalog_uri
        if not uri and self.staging:
            store = self.store()
            uri = published_configs.current(store).catalog.address
        return self._known(uri, "catalog")

    def settings(self, *, starts: bool = True) -> "Settings":
        """What the stack's own functions work by. Without `starts` how jobs are started may be missing: of a deployment
        only those functions know it. Raises ConfigError, TransientError."""
        from firn.settings import Settings

        self.use_environment()
        env = {**os.environ, **self.env}
        if starts and self.dispatch is not None and "FIRN_JOB_ENTRY_POINT" not in self.env:
            from firn.deployment.deployed_function import variables

            env |= variables(self.dispatch)
        return Settings.from_environment(env)

    def jobs(self, *, starts: bool = True) -> "EmrJobs":
        """The jobs on EMR Serverless (boto3); without `starts`, to look at and not to start."""
        from firn.runs.emr import EmrJobs

        return EmrJobs(self.settings(starts=starts))

    def expect_no_pause(self) -> None:
        """Before a job is started for a person. Raises Paused, StorageUnavailable."""
        from firn.log import pause

        if (since := pause.since(self.store())) is not None:
            raise Paused(
                f"paused since {since:%Y-%m-%d %H:%M} UTC, so that no job starts: firn resume, then this again"
            )

    def invoke_dispatch(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the dispatch function answers. Asked again if nobody answers: it is idempotent.

        Raises TransientError, RequestError, FirnError (the function failed).
        """
        return self._invoke("dispatch", self.dispatch, event)

    def invoke_alerts(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the function of the alerts answers, likewise. Raises NoStack as well: a deployment has no such one."""
        if self.dispatch is not None and not self.alerts:
            raise NoStack("the deployed stack has no function for alerts: it is of an older template; deploy it again")
        return self._invoke("alerts", self.alerts or None, event)

    def _invoke(self, name: str, deployed: str | None, event: Mapping[str, Any]) -> Mapping[str, Any]:
        body = json.dumps(event).encode()
        if deployed is None:
            from firn.client import Retry, StreamClient

            with StreamClient(self.url, timeout=300, retry=Retry(tries=3)) as client:
                headers = {"Content-Type": "application/json", "X-Firn-Token": self.token}
                return client.request("POST", f"/_firn/invoke/{name}", body, headers)
        from firn.deployment.deployed_function import invoke

        self.use_environment()
        return invoke(deployed, body)

    def sqs(self) -> Any:
        """A boto3 SQS client."""
        import boto3

        self.use_environment()
        return boto3.client("sqs")

    def ingress_queues(self) -> dict[str, str]:
        """Queue name to URL, without the queues of what was given up."""
        return {name: url for name, url in self.queues.items() if not {"dead", "dlq", "given"} & set(_words(name))}

    def use_environment(self) -> None:
        """Give this process the stack's AWS_* settings: obstore, boto3 and PyIceberg read them from there."""
        told = {name: value for name, value in self.env.items() if name.startswith("AWS_")}
        if "AWS_ACCESS_KEY_ID" in told:  # a token that the shell has is of other keys
            for token in ("AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"):
                os.environ.pop(token, None)
        if "AWS_ENDPOINT_URL" in told:  # so is an endpoint of one service, and it would go before that of all
            for name in [name for name in os.environ if name.startswith("AWS_ENDPOINT_URL_")]:
                del os.environ[name]
        os.environ.update(told)

    def _known(self, address: str, what: str) -> str:
        if not address:
            raise NoStack(f"only the URL {self.url} is known, not its {what}: run this where the stack's --dir is")
        return address


def _words(name: str) -> list[str]:
    """The lower-case words of a queue's name: IngressDeadLetterQueue, ingress-dlq."""
    return re.sub(r"([a-z])([A-Z])", r"\1 \2", name).replace("-", " ").replace("_", " ").lower().split()
