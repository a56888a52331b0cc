"""What the console can change: every action with what it does, its command, its fields and the code that does it.

Each is a use case that the CLI has too; nothing is done here that `command` does not do. The right `act` is asked for
in `done` alone.
"""

import base64
import binascii
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from firn.dispatch import scheduled_rounds
from firn.errors import FirnError, RequestError
from firn.ingest.replay import Choice, Replayed, replay
from firn.log import layout, pause
from firn.log.holds import How
from firn.maintenance.launcher import health_streams
from firn.maintenance.schedule import Kind
from firn.quarantine.lifting import NotResumed, resume
from firn.status.letter_views import summary
from firn_console import alert_page, aws_calls
from firn_console.asked import Asked
from firn_console.contract.action_pages import Action, ActionDone, ActionField, ActionList, ActionPlan
from firn_console.holds import commands_of
from firn_console.letters import path_of
from firn_console.shell_words import command

logger: Final = logging.getLogger("firn.console")
_REPLAY_SECONDS: Final = 20.0  # the gateway waits 29
_MOST_ORIGINAL: Final = 4 << 20  # bytes of an event that a person corrected
Fields = Mapping[str, str]


@dataclass(frozen=True)
class _Action:
    """`says`: what it will do to just these fields; `command`: the same in a terminal; `does`: does it."""

    about: Action
    says: Callable[[Asked, Fields], tuple[str, str]]
    does: Callable[[Asked, Fields], ActionDone]


def action_list(asked: Asked) -> ActionList:
    """Every action; `allowed` says whether the caller may do it."""
    return ActionList(tuple(_allowed(asked, one.about) for one in ACTIONS.values()))


def action_plan(asked: Asked, name: str) -> ActionPlan:
    """What it will do to just this. Raises RequestError 400, 404."""
    action, fields = _found(name), _fields(name, asked.parameters)
    does, command = action.says(asked, fields)
    return ActionPlan(name, action.about.title, does, command, "act" in asked.grant.rights)


def done(asked: Asked, name: str) -> ActionDone:
    """Do it. Raises NotGranted, RequestError 400, 404, 409, StorageUnavailable, TransientError, UnknownOutcome (the
    same may be asked for again: each action is one step, or finishes what was begun)."""
    asked.grant.require("act")
    action = _found(name)
    fields = _fields(name, asked.body)
    action.says(asked, fields)  # checks them
    answer = action.does(asked, fields)
    logger.info("action", extra={"action": name, "stream": fields.get("stream")})
    return answer


def _allowed(asked: Asked, about: Action) -> Action:
    return msgspec.structs.replace(about, allowed="act" in asked.grant.rights)


def _found(name: str) -> _Action:
    if name not in ACTIONS:
        raise RequestError(404, "no_such_action", f"there is no such action; there are {', '.join(ACTIONS)}")
    return ACTIONS[name]


def _fields(name: str, given: Mapping[str, Any]) -> dict[str, str]:
    """The action's fields, all text. Raises RequestError 400."""
    known = {one.name: one for one in ACTIONS[name].about.fields}
    found: dict[str, str] = {}
    for field, value in given.items():
        if field not in known:
            raise RequestError(400, "bad_field", f"{name} has no field {field[:100]!r}; it has {', '.join(known)}")
        if isinstance(value, bool):
            value = "true" if value else "false"
        if isinstance(value, int):
            value = str(value)
        if not isinstance(value, str):
            raise RequestError(400, "bad_field", f"{field} is not text")
        if value and known[field].choices and value not in known[field].choices:
            raise RequestError(400, "bad_field", f"{field} is none of {', '.join(known[field].choices)}")
        if value:
            found[field] = value
    for one in known.values():
        if one.required and one.name not in found:
            raise RequestError(400, "missing_field", f"{name} needs {one.name}: {one.what}")
    return found


# Dispatch


def _flush_says(asked: Asked, fields: Fields) -> tuple[str, str]:
    asked.stream(fields["stream"])
    text = f"Seals what is staged of {fields['stream']} and starts the job that commits it, if none is at work."
    return text, command("firn", "flush", fields["stream"])


