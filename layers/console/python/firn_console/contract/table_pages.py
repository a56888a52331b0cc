"""Tables, as the log knows them."""

from typing import Any, Literal

import msgspec

from firn_console.contract.letter_pages import HoldRow


class TableRow(msgspec.Struct, frozen=True):
    """A table, by what jobs saw last. `rows`, `bytes`, `files`: null until one looked. `state`: the worst of held,
    unfed (no rule fills it any more), due (maintenance is), ok, unknown (no job has looked)."""

    table: str
    streams: tuple[str, ...]
    state: Literal["held", "unfed", "due", "ok", "unknown"]
    rows: int | None
    bytes: int | None
    files: int | None
    due: tuple[str, ...]
    snapshot: str | None
    measured_at: str | None


class TablePage(msgspec.Struct, frozen=True):
    """GET /v1/console/tables?like=&stream=&state=&cursor=&limit=100, by name. `total`: of all pages."""

    tables: tuple[TableRow, ...]
    total: int
    next: str | None


class Tier(msgspec.Struct, frozen=True):
    """Live files in one storage class. `dollars`: a month, by the list prices that the answer names."""

    storage_class: str
    files: int | None
    bytes: int
    dollars: float


class Feed(msgspec.Struct, frozen=True):
    """What fills a table: source tables of a stream by a rule, or a pipeline; of a view its `sql`, and as `source` what
    it reads."""

    stream: str
    source: str
    mode: str
    key: tuple[str, ...]
    pipeline: str | None
    sql: str | None = None


class ViewShown(msgspec.Struct, frozen=True):
    """How a view is. `stream`: whose jobs refresh it; `cut`: of each stream that feeds it the cut that it is of;
    `every`: seconds between two refreshes, 0: at each cut; `behind_seconds`: since when there is a newer cut that
    changes it, null if there is none; `due`: when it is refreshed next, null: not before something changes, or what it
    waits for is there. `quarantined`: it fails, not by chance; `error`: why its last try failed."""

    stream: str
    cut: dict[str, int]
    every: int
    refreshed_at: str | None
    behind_seconds: float | None
    due: str | None
    waits_for: str | None
    quarantined: bool
    tries: int
    error: str | None


class TableAnswer(msgspec.Struct, frozen=True):
    """GET /v1/console/tables/{table}: what the query function's API lacks. `health`: GET /v1/tables/{table}/health's
    answer with `debts` and `due`, null until a job looked. Columns and snapshots: GET /v1/tables/{table}/columns and
    …/timeline of the query function."""

    row: TableRow
    feeds: tuple[Feed, ...]
    held: HoldRow | None
    health: dict[str, Any] | None
    tiers: tuple[Tier, ...]
    prices: str
    notes: tuple[str, ...]
    view: ViewShown | None = None
