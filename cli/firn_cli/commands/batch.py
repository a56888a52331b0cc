"""`firn batch ID`: what became of an accepted batch."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import cell, counted, print_json, say
from firn_cli.options import DEFAULT_DIR, Dir, Json, Url

_LINES = ("batch_id", "stream", "received_at", "accepted", "rejected", "ignored", "tables", "replay_of")
_NAMES = 14  # cells for the names before the values


def command(
    batch_id: Annotated[str, typer.Argument(metavar="ID", help="As the stream's answer gave it.")],
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="TABLE", help="In this table alone, as its readers hear of it."),
    ] = None,
    folder: Dir = DEFAULT_DIR,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show what became of a batch. Staged, in an epoch, in which snapshots, quarantined, or dead-lettered and why."""
    from firn.client import StreamClient

    name = quote(batch_id, safe="")
    path = f"/v1/batches/{name}" if table is None else f"/v1/tables/{quote(table, safe='')}/batch?id={name}"
    with StreamClient(find_stack(folder, url).url) as client:
        answer = client.request("GET", path)
    if as_json:
        print_json(answer)
        return
    if table is not None:
        for line in told_of_table(answer):
            say(line, hang=_NAMES)
        return
    for line in told(answer):
        say(line, hang=_NAMES)


def told(answer: Mapping[str, Any]) -> Iterator[str]:
    """The answer of `GET /v1/batches/{id}` in lines for people. Takes the answer of an older stack too."""
    yield _line("state", _state(answer))
    for name in _LINES:
        if answer.get(name) is not None:
            value = answer[name]
            if isinstance(value, dict):
                value = ", ".join(f"{key} {number:,}" for key, number in value.items()) or "none"
            yield _line(name.replace("_", " "), cell(value))
    for one in answer.get("targets", ()):
        where = one["table"] or "no table"
        state = one["state"]
        if state == "committed":
            snapshot = one.get("snapshot")
            where_in = f"committed in snapshot {snapshot}" if snapshot else "which has no snapshot yet"
            state = f"{where_in} (cut {one['cut']})"
        why = f": {one['why']}" if one.get("why") else ""
        yield _line("to", f"{one['rows']:,} of {one['source']} to {where}, {state}{why}")
    for one in answer.get("dead", ()):
        of = f"{counted(one['letters'], 'letter')} of {one['table'] or 'no known table'}"
        yield _line("dead", f"{of}, {one['reason']}: {one['message']}")
        again = "not replayed"
        if one["replayed"]:
            again = f"{one['replayed']:,} replayed in {', '.join(one['replayed_in'])}"
        yield _line("", f"{again}; firn dead show {one['object']}")
        yield _line("", one["advice"])
    if answer.get("quarantine"):
        yield _line("quarantine", answer["quarantine"])
    if answer.get("expired"):
        yield _line("note", "its staged object has expired: what of it was ignored is not known any more")


def told_of_table(answer: Mapping[str, Any]) -> Iterator[str]:
    """The answer of `GET /v1/tables/{table}/batch` in lines for people."""
    state = str(answer.get("state", ""))
    if answer.get("snapshot"):
        state += f" in snapshot {answer['snapshot']} (cut {answer['cut']})"
    yield _line("state", state)
    for name in ("table", "batch_id", "received_at"):
        yield _line(name.replace("_", " "), cell(answer.get(name)))
    yield _line("changes", f"{answer.get('rows', 0):,}")
    for one in answer.get("dead", ()):
        again = f", {one['replayed']:,} replayed" if one["replayed"] else ""
        yield _line("dead", f"{counted(one['letters'], 'letter')}, {one['reason']}{again}")


def _state(answer: Mapping[str, Any]) -> str:
    state = str(answer.get("state", "")).replace("_", "-")
    if answer.get("epoch") is not None:
        state += f", in epoch {answer['epoch']}"
    if answer.get("cut") is not None:
        state += f", cut {answer['cut']}"
    return state


def _line(name: str, text: str) -> str:
    return f"{name:<{_NAMES}}{text}"