def _flush(asked: Asked, fields: Fields) -> ActionDone:
    asked.grant.require_whole()
    [one] = _dispatch(asked, fields["stream"], force=True)
    if one.get("error"):
        raise RequestError(503, "not_dispatched", f"{one['error']}; the schedule tries again", 5)
    again = command("firn", "flush", fields["stream"])
    return ActionDone("flush", scheduled_rounds.became(one), again, run=one.get("run") or one.get("waits_for"))


def _pause_says(_asked: Asked, _fields: Fields) -> tuple[str, str]:
    return "No job starts any more until it is resumed. Changes are accepted and staged all the time.", "firn pause"


def _pause(asked: Asked, _fields: Fields) -> ActionDone:
    asked.grant.require_whole(stack=True)
    pause.begin(asked.store)
    return ActionDone(
        "pause", "paused: changes are staged, no job starts; running jobs end after their epoch", "firn pause"
    )


def _unpause_says(_asked: Asked, _fields: Fields) -> tuple[str, str]:
    return "Jobs start again, and what waits is committed.", "firn resume"


def _unpause(asked: Asked, _fields: Fields) -> ActionDone:
    asked.grant.require_whole(stack=True)
    pause.end(asked.store)
    lines: tuple[str, ...] = ()
    try:
        lines = tuple(f"{one['stream']}: {scheduled_rounds.became(one)}" for one in _dispatch(asked, None, force=False))
    except FirnError as error:
        lines = (f"what waits was not looked at: {error}; the schedule does that too",)
    return ActionDone("unpause", "resumed", "firn resume", lines=lines)


def _dispatch(asked: Asked, stream: str | None, *, force: bool) -> list[dict[str, Any]]:
    """A round of dispatch, by its own function: the console may start no jobs."""
    event: dict[str, Any] = {"force": True} if force else {}
    answer = _invoked(asked.settings.dispatch_function, event | ({"stream": stream} if stream else {}))
    return list(answer.get("streams", ()))


def _invoked(function: str, event: Mapping[str, Any]) -> dict[str, Any]:
    """What a function answers. Raises TransientError, ConfigError, RequestError 503 if it failed."""
    if not function:
        raise RequestError(409, "not_started", "this console knows no function that does it: use the command")
    path = f"/2015-03-31/functions/{function}/invocations"
    answer, headers = aws_calls.call("lambda", "POST", path, body=msgspec.json.encode(event), seconds=25)
    if headers.get("x-amz-function-error") or not isinstance(answer, dict):
        raise RequestError(503, "function_failed", f"the function {function} failed: its log says why", 5)
    return answer


# Quarantine


def _resume_says(asked: Asked, fields: Fields) -> tuple[str, str]:
    stream, name, how = asked.stream(fields["stream"]).name, fields["name"], fields.get("how", "retry")
    same = commands_of(stream, name, how)[0]
    if name == "stream":
        return f"The epochs of {stream} are committed again.", same
    if name.startswith("epoch "):
        if not _is_number(name.removeprefix("epoch ")):
            raise RequestError(400, "bad_field", "name is `stream`, such as `epoch 7`, or a table")
        return f"The batches of {name} of {stream} are sealed again.", same
    does = {
        "retry": f"{name} gets what it lacks; what held it may hold it again.",
        "replay": f"{name} gets all epochs that it lacks.",
        "skip": f"{name} never gets the epochs that it was held for, on purpose.",
    }
    return does[how], same


def _resume(asked: Asked, fields: Fields) -> ActionDone:
    stream, name, how = fields["stream"], fields["name"], fields.get("how", "retry")
    number = int(name.removeprefix("epoch ")) if name.startswith("epoch ") else None
    table = None if name == "stream" or number is not None else name
    if table is None:
        asked.grant.require_whole()
    if not asked.grant.sees(stream, table):
        raise RequestError(404, "not_held", "nothing of that name is held that you may see")
    ways: Mapping[str, How] = {"retry": "retry", "replay": "replay", "skip": "skip"}
    try:
        text = resume(asked.store, stream, table, number, ways[how], asked.now)
    except NotResumed as error:
        raise RequestError(409, "not_resumed", str(error)) from error
    return ActionDone("resume", f"{text}; flush does it now, else the next dispatch", commands_of(stream, name, how)[0])


