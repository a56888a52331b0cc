"""Which Firn a command talks to: the embedded stack whose addresses are in {dir}/stack.json."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firn.errors import FirnError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

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
    scheduled: bool = True  # False: deployed with Paused=true
    token: str = ""  # by which the embedded stack knows its owner
    reach: "Reach | None" = None  # what its jobs can reach; None: whatever this machine does

    def store(self) -> "Store":
        """The staging store. Raises StorageUnavailable."""
        from firn.log.store import open_store

        self.use_environment()
        return open_store(self._known(self.staging, "staging store"))

    def catalog(self) -> "Catalog":
        """The Iceberg catalog, by PyIceberg: the stack's own, or the one that the published configuration names."""
        from firn.log import published_configs
        from firn_lake.catalogs.catalog import open_catalog

        self.use_environment()
        uri = self.catalog_uri
        if not uri and self.staging:
            store = self.store()
            uri = published_configs.load(store, published_configs.current_sha(store)).catalog.address
        return open_catalog(self._known(uri, "catalog"), self.warehouse, {**os.environ, **self.env})

    def settings(self, *, starts: bool = True) -> "Settings":
        """What the stack's own functions work by. Without `starts` how jobs are started may be missing: of a deployment
        only those functions know it. Raises ConfigError, TransientError."""
        from firn.settings import Settings

        self.use_environment()
        env = {**os.environ, **self.env}
        if starts and self.dispatch is not None and "FIRN_JOB_ENTRY_POINT" not in self.env:
            from firn.deployment.cloudformation import variables

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
        body = json.dumps(event).encode()
        if self.dispatch is None:
            from firn.client import Retry, StreamClient

            with StreamClient(self.url, timeout=300, retry=Retry(tries=3)) as client:
                headers = {"Content-Type": "application/json", "X-Firn-Token": self.token}
                return client.request("POST", "/_firn/invoke/dispatch", body, headers)
        from firn.deployment.cloudformation import invoke

        self.use_environment()
        return invoke(self.dispatch, body)

    def sqs(self) -> Any:
        """A boto3 SQS client."""
        import boto3

        self.use_environment()
        return boto3.client("sqs")

    def ingress_queues(self) -> dict[str, str]:
        """Queue name to URL, without the dead-letter queues."""
        return {name: url for name, url in self.queues.items() if not {"dead", "dlq"} & set(_words(name))}

    def use_environment(self) -> None:
        """Give this process the stack's AWS_* settings: obstore, boto3 and PyIceberg read them from there."""
        told = {name: value for name, value in self.env.items() if name.startswith("AWS_")}
        if "AWS_ACCESS_KEY_ID" in told:  # a token that the shell has is of other keys
            for token in ("AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"):
                os.environ.pop(token, None)
        os.environ.update(told)

    def _known(self, address: str, what: str) -> str:
        if not address:
            raise NoStack(f"only the URL {self.url} is known, not its {what}: run this where the stack's --dir is")
        return address


_target: str | None = None


def use_target(name: str | None) -> None:
    """From here on `find_stack` finds the deployment of that name in firn.yaml (`firn --target NAME`)."""
    global _target
    _target = name


def target_name() -> str | None:
    """The name that `firn --target NAME` gave."""
    return _target


def is_deployed() -> bool:
    """Whether commands talk to a deployment (`firn --target NAME`), and so to nothing of this machine."""
    return _target is not None


def find_stack(folder: Path, url: str | None = None, *, running: bool = True) -> Stack:
    """The stack of `folder`; `url` replaces its HTTP address, and is enough by itself for commands that only send.

    `running` False also takes a stack that has stopped, if its data are files: tables can be read all the same.
    After `use_target` it is the deployment of that name, whatever runs in `folder`. Raises NoStack, ConfigError.
    """
    if _target is not None:
        from firn.deployment.cloudformation import find_deployed

        return find_deployed(_target, folder, url)
    described = _described(folder)
    if described is None:
        if url is not None:
            return Stack(folder, url.rstrip("/"))
        stopped = None if running else _files_left_by_a_stopped_stack(folder)
        if stopped is not None:
            return stopped
        raise NoStack(f"no stack runs here ({folder}): start one with `firn up`, or name it with --dir or --url")
    pid = described.get("pid")
    stack = Stack(
        dir=folder,
        url=(url or str(described["url"])).rstrip("/"),
        staging=str(described.get("staging", "")),
        warehouse=str(described.get("warehouse", "")),
        catalog_uri=str(described.get("catalog_uri", "")),
        queues=dict(described.get("queues") or {}),
        env={str(name): str(value) for name, value in (described.get("env") or {}).items()},
        pid=pid if isinstance(pid, int) else None,
        dispatch=str(described["dispatch"]) if described.get("dispatch") else None,
        token=str(described.get("token") or ""),
    )
    alive = url is not None or stack.pid is None or _alive(stack.pid)
    if not alive and (running or not stack.warehouse.startswith("file:")):
        raise NoStack(f"the stack of {folder} (process {stack.pid}) has ended: start it again with `firn up`")
    return stack


def _described(folder: Path) -> dict[str, Any] | None:
    file = folder / "stack.json"
    try:
        described = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise NoStack(f"{file} can't be read ({error}): start the stack again with `firn up`") from error
    if not isinstance(described, dict) or "url" not in described:
        raise NoStack(f"{file} names no url: start the stack again with `firn up`")
    return described


def _files_left_by_a_stopped_stack(folder: Path) -> Stack | None:
    # A stack takes its stack.json away when it stops; what it kept in files is where it always is.
    root = folder.resolve()
    if not (root / "catalog.db").is_file():
        return None
    return Stack(
        dir=folder,
        url="",
        staging=f"file://{root}/staging",
        warehouse=f"file://{root}/warehouse",
        catalog_uri=f"sqlite:///{root}/catalog.db",
    )


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _words(name: str) -> list[str]:
    """The lower-case words of a queue's name: IngressDeadLetterQueue, ingress-dlq."""
    return re.sub(r"([a-z])([A-Z])", r"\1 \2", name).replace("-", " ").replace("_", " ").lower().split()
