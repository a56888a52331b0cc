"""A sender's request: its stream's rules, its key and the stream's backlog are looked at, then it is staged."""

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from firn.auth.senders import Request, Senders
from firn.config.model import Config
from firn.errors import RequestError
from firn.ingest import cloudevent_headers
from firn.ingest.accept import Accepted, accept, accepted_before, stream_config
from firn.ingest.bodies import Limits, content_of, read_body
from firn.log.backlog_gate import BacklogFull, Gate, RateExceeded, refusal, too_fast
from firn.log.receipts import Header
from firn.log.store import Store

if TYPE_CHECKING:
    from firn.config.writers import Writer


def stage_request(
    store: Store,
    config: Config,
    gate: Gate,
    stream: str,
    request: Request,
    limits: Limits,
    now: datetime,
    table: str | None = None,
    writer: "Writer | None" = None,
) -> Accepted:
    """Stage the events of a request from one who may post. `now`: aware. `table`: the source table of its rows.
    `writer`: whom it is from, if that may write a part of the stream only.

    Raises RequestError (as firn.ingest.accept.accept, and 403 where the stream takes queue messages only, 413 and 415
    for bodies that are not read here), BacklogFull, StorageUnavailable, UnknownOutcome.
    """
    known = stream_config(config, stream)  # an unknown stream is a 404 whatever the body is
    if "http" not in known.ways:
        only = f"what {known.fed_by.kind} brings" if known.fed_by.kind and not known.ways else "queue messages"
        raise RequestError(403, "not_accepted", f"the stream {stream} takes {only} only: so says firn.yaml")
    auth, headers = known.auth if writer is None else writer.auth, request.headers
    content = content_of(headers.get("content-type"))
    # Standard Webhooks: the id is the same at each try, https://github.com/standard-webhooks/standard-webhooks
    # Where requests are signed only it counts: another key beside it would make a replayed request a new one.
    signed = auth is not None and auth.by == "signature"
    header: Header = "webhook-id" if signed or "idempotency-key" not in headers else "Idempotency-Key"
    key = headers.get(header.lower())
    why = _shut(gate, stream, writer, now)
    if why is not None and not key:
        raise why
    sent = limits.sent if known.max_body is None else known.max_body
    body = read_body(request.body, headers.get("content-encoding"), replace(limits, sent=sent))
    if cloudevent_headers.in_headers(headers, known.envelope):
        body = cloudevent_headers.structured(headers, body)
    if why is None and writer is not None and (wait := gate.pace(stream, writer.rate, len(body), writer.name)):
        why = too_fast(stream, writer.rate or 0, wait, writer.name)
    if why is None and (wait := gate.pace(stream, known.rate, len(body))):
        why = too_fast(stream, known.rate or 0, wait)
    if why is not None:
        # What an earlier try has staged adds nothing, and "nothing was taken" would be wrong.
        before = accepted_before(store, stream, body, key, header, table, writer) if key else None
        if before is None:
            raise why
        return before
    return accept(
        store, config, stream, body, now=now, content=content, key=key, key_header=header, limits=limits.events,
        table=table, writer=writer,
    )  # fmt: skip


def _shut(gate: Gate, stream: str, writer: "Writer | None", now: datetime) -> BacklogFull | RateExceeded | None:
    """Why the stream takes nothing for now, or nothing of the writer; None if it does."""
    shut = gate.shut(stream, now)
    if shut is not None:
        return refusal(shut, now)
    return None if writer is None else gate.shut_for(stream, writer, now)


def streams_open_to(senders: Senders, config: Config, request: Request, now: datetime) -> list[dict[str, Any]]:
    """The streams that the sender of a request may post to, and the rules of their tables, as GET /v1/streams answers.

    Raises TransientError, ConfigError if secrets can't be had.
    """
    posted = [stream.name for stream in config.streams.values() if "http" in stream.ways]
    return [
        {
            "name": name,
            "envelope": stream.envelope,
            "tables": [
                {"source": r.source, "to": r.to, "mode": r.mode, "key": r.key}
                for r in stream.tables
                if writer is None or writer.may_meet(r.source)
            ],
        }
        for name, writer in senders.open_to(config, posted, request, now).items()
        for stream in [config.streams[name]]
    ]