# Dead letters


def _replay_says(asked: Asked, fields: Fields) -> tuple[str, str]:
    stream = asked.stream(fields["stream"]).name
    words = ["firn", "dead", "replay", stream]
    which = [f"with the reason {fields['reason']}"] if "reason" in fields else []
    which += [f"of {fields['table']}"] if "table" in fields else []
    for name in ("reason", "table", "object"):
        words += [f"--{name}", fields[name]] if name in fields else []
    if "row" in fields and ("object" not in fields or not _is_number(fields["row"])):
        raise RequestError(400, "bad_field", "row is a number, and needs object: together they name a letter")
    corrected = "original" in fields or "base64" in fields
    if corrected and "row" not in fields:
        raise RequestError(400, "bad_field", "a corrected event needs the object and the row of its letter")
    if "row" in fields:
        what = "The letter" + (", as you corrected it," if corrected else "")
        export = command("firn", "dead", "export", stream, "letters.jsonl", "--object", fields["object"])
        same = f"{export}; then {command('firn', 'dead', 'replay', stream, '--from', 'letters.jsonl')}"
    else:
        what, same = " ".join(["Every letter", *which, "that waits"]), command(*words)
    verb = (
        "is looked at as if it came again; nothing is written"
        if fields.get("dry_run") == "true"
        else ("goes through ingest again, once, under the present configuration and in its old place")
    )
    return f"{what} {verb}.", same + (" --dry-run" if fields.get("dry_run") == "true" else "")


def _replay(asked: Asked, fields: Fields) -> ActionDone:
    stream, dry = fields["stream"], fields.get("dry_run") == "true"
    asked.grant.require_whole()
    prefix = layout.dead_prefix(stream)
    choice = Choice(
        object=fields.get("object"), reason=fields.get("reason"), table=fields.get("table"),
        after=prefix + fields["after"] if "after" in fields else None,
    )  # fmt: skip
    texts = None
    if "row" in fields:
        letter = (path_of(asked, stream, fields["object"]), int(fields["row"]))
        choice = Choice(only=frozenset({letter}))
        original = _original(fields)
        texts = None if original is None else {letter: original}
    until, done, following = time.monotonic() + _REPLAY_SECONDS, list[Replayed](), None
    for one in replay(
        asked.store, asked.config, stream, choice, clock=lambda: datetime.now(UTC), corrected=texts, dry_run=dry
    ):
        done.append(one)
        if time.monotonic() > until:
            following = {**fields, "after": one.path.removeprefix(prefix)}
            break
    # A letter is of one object; else there may be none behind the last that was done.
    if following is not None and (
        "row" in fields or not replace(choice, after=prefix + following["after"]).objects(asked.store, stream)
    ):
        following = None
    result = summary(stream, asked.config.sha, done, dry_run=dry)
    lines = (*result.lines(), *(() if following is None else ("there was no time for all: go on with the rest",)))
    single = result.letters == 1
    verb = "would be" if dry else "was" if single else "were"
    text = f"{result.letters:,} letter{'' if single else 's'} {verb} taken"
    return ActionDone("replay", text, _replay_says(asked, fields)[1], lines=lines, following=following)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def _original(fields: Fields) -> bytes | None:
    try:
        text = base64.b64decode(fields["base64"], validate=True) if "base64" in fields else None
    except (binascii.Error, ValueError):
        raise RequestError(400, "bad_field", "base64 is not base64") from None
    if text is None and "original" in fields:
        text = fields["original"].encode("utf-8", "surrogatepass")
    if text is not None and len(text) > _MOST_ORIGINAL:
        raise RequestError(
            413, "too_large", f"the event has more than {_MOST_ORIGINAL:,} bytes: firn dead replay --from"
        )
    return text


# Maintenance

_KINDS: Final[Mapping[str, Kind]] = {"compact": "compact", "expire": "expire", "remove-orphans": "orphans"}
_DOES: Final = {
    "compact": "Makes few files of many, in a job of its own. Rows and what readers see stay the same.",
    "expire": "Lets the snapshots go that the table's rules no longer keep. Time travel to them ends.",
    "remove-orphans": "Removes files that no snapshot knows and that are old enough.",
}


