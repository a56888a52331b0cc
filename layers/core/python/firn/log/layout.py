"""Where each staged object lies: object keys are made and read here and nowhere else. Pure.

    staged/{stream}/{yyyy}/{mm}/{dd}/{hh}/{batch id}.parquet    dead/{stream}/{yyyy}/{mm}/{dd}/{batch id}.parquet
    replays/{stream}/{yyyy}/{mm}/{dd}/{dead object}/{n:06d}.json, and .done beside it once its batch is staged
    epochs/{stream}/{n:020d}.json                               cuts/{stream}/{n:020d}.json, cuts/_kept/{name}.json
    receipts/{stream}/{sha256 of the key}, ….2, ….3            config/{sha}.yaml, config/current.json
    quarantine/{stream}/{table, epochs, stream}/{n:020d}.json   attempts/{stream}/{first}-{last}-{attempt}.{kind}
    rebuilds/{run}.json                                         state/{stream}.json
    care/{run}.json                                             health/{stream}.json
    swept/{stream}.json                                         config/paused.json
    pulls/{stream}/{source}/{n:020d}.plan, .done                pulls/{stream}/{source}/state.json, columns.json
    sinks/{stream}/state.json                                   sinks/{stream}/{pipeline}/{n:020d}.plan, .done
    attempts/{stream}/progress.json                             backfills/…: log/backfill_layout.py
    views/{stream}/state.json                                   alerts/…: log/alert_log.py
    shards/…: log/shard_maps.py
    tier/{table's slug}.json                                    reads/{table's slug}/{yyyy}/{mm}/{dd}/{hh}-{hash}.json

A batch id is `{stream}.{ms:012x}{random:016x}`: it sorts by time inside its stream, is safe in URLs and file names,
and its object's path follows from the id alone. Numbers are 20 digits, so that they sort as text.
"""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

STREAM_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_BATCH_ID: Final = re.compile(r"(?P<stream>[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})\.(?P<ms>[0-9a-f]{12})[0-9a-f]{16}")
_RANDOM_BYTES: Final = 8
_EPOCH_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

CONFIG_POINTER: Final = "config/current.json"
PAUSED: Final = "config/paused.json"  # there while no job may start (log/pause.py)
_KEPT: Final = "_kept"


def is_stream_name(name: str) -> bool:
    """1 to 64 letters, digits, `_`, `-` or `.`, not starting with `.` or `-`: safe in paths, URLs, job names."""
    return STREAM_NAME.fullmatch(name) is not None


def batch_id(stream: str, now: datetime, random: bytes) -> str:
    """The id of a batch of `stream` received at `now` (aware); `random` is 8 bytes or more, of which 8 are used."""
    if not is_stream_name(stream) or len(random) < _RANDOM_BYTES:
        raise ValueError(f"no batch id for stream {stream!r} with {len(random)} random bytes")
    ms = (now - _EPOCH_START) // timedelta(milliseconds=1)
    return f"{stream}.{ms:012x}{random[:_RANDOM_BYTES].hex()}"


def is_batch_id(text: str) -> bool:
    """Could Firn have given out this id?"""
    match = _BATCH_ID.fullmatch(text)
    return match is not None and int(match["ms"], 16) <= _LAST_MS


def stream_of(batch: str) -> str:
    """The stream that a batch id belongs to. ValueError if `batch` is not a batch id."""
    return _parts(batch)[0]


def time_of(batch: str) -> datetime:
    """When the batch was received, UTC, to the millisecond. ValueError if `batch` is not a batch id."""
    return _parts(batch)[1]


def accepted(batch: str) -> int:
    """When the batch was received, ms; 0 if `batch` is not a batch id."""
    return int(time_of(batch).timestamp() * 1000) if is_batch_id(batch) else 0


def staged_prefix(stream: str) -> str:
    """Below which all batches of `stream` lie."""
    return f"staged/{stream}"


def staged_path(batch: str) -> str:
    """Where the batch lies. ValueError if `batch` is not a batch id."""
    stream, when = _parts(batch)
    return f"{staged_prefix(stream)}/{when:%Y/%m/%d/%H}/{batch}.parquet"


