"""Job runs."""

from typing import Literal

import msgspec

RunState = Literal["waiting", "running", "succeeded", "failed", "cancelled", "unknown"]


class RunProgress(msgspec.Struct, frozen=True):
    """How far a running commit is, as its job said a few seconds ago (`at`): `rows` of `planned` changes have the stage
    behind them. `stream`: that it commits, which may be another one that shares the run. `tables` of `tables_planned`
    are committed; `seconds_left`: an estimate, null while too little is done."""

    stream: str
    first: int
    last: int
    stage: Literal["reading", "folding", "writing", "committing"]
    rows: int
    planned: int
    tables: int
    tables_planned: int
    at: str
    seconds_left: int | None


class RunRow(msgspec.Struct, frozen=True):
    """A job run. `id`: EMR Serverless's, null where only the log tells of it. `kind`: commit, compact, expire, …;
    `first`, `last`: epochs of a commit. `detail`: why it failed, as far as it is known. `newest_cut`: the last of its
    epochs that is committed. `progress`: of a running commit, as far as its job tells."""

    id: str | None
    name: str
    kind: str
    stream: str | None
    first: int | None
    last: int | None
    attempt: int | None
    state: RunState
    started_at: str | None
    ended_at: str | None
    seconds: float | None
    detail: str | None
    newest_cut: int | None
    progress: RunProgress | None = None


class RunPage(msgspec.Struct, frozen=True):
    """GET /v1/console/jobs?stream=&state=&cursor=&limit=50, newest first. `from_emr`: whether EMR Serverless was asked;
    else the runs are what the log tells of, and `why_not` says why."""

    runs: tuple[RunRow, ...]
    next: str | None
    from_emr: bool
    why_not: str | None = None


class RunAnswer(msgspec.Struct, frozen=True):
    """GET /v1/console/jobs/{id}: a run with the end of its log (null where it is not here; `log_at` says where)."""

    run: RunRow
    log: str | None
    log_at: str | None