def _care_says(name: str) -> Callable[[Asked, Fields], tuple[str, str]]:
    def says(asked: Asked, fields: Fields) -> tuple[str, str]:
        table = fields["table"]
        if not asked.grant.sees(table=table) or not health_streams(asked.config, table):
            raise RequestError(404, "no_such_table", "no stream of firn.yaml feeds a table of that name")
        return f"{table}: {_DOES[name]}", command("firn", name, table)

    return says


def _care(name: str) -> Callable[[Asked, Fields], ActionDone]:
    def does(asked: Asked, fields: Fields) -> ActionDone:
        table, kind = fields["table"], _KINDS[name]
        function = asked.settings.compact_function if kind == "compact" else asked.settings.expire_function
        answer = _invoked(function, {"kind": kind, "table": table})
        if answer.get("left"):
            raise RequestError(409, "not_started", str(answer["left"]))
        return ActionDone(name, f"job {answer['run']} does it", command("firn", name, table), run=answer["run"])

    return does


# Alerts


def _test_alerts(asked: Asked, fields: Fields) -> ActionDone:
    asked.grant.require_whole(stack=True)
    same = alert_page.says(asked, fields)[1]
    return alert_page.tested(_invoked(asked.settings.alerts_function, alert_page.event_of(fields)), same)


_STREAM: Final = ActionField("stream", True, "the stream")
_TABLE: Final = ActionField("table", True, "the table, such as shop.orders")
_REPLAY_FIELDS: Final = (
    _STREAM,
    ActionField("object", False, "only letters of this dead-letter object"),
    ActionField("row", False, "only this letter of the object"),
    ActionField("reason", False, "only letters with this reason"),
    ActionField("table", False, "only letters of this source table"),
    ActionField("original", False, "the event as you corrected it, with object and row"),
    ActionField("base64", False, "the same as base64, where it is not text"),
    ActionField("after", False, "only letters of objects behind this one: `following` of an answer has it"),
    ActionField("dry_run", False, "only say what would be taken", ("false", "true")),
)


def _actions() -> dict[str, _Action]:
    some = [
        _Action(
            Action(
                "flush", "stream", "Commit now", "Seals what is staged and commits it.", "firn flush {stream}",
                (_STREAM,), False,
            ),
            _flush_says, _flush,
        ),
        _Action(
            Action("pause", "stack", "Pause", "No job starts until it is resumed.", "firn pause", (), False),
            _pause_says, _pause,
        ),
        _Action(
            Action("unpause", "stack", "Resume", "Jobs start again.", "firn resume", (), False),
            _unpause_says, _unpause,
        ),
        _Action(
            Action(
                "resume", "hold", "Resume", "What is quarantined goes on.", "firn resume {stream} {name}",
                (_STREAM, ActionField("name", True, "`stream`, such as `epoch 7`, or a table"),
                 ActionField("how", False, "what a table gets", ("retry", "replay", "skip"))), False,
            ),
            _resume_says, _resume,
        ),
        _Action(
            Action(
                "replay", "letters", "Replay", "Letters go through ingest again, each once.",
                "firn dead replay {stream}", _REPLAY_FIELDS, False,
            ),
            _replay_says, _replay,
        ),
        _Action(
            Action(
                "test-alerts", "alerts", "Send a test", "Sends a test message.", "firn alerts test {name}",
                (ActionField("name", False, "a target, or an alert for all of its targets"),), False,
            ),
            alert_page.says, _test_alerts,
        ),
    ]  # fmt: skip
    titles = {"compact": "Compact", "expire": "Expire snapshots", "remove-orphans": "Remove orphans"}
    for name, title in titles.items():
        about = Action(name, "table", title, _DOES[name], f"firn {name} {{table}}", (_TABLE,), False)
        some.append(_Action(about, _care_says(name), _care(name)))
    return {one.about.name: one for one in some}


ACTIONS: Final[Mapping[str, _Action]] = _actions()
