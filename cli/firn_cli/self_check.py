"""What `firn doctor --deep` does: changes go all the way through a stack, into a table of their own, and out again.

It adds a stream of its own to the published configuration, posts to it, has it committed and cared for by real jobs,
reads the rows, and takes everything away again. What is there already is neither read nor touched.
"""

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from firn.config.names import FACTS, slug
from firn.deployment.stack import Stack
from firn.errors import ConfigError, FirnError, RequestError
from firn_cli.check_parts import Check, Part, Report, Trial, is_abandoned, scratch_name

if TYPE_CHECKING:
    from firn.config.model import Config

_SOURCE: Final = "firn.check"
_SEEN_SECONDS: Final = 60.0  # functions look for a new configuration every few seconds
# What a failure says -> what to change. The first that fits counts.
_ADVICE: Final = (
    (("glue", "accessdenied"), "let the namespace be one of the parameter GlueDatabases, or give another: --namespace"),
    (("no such host", "unknownhost", "connect timed out", "connecttimeout"), "the job reaches no network there: see "
     "Networks in docs/deploy-aws.md"),
    (("jobsha256", "code/"), "put the packaged job there: make upload STACK=…"),
    (("accessdenied", "403", "not authorized"), "a role or the bucket's policy forbids it: compare docs/deploy-aws.md"),
)  # fmt: skip


class _Failed(FirnError):
    """A part does not do what it shall."""


