"""The accounts of a stream's file sinks: what the epochs hold for them, against what their manifests say."""

from dataclasses import dataclass

from firn.audit.ledger_view import Difference
from firn.log import cuts, published_configs
from firn.log.store import Store
from firn.sinks import report


@dataclass(frozen=True)
class SinkAccount:
    """One pipeline into files. `epoch`: the last that its files have; `events`: changes that are in plans, which became
    `rows` in `files` files, none or several each, or `dead` letters; `pending`: changes that no plan has yet."""

    pipeline: str
    epoch: int
    events: int
    rows: int
    files: int
    dead: int
    pending: int


def accounts(store: Store, stream: str) -> tuple[list[SinkAccount], list[Difference]]:
    """The accounts by name, and what differs. Reads no file. Raises StorageUnavailable, ConfigError,
    UnreadableBatch."""
    config, cut = published_configs.find(store), cuts.last(store, stream)
    settings = config.streams.get(stream) if config is not None else None
    named = [one.name for one in report.sinks_of(settings)] if settings is not None else []
    found, differences = [], []
    for name in sorted({*named, *(cut.files if cut is not None else ())}):
        one = report.of(store, f"{stream}.{name}")
        found.append(
            SinkAccount(
                name,
                max([one.state.upto, *(manifest.last for manifest in one.manifests)]),
                sum(manifest.events for manifest in one.manifests),
                sum(manifest.rows for manifest in one.manifests),
                sum(len(manifest.files) for manifest in one.manifests),
                sum(manifest.dead for manifest in one.manifests),
                one.state.events,
            )
        )
        differences += [
            Difference(
                "files", f"files of {name}: {wrong}",
                "something else than Firn has written to sinks/ or epochs/: restore them (bucket versioning)",
            )
            for wrong in report.check_plans(store, one)
        ]  # fmt: skip
    return found, differences
