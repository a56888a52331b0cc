"""`firn sources add`: check a PostgreSQL, make its publication and slot, and write it into firn.yaml."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlsplit, urlunsplit

import typer

from firn.deployment.terminal import say
from firn.errors import ConfigError
from firn_cli.init_templates import PASSWORD_VARIABLE, stream_name

if TYPE_CHECKING:
    from firn.config.pull_source import Plugin, PostgresAddress, PullSource
    from firn_cli.source_checks import Findings, Survey

app = typer.Typer(name="sources", help="Databases that Firn reads by itself.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Databases that Firn reads by itself."""


@app.command("add")
def add(
    url: Annotated[
        str,
        typer.Argument(
            metavar="postgres://USER@HOST:PORT/DATABASE",
            help=f"The database. The password may come from {PASSWORD_VARIABLE} or PGPASSWORD; it is written nowhere.",
        ),
    ],
    name: Annotated[str | None, typer.Option(help="The source's name; the database's if left out.")] = None,
    stream: Annotated[str | None, typer.Option(help="The stream that it feeds; the source's name if left out.")] = None,
    slot: Annotated[str | None, typer.Option(help="The slot; firn_NAME if left out.")] = None,
    publication: Annotated[str | None, typer.Option(help="The publication; firn if left out.")] = None,
    table: Annotated[
        list[str] | None, typer.Option(help="schema.table to take, several times; all if left out.")
    ] = None,
    secret: Annotated[
        str, typer.Option(help="Where functions find the password: secretsmanager:NAME, ssm:/NAME or file:/PATH.")
    ] = "",
    iam: Annotated[bool, typer.Option("--iam", help="Log in by a token of AWS's.")] = False,
    plugin: Annotated[str, typer.Option(help="The output plugin of the slot: pgoutput or wal2json.")] = "pgoutput",
    create: Annotated[bool, typer.Option("--create", help="Create what is missing of publication and slot.")] = False,
    config: Annotated[Path, typer.Option(help="The firn.yaml to write to.")] = Path("firn.yaml"),
) -> None:
    """Check a PostgreSQL and add it to firn.yaml. Says what to run where something is missing."""
    from firn.config.pull_source import PullSource

    by = _plugin(plugin, publication)
    address, password, plain = _address(url)
    name = name or stream_name(address.database)
    slot = slot or f"firn_{re.sub('[^a-z0-9_]', '_', name)}"[:63]
    published = "" if by == "wal2json" else publication or "firn"
    source = PullSource(name, address, slot, published, stream or name, secret, iam, plugin=by)
    found, findings = _checked(source, password, frozenset(table or ()), create)
    for one in findings.found:
        say(f"{_MARKS[one.severity]} {one.what}: {one.text}", hang=7)
        if one.run and one.severity != "good":
            typer.echo(f"       {one.run}")
    if findings.open:
        again = "" if findings.refused else ", or give --create to have publication and slot made"
        say(f"firn sources add: nothing was written to {config}: do the above, then run this again{again}", err=True)
        raise typer.Exit(1)
    for line in _written(config, source, plain, found):
        say(line)


def _plugin(text: str, publication: str | None) -> "Plugin":
    """The plugin. Raises ConfigError."""
    from firn.config.pull_source_reader import parse_plugin

    try:
        found = parse_plugin(text)
    except ValueError as error:
        raise ConfigError(f"--plugin {text} {error}") from None
    if found == "wal2json" and publication is not None:
        raise ConfigError("--publication is nothing that wal2json knows: leave it out, and name tables with --table")
    return found


_MARKS = {"good": "  ok  ", "note": " note ", "to do": "to do ", "refused": "  NO  "}


def _address(url: str) -> "tuple[PostgresAddress, str | None, str]":
    """The address, the password, and the URL without it. Raises ConfigError."""
    from urllib.parse import unquote

    from firn.config.pull_source_reader import parse_address

    try:
        parts = urlsplit(url)
        password = unquote(parts.password) if parts.password is not None else None
        where = f"{parts.hostname or ''}:{parts.port}" if parts.port else parts.hostname or ""
        user = quote(unquote(parts.username or ""), safe="")
        plain = urlunsplit((parts.scheme, f"{user}@{where}", parts.path, parts.query, ""))
        address = parse_address(plain)
    except ValueError as error:
        raise ConfigError(f"the address {error}") from None
    return address, password or os.environ.get(PASSWORD_VARIABLE) or os.environ.get("PGPASSWORD"), plain


def _checked(
    source: "PullSource", password: str | None, wanted: frozenset[str], create: bool
) -> "tuple[Survey, Findings]":
    """What was found, after what `create` makes. Raises ConfigError, TransientError."""
    from firn.auth.secrets import Secrets
    from firn.sources.postgres.connection import Connection, password_of
    from firn_cli.source_checks import check
    from firn_cli.source_survey import survey

    if password is None:
        password = password_of(source.address, source.secret, source.iam, Secrets())
    connection = Connection(source.address, password, "firn sources add")
    try:
        found = survey(connection, source.slot, source.publication, wanted)
        if gone := wanted - {f"{one.schema}.{one.name}" for one in found.tables}:
            raise ConfigError(f"there is no table {min(gone)} that could be published in {source.address}")
        if not found.tables:
            raise ConfigError(f"{source.address} holds no tables that could be published")
        findings = check(found, source.slot, source.publication, source.plugin)
        if create and not findings.refused:
            for one in findings.found:
                if one.create:
                    connection.run(one.run.rstrip(";"))
            found = survey(connection, source.slot, source.publication, wanted)
            findings = check(found, source.slot, source.publication, source.plugin)
    finally:
        connection.close()
    return found, findings


def _written(file: Path, source: "PullSource", url: str, found: "Survey") -> Sequence[str]:
    """Put the source into firn.yaml, and its stream where that is not there -> lines for people. Raises ConfigError."""
    from firn.config.reader import parse
    from firn_cli.source_lines import added, source_lines, stream_lines

    text = file.read_text("utf-8") if file.exists() else ""
    known: Any = parse(text, file.name) if text.strip() else None
    if known is not None and source.name in known.sources:
        same = replace(known.sources[source.name], linger_seconds=source.linger_seconds) == source
        if not same:
            raise ConfigError(f"{file}: has another source {source.name}: change it there, or give --name")
        return [f"{file}: has the source {source.name} already"]
    own, lines = source_lines(source, url), stream_lines(source.stream, found.tables)
    has_stream = known is not None and source.stream in known.streams
    after = text if has_stream else added(text, "streams", lines)
    after = None if after is None else added(after, "sources", own)
    if after is None:
        by_hand = "\n".join(["sources:", *own] + ([] if has_stream else ["streams:", *lines]))
        raise ConfigError(f"{file} has a section that can't be added to; put this into it:\n{by_hand}")
    parse(after, file.name)
    file.write_text(after, "utf-8")
    return [
        f"wrote source {source.name}{'' if has_stream else f' and stream {source.stream}'} to {file}",
        f"Next: firn up (or firn publish), and for the rows that are there already: firn backfill {source.stream}",
    ]