def staged_floor(stream: str, when: datetime) -> str:
    """A text below every staged path from `when` (UTC) on, above every earlier one: where a listing starts."""
    return staged_path(batch_id(stream, when, bytes(_RANDOM_BYTES))).removesuffix(f"{'00' * _RANDOM_BYTES}.parquet")


def batch_of(path: str) -> str | None:
    """The batch id in a staged or dead-letter path; None if the object is none of Firn's."""
    name = path.rpartition("/")[2].removesuffix(".parquet")
    return name if is_batch_id(name) else None


@lru_cache(maxsize=16_384)  # who has much waiting lists it again and again
def staged_batch(path: str) -> str | None:
    """The batch that lies at this very path; None for an object that is none of Firn's."""
    batch = batch_of(path)
    return batch if batch is not None and staged_path(batch) == path else None


def dead_prefix(stream: str) -> str:
    """Below which all dead letters of `stream` lie."""
    return f"dead/{stream}"


def dead_path(stream: str, when: datetime, name: str) -> str:
    """Dead letters found at `when`. `name`: the batch id at ingest; at commit any name fixed by the work itself."""
    if "/" in name or not name:
        raise ValueError(f"{name!r} can't name a dead-letter object: it must have no slash")
    return f"{dead_prefix(stream)}/{when:%Y/%m/%d}/{name}.parquet"


def batch_dead_path(batch: str) -> str:
    """Where ingest puts the dead letters of a batch. ValueError if `batch` is not a batch id."""
    stream, when = _parts(batch)
    return dead_path(stream, when, batch)


def dead_name(path: str) -> str:
    """What names a dead-letter object among those of its stream: the batch's id, or the commit's own name."""
    return path.rpartition("/")[2].removesuffix(".parquet")


def dead_folder(stream: str, when: datetime) -> str:
    """Below which lie the dead letters of a day: of batches received then, and of commits of epochs sealed then."""
    return f"{dead_prefix(stream)}/{when:%Y/%m/%d}"


def commit_of(name: str) -> tuple[int, str] | None:
    """(epoch, place) in the name of a commit's dead letters (commit/rejects.py); None for any other name."""
    number, _, place = name.removeprefix("commit-").partition("-")
    known = name.startswith("commit-") and len(number) == 20 and number.isascii() and number.isdigit()
    return (int(number), place) if known else None


def dead_day(path: str) -> str:
    """The day of a dead-letter path as `yyyy/mm/dd`; days compare as text."""
    return "/".join(path.split("/")[2:5])


def replays_prefix(stream: str) -> str:
    """Below which lies which dead letters of `stream` were replayed."""
    return f"replays/{stream}"


def replay_folder(dead: str) -> str:
    """Below which lie the replays of one dead-letter object."""
    return "replays/" + dead.removeprefix("dead/").removesuffix(".parquet")


def replay_path(dead: str, n: int) -> str:
    """The replay `n` (from 1) of a dead-letter object: its rows are claimed by creating this."""
    return f"{replay_folder(dead)}/{n:06d}.json"


def replay_done_path(dead: str, n: int) -> str:
    """There when the batch of replay `n` is staged."""
    return f"{replay_folder(dead)}/{n:06d}.done"


def replay_of(path: str) -> tuple[str, int] | None:
    """(dead-letter object, n) of a replay's path, the inverse of `replay_path`; None for any other object."""
    folder, _, name = path.rpartition("/")
    number, _, kind = name.partition(".")
    if not folder.startswith("replays/") or kind != "json" or not (number.isascii() and number.isdigit()):
        return None
    return f"dead/{folder.removeprefix('replays/')}.parquet", int(number)


def epoch_prefix(stream: str) -> str:
    """Below which the epochs of `stream` lie."""
    return f"epochs/{stream}"


def epoch_path(stream: str, n: int) -> str:
    """The epoch `n` (from 1) of `stream`."""
    return f"{epoch_prefix(stream)}/{n:020d}.json"


def cut_prefix(stream: str) -> str:
    """Below which the cuts of `stream` lie."""
    return f"cuts/{stream}"


def cut_path(stream: str, n: int) -> str:
    """The cut at the end of epoch `n` of `stream`."""
    return f"{cut_prefix(stream)}/{n:020d}.json"


def quarantine_prefix(stream: str) -> str:
    """Below which lies what of `stream` is quarantined."""
    return f"quarantine/{stream}"


