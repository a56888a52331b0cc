"""Who asks, and what they may do: every action, its plan and what it did."""

from typing import Any, Literal

import msgspec

Right = Literal["look", "events", "act"]


class Session(msgspec.Struct, frozen=True):
    """GET /v1/console/session: who asks and what for. `rights`: look (all pages), events (the bytes of dead letters),
    act (every action), each with those before it. `target`: `embedded` or the name of the deployment. `signed`: the
    page's own server signs, so that no key needs to be asked for."""

    target: str
    version: str
    rights: tuple[Right, ...]
    config: str | None
    published_at: str | None
    paused_since: str | None
    signed: bool = False


class ActionField(msgspec.Struct, frozen=True):
    """A field of an action's body. `choices`: the words it takes, if they are few."""

    name: str
    required: bool
    what: str
    choices: tuple[str, ...] = ()


class Action(msgspec.Struct, frozen=True):
    """An action: `does` says what it will do; `command`: the same in a terminal, with the fields as {name}. `allowed`:
    whether who asks may do it."""

    name: str
    scope: Literal["stack", "stream", "table", "letters", "hold", "alerts"]
    title: str
    does: str
    command: str
    fields: tuple[ActionField, ...]
    allowed: bool


class ActionList(msgspec.Struct, frozen=True):
    """GET /v1/console/actions."""

    actions: tuple[Action, ...]


class ActionPlan(msgspec.Struct, frozen=True):
    """GET /v1/console/actions/{name}?field=…: what it will do to just this, and its command. Nothing is done."""

    name: str
    title: str
    does: str
    command: str
    allowed: bool


class ActionDone(msgspec.Struct, frozen=True):
    """POST /v1/console/actions/{name}: what was done. `run`: the job that was started, if one was; `lines`: more, in
    words; `following`: the fields to send next, where there was no time for all; `details`: the same for programs."""

    name: str
    text: str
    command: str
    run: str | None = None
    lines: tuple[str, ...] = ()
    following: dict[str, str] | None = None
    details: dict[str, Any] = {}


class Fault(msgspec.Struct, frozen=True):
    """Any answer from 400 on: `error` is a word for programs, `message` says what is wrong and what to do."""

    error: str
    message: str
    retry_after: int | None = None