class SelfCheck:
    """One run of it. `namespace`: where the scratch table is made, and made itself if it is not there."""

    def __init__(self, stack: Stack, namespace: str, timeout: float, report: Report) -> None:
        self._stack, self._timeout, self._report = stack, timeout, report
        self._trial = Trial(report, lambda _part, error: (_said(error), _advice(_said(error))))
        self.name = scratch_name()
        self._namespace, self._table = namespace, (namespace, self.name)
        self._made_namespace = False
        self._rows: dict[int, str] = {}
        self._runs = set[str]()  # names of job runs
        self._before: str | None = None  # the configuration that was current
        self._mine: str | None = None

    def checks(self) -> Iterator[Check]:
        """Each part as it was found. After the first that is wrong the others are not tried; what was made is removed
        whatever happens."""
        parts: list[tuple[str, Part]] = [
            ("publish", self._publish),
            ("post", self._post_first),
            ("commit", self._commit_first),
            ("queue", self._queue),
            ("change", self._change),
            ("care", self._care),
            ("query", self._query),
        ]
        try:
            yield from self._trial.each(parts)
        finally:
            removed = self._trial.one("remove", self._remove)
        yield removed

    def _publish(self) -> str:
        from firn.config.reader import parse
        from firn.log import published_configs

        store = self._stack.store()
        self._remove_abandoned(published_configs.current(store))
        self._before = published_configs.current_sha(store)
        old = published_configs.load(store, self._before)
        text = with_stream(old.text, self.name, f"{self._namespace}.{self.name}")
        new = parse(text, published=True)
        if self._stack.reach is not None:
            self._stack.reach.check(new)
        self._mine = new.sha  # before: it may be published though no answer comes
        published_configs.publish(store, text, "firn.yaml")
        return f"stream {self.name} added to {self._before[:12]}"

    def _post_first(self) -> str:
        return self._post(_event("c", 1, "a"), _event("c", 2, "b"), _event("c", 3, "c"))

    def _post(self, *events: dict[str, Any]) -> str:
        from firn.client import StreamClient

        body = b"".join(json.dumps(one).encode() + b"\n" for one in events)
        key, deadline = uuid.uuid4().hex, time.monotonic() + _SEEN_SECONDS
        with StreamClient(self._stack.url) as client:
            while True:
                try:
                    receipt = client.post(self.name, body, key=key)
                    break
                except RequestError as error:
                    # Not seen yet: the functions have the configuration of some seconds ago.
                    if error.status != 404 or time.monotonic() > deadline:
                        raise
                    time.sleep(1)
        if receipt.accepted != len(events):
            raise _Failed(f"{receipt.accepted} of {len(events)} events were accepted: {list(receipt.errors)}")
        return f"batch {receipt.batch_id} is staged"

    def _commit_first(self) -> str:
        self._rows = {1: "a", 2: "b", 3: "c"}
        return self._committed()

    def _queue(self) -> str:
        """One more row by the queue, where the stack has one for every stream."""
        from firn.config.writers import refuses_queue
        from firn.deployment.delivery import queue_url
        from firn.log import layout, published_configs
        from firn.log.store import paths

        if len(self._stack.ingress_queues()) != 1:
            return "not tried: no single queue serves every stream"
        store, prefix = self._stack.store(), layout.staged_prefix(self.name)
        known = published_configs.load(store, self._mine or "")
        if (why := refuses_queue(known, self.name, self._stack.settings(starts=False).queue_stream)) is not None:
            return f"not tried: {why}"
        before = len(list(paths(store, prefix)))
        attribute = {"stream": {"DataType": "String", "StringValue": self.name}}
        self._stack.sqs().send_message(
            QueueUrl=queue_url(self._stack, self.name),
            MessageBody=json.dumps(_event("c", 4, "q")),
            MessageAttributes=attribute,
        )
        deadline = time.monotonic() + _SEEN_SECONDS
        while len(list(paths(store, prefix))) == before:
            if time.monotonic() > deadline:
                raise _Failed(
                    "a message in the queue is not staged: look at the log of ingest_queue. It comes again for a day, "
                    "and is in the dead-letter queue after that"
                )
            time.sleep(1)
        self._rows[4] = "q"
        return "a message is staged"

    def _change(self) -> str:
        self._post(_event("u", 1, "z"), _event("d", 2, "b"))
        del self._rows[2]
        self._rows[1] = "z"
        return self._committed()

    def _committed(self) -> str:
        from firn.deployment.flush_run import flush
        from firn_lake.catalogs.stack_catalog import catalog_of

        catalog = catalog_of(self._stack)
        self._made_namespace |= not catalog.namespace_exists(self._namespace)
        (done,) = flush(self._stack, self.name, timeout=self._timeout)
        self._runs |= {self._stack.jobs(starts=False).ended(run)[0] for run in done.runs}
        if done.quarantined:
            raise _Failed(f"the table is quarantined: {dict(done.quarantined)}")
        rows = catalog.load_table(self._table).scan(selected_fields=("id", "v")).to_arrow().to_pylist()
        found = sorted((row["id"], row["v"]) for row in rows)
        if found != sorted(self._rows.items()):
            raise _Failed(f"the table holds {found} in place of {sorted(self._rows.items())}")
        return f"epoch {done.epoch} by {', '.join(done.runs) or 'a job that was there'}; {len(found)} rows are right"

    def _care(self) -> str:
        from firn.deployment.maintenance_run import care_for

        done = care_for(self._stack, ["compact", "expire", "orphans"], [".".join(self._table)], timeout=self._timeout)
        failed = [str(line.get("error") or line) for line in done.lines if line["status"] == "failed"]
        if failed:
            raise _Failed("; ".join(failed))
        return f"{done.run}: {', '.join(sorted({str(line['status']) for line in done.lines}))}"

    def _query(self) -> str:
        from firn.client import Retry, StreamClient
        from firn_lake.tables import identifier_text

        asked = {"sql": f"SELECT count(*) AS n FROM {identifier_text(self._table)}"}  # noqa: S608 (quoted)
        with StreamClient(self._stack.url, timeout=60, retry=Retry(tries=2)) as client:
            try:
                headers = {"Content-Type": "application/json"}
                answer = client.request("POST", "/v1/query", json.dumps(asked).encode(), headers)
            except RequestError as error:
                if error.status in (401, 403):
                    return f"closed to strangers, as query.auth says ({error.status})"
                raise
        rows = answer.get("rows")
        if rows != [{"n": len(self._rows)}]:
            raise _Failed(f"the query function found {rows} in place of {len(self._rows)} rows")
        return "the query function reads the table"

    def _remove(self) -> str:
        """The configuration first: nothing is posted to the stream any more. What can't be removed does not keep the
        rest."""
        wrong = []
        for step in (self._unpublish, self._stop_jobs, self._drop, self._remove_files, self._remove_objects):
            try:
                step()
            except Exception as error:  # noqa: BLE001 (as in Trial.one)
                wrong.append(_said(error))
        if wrong:
            raise _Failed(f"something of {self.name} may be left: {'; '.join(wrong)}")
        return "the stream, its table and its objects are gone"

    def _unpublish(self) -> None:
        """Takes the stream out of whatever configuration is current: somebody may have published one meanwhile."""
        from firn.log import published_configs

        store = self._stack.store()
        current = published_configs.current(store)
        if self.name not in current.streams:
            return
        mine = self._before is not None and current.sha == self._mine
        text = (
            published_configs.load(store, self._before or "").text if mine else without_stream(current.text, self.name)
        )
        published_configs.publish(store, text)

    def _remove_abandoned(self, config: "Config") -> None:
        """What checks left that were killed."""
        for name, stream in config.streams.items():
            if is_abandoned(name):
                namespace = stream.target(_SOURCE).namespace
                other = SelfCheck(self._stack, namespace, self._timeout, self._report)
                other.name, other._table = name, (namespace, name)
                other._remove()

    def _remove_files(self) -> None:
        """What a job that was stopped wrote, and no table names."""
        from firn.log.store import open_store, paths, remove

        lake = open_store(self._stack.warehouse)
        for namespace, table in self._tables():
            remove(lake, list(paths(lake, f"{slug(namespace)}/{slug(table)}")))

    def _tables(self) -> tuple[tuple[str, str], ...]:
        return self._table, (self._namespace, f"{self.name}{FACTS}")

    def _remove_objects(self) -> None:
        from firn.log import layout
        from firn.log.store import paths, remove

        store = self._stack.store()
        folders, single = _objects(self.name)
        gone = [path for prefix in folders for path in paths(store, prefix)]
        remove(store, [*gone, *single, *(layout.closed_path(run) for run in self._runs)])

    def _stop_jobs(self) -> None:
        """Those that go on though nobody waits for them any more would make the table again."""
        from firn.deployment.flush_run import cancel, run_state
        from firn.runs.job_runs import PREFIX

        for name, run in self._stack.jobs(starts=False).active(f"{PREFIX}{self.name}-").items():
            self._runs.add(name)
            cancel(self._stack, run)
            deadline = time.monotonic() + _SEEN_SECONDS
            while run_state(self._stack, run)[0] not in ("SUCCESS", "FAILED", "CANCELLED"):
                if time.monotonic() > deadline:
                    raise _Failed(f"job run {run} does not stop: cancel it, and drop the table {'.'.join(self._table)}")
                time.sleep(1)

    def _drop(self) -> None:
        from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchNamespaceError, NoSuchTableError

        from firn_lake.catalogs.stack_catalog import catalog_of

        catalog = catalog_of(self._stack)
        for table in self._tables():
            with suppress(NoSuchTableError, NoSuchNamespaceError):
                catalog.purge_table(table)
        if self._made_namespace:
            with suppress(NoSuchNamespaceError, NamespaceNotEmptyError):
                catalog.drop_namespace(self._namespace)