def quarantine_path(stream: str, what: str, n: int, kind: str = "") -> str:
    """Quarantine `n` of `what`: `stream`, `epochs`, or a table's slug with a dot for its slash. `kind`: "" it is held,
    `lifted` it is lifted, `again` its batches are in another epoch."""
    return f"{quarantine_prefix(stream)}/{what}/{n:020d}{'.' if kind else ''}{kind}.json"


def quarantine_of(path: str) -> tuple[str, int, str] | None:
    """(what, n, kind) of a quarantine's path; None if the object is none of Firn's."""
    *_, what, name = path.split("/")
    number, _, kind = name.removesuffix(".json").partition(".")
    is_number = len(number) == 20 and number.isascii() and number.isdigit()
    return (what, int(number), kind) if is_number and kind in ("", "lifted", "again") else None


def attempt_prefix(stream: str) -> str:
    """Below which lies how the jobs of `stream` went that did not end well."""
    return f"attempts/{stream}"


def attempt_path(stream: str, first: int, last: int, attempt: int, kind: str) -> str:
    """`started` or `failed`: how far a job came. Numbers sort as text."""
    return f"{attempt_prefix(stream)}/{first:020d}-{last:020d}-{attempt:06d}.{kind}"


def progress_path(stream: str) -> str:
    """How far the running commit of `stream` is (log/job_progress.py); overwritten. The bucket's rule lets it go."""
    return f"{attempt_prefix(stream)}/progress.json"


def closed_path(run: str) -> str:
    """The mark that the job run of this name takes no more epochs."""
    return f"jobs/{run}.closed"


def stream_of_cut(path: str) -> str | None:
    """The stream in a cut's path; None if the object is not a cut."""
    folder, stream, *rest = path.split("/")
    known = folder == "cuts" and is_stream_name(stream) and stream != _KEPT and len(rest) == 1
    return stream if known and number_of(path) is not None else None


def kept_prefix() -> str:
    """Below which lie the cuts that were kept by name. No stream of firn.yaml begins with `_`."""
    return f"cuts/{_KEPT}"


def kept_path(name: str) -> str:
    """The cut kept as `name` (log/named_cuts.py says what a name is)."""
    if "/" in name or not name:
        raise ValueError(f"{name!r} can't name a kept cut: it must have no slash")
    return f"{kept_prefix()}/{name}.json"


def attempt_of(path: str) -> tuple[int, int, int, str] | None:
    """(first, last, attempt, kind), the inverse of `attempt_path`; None if the object is none of Firn's."""
    numbers, _, kind = path.rpartition("/")[2].partition(".")
    found = numbers.split("-")
    known = len(found) == 3 and all(one.isascii() and one.isdigit() for one in found) and kind in ("started", "failed")
    return (int(found[0]), int(found[1]), int(found[2]), kind) if known else None


def number_of(path: str) -> int | None:
    """The number in an epoch's or a cut's path; None if the object is none of Firn's."""
    name = path.rpartition("/")[2].removesuffix(".json")
    return int(name) if len(name) == 20 and name.isascii() and name.isdigit() else None


def receipt_path(stream: str, key: str, kind: str = "", link: int = 1) -> str:
    """The receipt of a key: by its hash, because the key is the sender's text.

    `kind`: a space of keys of its own, "" for Idempotency-Key. No key holds a line feed, so that two spaces never meet.
    `link`: from 1; a later one is the successor of a receipt whose batch was never written.
    """
    name = hashlib.sha256((f"{kind}\n{key}" if kind else key).encode()).hexdigest()
    return f"receipts/{stream}/{name}" if link == 1 else f"receipts/{stream}/{name}.{link}"


def config_path(sha: str) -> str:
    """A configuration by the hash of its text."""
    return f"config/{sha}.yaml"


def state_path(stream: str) -> str:
    """What of `stream` waits, as dispatch saw it last; like config/current.json it is overwritten."""
    return f"state/{stream}.json"


def health_path(stream: str) -> str:
    """How the tables of `stream` are, as a job saw them last; overwritten like its state."""
    return f"health/{stream}.json"


def swept_path(stream: str) -> str:
    """Up to which epoch the staged objects of `stream` are gone (log_retention.py); overwritten like its state."""
    return f"swept/{stream}.json"


