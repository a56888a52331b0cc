"""`firn alerts`: which last, whom they were told to; `firn alerts test`: whether messages arrive."""

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import ago, counted, print_json, print_table
from firn.errors import FirnError
from firn_cli import completion
from firn_cli.options import DEFAULT_DIR, Dir, Json, Wide

if TYPE_CHECKING:
    from firn.alerts.alert_views import AlertsView, AlertView, DeliveryView

app = typer.Typer(name="alerts", help="Which alerts last, who was told, and a test.", rich_markup_mode=None)


class NotAllArrived(FirnError):
    """A test did not arrive for sure everywhere."""


@app.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Those that ended too, the newest fifty.")] = False,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
    wide: Wide = False,
) -> None:
    """Which alerts last, since when, and whether anybody was told. docs/alerts.md has the settings."""
    if context.invoked_subcommand is not None:
        return
    from firn.alerts.alert_views import MOST_ENDED, alerts_view
    from firn.log import published_configs

    store = find_stack(folder, running=False).store()
    now = datetime.now(UTC)
    view = alerts_view(store, published_configs.current(store), now, most_ended=MOST_ENDED if every else 0)
    if as_json:
        print_json(msgspec.to_builtins(view))
        return
    if not view.rules and not view.alerts:
        typer.echo("firn.yaml has no alerts: docs/alerts.md says how to write them")
        return
    columns = ("alert", "watches", "tells", "lasting")
    rules = [(rule.name, rule.watches, ", ".join(rule.to), rule.lasting) for rule in view.rules]
    print_table(columns, rules, prose=("watches",), wide=wide)
    _print_alerts(view, now, every=every, wide=wide)


def _print_alerts(view: "AlertsView", now: datetime, *, every: bool, wide: bool) -> None:
    if view.alerts:
        typer.echo()
        rows = [_row(one, now) for one in view.alerts]
        print_table(("alert", "since", "state", "what", "told"), rows, prose=("what", "told"), wide=wide)
    else:
        typer.echo("no alert lasts")
    if view.ended and not every:
        typer.echo(f"{counted(view.ended, 'alert')} ended: --all shows the newest")


def _row(one: "AlertView", now: datetime) -> tuple[str, str, str, str, str]:
    since = ago(datetime.fromisoformat(one.began_at), now)
    ended = one.ended_at
    state = "lasts" if ended is None else f"ended {ago(datetime.fromisoformat(ended), now)}"
    moment = "begun" if ended is None else "ended"
    told = "; ".join(map(_told, one.told)) if any(t.state != "sent" for t in one.told) else ", ".join(
        t.target for t in one.told if t.moment == moment
    )  # fmt: skip
    return one.rule, since, state, one.text, told


def _told(one: "DeliveryView") -> str:
    return f"{one.target} ({one.moment}): {one.state}" + (f", {one.why}" if one.why else "")


@app.command("test")
def send_test(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="A target, or an alert for all of its targets; all targets if left out.",
            autocompletion=completion.alerts,
        ),
    ] = "",
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Send a test from the function that sends alerts, and say what came of it. Exit code 1 if it did not arrive."""
    answer = find_stack(folder).invoke_alerts({"test": name, "nonce": uuid.uuid4().hex})
    if answer.get("error"):
        raise FirnError(str(answer["error"]))
    tests: list[dict[str, Any]] = list(answer["tests"])
    if as_json:
        print_json(tests)
    else:
        for one in tests:
            typer.echo(f"{one['target']}: {one['outcome']}" + (f": {one['why']}" if one["why"] else ""))
    if missing := [str(one["target"]) for one in tests if one["outcome"] != "sent"]:
        raise NotAllArrived(f"the test did not arrive for sure at {', '.join(missing)}")