def with_stream(text: str, stream: str, table: str) -> str:
    """A configuration with one stream more, which feeds `table`; all else means what it meant.

    Raises ConfigError if that can't be had.
    """
    rule = {
        "accept": ["http", "sqs"],
        "tables": {_SOURCE: {"to": table, "key": ["id"]}},
        "commit": {"linger": "0s"},
    }
    return _edited(text, stream, rule)


def without_stream(text: str, stream: str) -> str:
    """A configuration without that stream; all else means what it meant. Raises ConfigError if that can't be had."""
    return _edited(text, stream, None)


def _edited(text: str, stream: str, rule: dict[str, Any] | None) -> str:
    import yaml

    from firn.config.reader import parse

    root = yaml.compose(text, yaml.SafeLoader)
    added = yaml.compose(yaml.safe_dump({} if rule is None else {stream: rule}), yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode) or not isinstance(added, yaml.MappingNode):
        raise ConfigError("the configuration is not a mapping")
    (streams,) = (value for name, value in root.value if name.value == "streams")
    streams.value[:] = [one for one in streams.value if one[0].value != stream] + added.value
    made: str = yaml.serialize(root, Dumper=yaml.SafeDumper)
    old, new = (dict(parse(one, published=True).streams) for one in (text, made))
    if {**old, stream: None} != {**new, stream: None}:
        raise ConfigError(f"the stream {stream} can't be added or removed without changing others")
    return made


def _event(op: str, key: int, value: str) -> dict[str, Any]:
    schema, table = _SOURCE.split(".")
    now = time.time_ns()
    source = {"connector": "postgresql", "schema": schema, "table": table, "ts_ms": now // 1_000_000}
    source["sequence"] = json.dumps([str(now), str(now)])
    row = {"id": key, "v": value}
    return {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row, "source": source}


def _objects(stream: str) -> tuple[list[str], list[str]]:
    """Where a stream's objects are in the staging store: folders, and single ones."""
    from firn.log import layout

    of = (
        layout.staged_prefix, layout.dead_prefix, layout.replays_prefix, layout.epoch_prefix, layout.cut_prefix,
        layout.quarantine_prefix, layout.attempt_prefix,
    )  # fmt: skip
    single = [layout.state_path(stream), layout.health_path(stream), layout.swept_path(stream)]
    return [*(prefix(stream) for prefix in of), f"receipts/{stream}/"], single


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def _advice(said: str) -> str:
    low = said.lower()
    for words, advice in _ADVICE:
        if (all if words[0] == "glue" else any)(word in low for word in words):
            return advice
    return "the log of that function or job says more (docs/operations.md)"