def tiers_prefix() -> str:
    """Below which lies what is known of the tiers of all tables."""
    return "tier"


def tier_path(table: str) -> str:
    """What of a table is in a cold storage class or on its way; `table`: its slug. Overwritten."""
    return f"tier/{table}.json"


def sinks_state_path(stream: str) -> str:
    """How the file sinks of `stream` are, as a job saw them last; overwritten like its state."""
    return f"sinks/{stream}/state.json"


def sink_prefix(stream: str, pipeline: str) -> str:
    """Below which the plans of a file sink lie, and the manifests of those that are written."""
    return f"sinks/{stream}/{pipeline}"


def views_state_path(stream: str) -> str:
    """How the views are that jobs of `stream` refresh, as a job saw them last; overwritten."""
    return f"views/{stream}/state.json"


def plan_path(stream: str, pipeline: str, n: int) -> str:
    """The plan `n` (from 1) of a file sink."""
    return f"{sink_prefix(stream, pipeline)}/{n:020d}.plan"


def manifest_path(stream: str, pipeline: str, n: int) -> str:
    """The manifest of plan `n`: there once all its files are."""
    return f"{sink_prefix(stream, pipeline)}/{n:020d}.done"


def plan_of(path: str) -> tuple[int, bool] | None:
    """(n, whether it is the manifest) of a plan's or a manifest's path; None if the object is none of Firn's."""
    number, _, kind = path.rpartition("/")[2].partition(".")
    known = len(number) == 20 and number.isascii() and number.isdigit() and kind in ("plan", "done")
    return (int(number), kind == "done") if known else None


def pulls_prefix(stream: str) -> str:
    """Below which lie the sources that a stream is or was pulled from, a folder each."""
    return f"pulls/{stream}"


def pull_prefix(stream: str, source: str) -> str:
    """Below which lie the plans of a source that a stream is pulled from."""
    return f"{pulls_prefix(stream)}/{source}"


def pull_path(stream: str, source: str, n: int) -> str:
    """The plan `n` (from 1) of a source; `.done` beside it once it is staged."""
    return f"{pull_prefix(stream, source)}/{n:020d}.plan"


def pull_state_path(stream: str, source: str) -> str:
    """How a source is, as the pull saw it last; overwritten like a stream's state."""
    return f"{pull_prefix(stream, source)}/state.json"


def pull_columns_path(stream: str, source: str) -> str:
    """What the columns of a source's tables were called last; overwritten likewise."""
    return f"{pull_prefix(stream, source)}/columns.json"


def reads_prefix(table: str) -> str:
    """Below which lies who read what of a table (by its slug)."""
    return f"reads/{table}"


def reads_hour(table: str, when: datetime) -> str:
    """A text below every record of reads from `when`'s hour on, above every earlier one."""
    return f"{reads_prefix(table)}/{when.astimezone(UTC):%Y/%m/%d/%H}"


def reads_path(table: str, when: datetime, name: str) -> str:
    """A record of reads in the hour of `when`; `name`: what tells it from others of that hour."""
    return f"{reads_hour(table, when)}-{name}.json"


def care_path(run: str) -> str:
    """What became of one run of `firn compact`, `firn expire` or `firn remove-orphans`; `run`: letters and digits."""
    if not run.isalnum():
        raise ValueError(f"{run!r} can't name a run: letters and digits only")
    return f"care/{run}.json"


def rebuild_path(run: str) -> str:
    """What became of one run of `firn rebuild`; `run` is its id, in letters and digits."""
    if not run.isalnum():
        raise ValueError(f"{run!r} can't name a rebuild: letters and digits only")
    return f"rebuilds/{run}.json"


def instant(when: datetime) -> str:
    """A time as Firn writes it into JSON: UTC, RFC 3339, milliseconds (`2026-01-31T09:05:00.123Z`)."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parts(batch: str) -> tuple[str, datetime]:
    match = _BATCH_ID.fullmatch(batch)
    if match is None or int(match["ms"], 16) > _LAST_MS:
        raise ValueError(f"{batch!r} is not a batch id")
    return match["stream"], _EPOCH_START + timedelta(milliseconds=int(match["ms"], 16))
