"""What a file sink has written, and whether it is still so: for `firn files`, `firn status` and `firn audit`."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise

from firn.config.model import StreamConfig
from firn.config.pipelines import Pipeline
from firn.errors import TerminalError
from firn.log import cuts, epochs, published_configs
from firn.log.store import Store, get
from firn.sinks import plans, state
from firn.sinks.file_rows import events_of
from firn.sinks.plans import Manifest, WrittenFile
from firn.sinks.state import SinkState

_READS_AT_ONCE = 16


class NoSink(TerminalError):
    """No pipeline of this name writes files, or ever has."""


@dataclass(frozen=True)
class SinkReport:
    """A sink: its manifests by number, and how it is. `named`: whether firn.yaml names it now."""

    stream: str
    pipeline: str
    manifests: tuple[Manifest, ...]
    state: SinkState
    named: bool


def of(store: Store, name: str) -> SinkReport:
    """The sink STREAM.PIPELINE. Raises NoSink, StorageUnavailable."""
    stream, _, pipeline = name.partition(".")
    config = published_configs.find(store)
    known = sorted(
        f"{one.name}.{sink.name}" for one in (config.streams.values() if config else ()) for sink in sinks_of(one)
    )
    found = tuple(plans.manifests(store, stream, pipeline)) if stream and pipeline else ()
    if not found and name not in known:
        there = f"; {', '.join(known)} {'does' if len(known) == 1 else 'do'}" if known else ""
        raise NoSink(f"no pipeline {name} writes files{there}: write firn files STREAM.PIPELINE")
    return SinkReport(
        stream, pipeline, found, state.read(store, stream).sinks.get(pipeline, SinkState()), name in known
    )


def sinks_of(settings: StreamConfig) -> list[Pipeline]:
    """The pipelines of a stream whose target is files."""
    return [one for one in settings.pipelines if one.files is not None]


def notes(store: Store, settings: StreamConfig) -> Iterator[str]:
    """What a person should know of the sinks of a stream that fail. Raises StorageUnavailable."""
    cut = cuts.last(store, settings.name)
    known = state.read(store, settings.name).sinks if sinks_of(settings) or (cut is not None and cut.files) else {}
    for name, one in sorted(known.items()):
        if one.tries:
            why = one.error or "its jobs died while they wrote"
            yield (
                f"the files of {name} are not written above epoch {one.upto} ({one.tries} "
                f"{'try' if one.tries == 1 else 'tries'}, the next after {one.due}): {why}; nothing else waits for them"
            )


def check(store: Store, report: SinkReport, opened: Callable[[str], Store]) -> Iterator[str]:
    """What is not as the manifests say: what `check_plans` finds, and files that are gone or not the same. Reads all
    files. Raises StorageUnavailable, ConfigError, UnreadableBatch."""
    yield from check_plans(store, report)
    stores = {one.to: opened(one.to) for one in report.manifests}
    every = [(stores[one.to], file) for one in report.manifests for file in one.files]
    with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
        for wrong in pool.map(lambda one: _changed(*one), every):
            if wrong is not None:
                yield wrong


def check_plans(store: Store, report: SinkReport) -> Iterator[str]:
    """Epochs in two plans, changes that no plan counts. Raises StorageUnavailable, ConfigError, UnreadableBatch."""
    for one, following in pairwise(report.manifests):
        if following.first <= one.last:
            yield f"plan {following.n} begins with epoch {following.first}, and plan {one.n} ends with {one.last}"
    by_config: dict[str, StreamConfig | None] = {}
    for one in report.manifests:
        yield from _uncounted(store, report, one, by_config)


def _uncounted(
    store: Store, report: SinkReport, one: Manifest, by_config: dict[str, StreamConfig | None]
) -> Iterator[str]:
    """Whether a plan counts the changes that its epochs hold for the sink."""
    plan = plans.read_plan(store, report.stream, report.pipeline, one.n)
    if plan is None or plan.left_out:
        return  # an epoch does not say which of its batches hold how many
    if one.config not in by_config:
        by_config[one.config] = published_configs.load(store, one.config).streams.get(report.stream)
    settings = by_config[one.config]
    pipeline = next((sink for sink in sinks_of(settings) if sink.name == report.pipeline), None) if settings else None
    if settings is None or pipeline is None:
        return
    held = sum(events_of(settings, pipeline, epoch) for epoch in epochs.read_many(store, report.stream, plan.epochs))
    if held != one.events:
        yield f"plan {one.n} counts {one.events} changes, and its epochs {one.first} to {one.last} hold {held}"


def _changed(store: Store, one: WrittenFile) -> str | None:
    body = get(store, one.path)
    if body is None:
        return f"{one.path} is gone"
    if len(body) != one.bytes or sha256(body).hexdigest() != one.sha256:
        return f"{one.path} is another file than the one that was written"
    return None
