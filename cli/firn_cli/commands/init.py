"""`firn init`: a first firn.yaml, commented; or, with --from, one made of the tables and keys of a running PostgreSQL,
MySQL or MariaDB."""

import os
from pathlib import Path
from typing import Annotated

import typer

from firn.deployment.terminal import say
from firn.errors import ConfigError, FirnError
from firn_cli.init_templates import COMMENTED, PASSWORD_VARIABLE, debezium_properties, firn_yaml, stream_name
from firn_cli.mysql_source import SCHEMES, parse_mysql_address, read_mysql_source
from firn_cli.postgres_source import Address, Source, parse_address, read_source

DEFAULT_PORT = 8181


def init(path: Path, from_url: str | None, force: bool, port: int = DEFAULT_PORT) -> list[Path]:
    """Writes firn.yaml (`path` is its name, or the folder for it); with `from_url` debezium.properties beside it too.

    The source's password is read from the URL or the environment (FIRN_SOURCE_PASSWORD, then PGPASSWORD or MYSQL_PWD)
    and never written. All or nothing: a file that is there already stays, unless `force`. Returns the files written.
    Raises ConfigError (a file is there, the URL or the database is wrong) or TransientError (no connection).
    """
    from firn.config.reader import parse

    config_file = path / "firn.yaml" if path.is_dir() else path
    properties_file = config_file.with_name("debezium.properties")
    files = [config_file] if from_url is None else [config_file, properties_file]
    if not force and (there := [str(file) for file in files if file.exists()]):
        raise ConfigError(
            f"{' and '.join(there)}: already exists; run it in another folder, or with --config FOLDER/firn.yaml "
            "(debezium.properties goes beside it); --force replaces what is there"
        )
    if not config_file.parent.is_dir():
        raise ConfigError(f"{config_file.parent}: no such folder; make it first, or give another --config")
    if from_url is None:
        texts = [COMMENTED]
    else:
        address, source = _source(from_url)
        if not source.tables:
            hidden = (
                f"; user {address.user} may not SELECT from {source.unreadable} others" if source.unreadable else ""
            )
            raise ConfigError(f"--from: database {address.database} holds no tables to replicate{hidden}")
        stream = stream_name(address.database)
        texts = [
            firn_yaml(source, address, stream),
            debezium_properties(source, address, stream, port),
        ]
    parse(texts[0], config_file.name)  # what is written here is read here: a defect would show now, not at midnight
    for file, text in zip(files, texts, strict=True):
        _write(file, text)
    return files


def _source(url: str) -> tuple[Address, Source]:
    password = os.environ.get(PASSWORD_VARIABLE)
    if url.partition(":")[0] in SCHEMES:
        address = parse_mysql_address(url, password or os.environ.get("MYSQL_PWD"))
        return address, read_mysql_source(address)
    address = parse_address(url, password or os.environ.get("PGPASSWORD"))
    return address, read_source(address)


def _write(file: Path, text: str) -> None:
    try:
        # In one step: a full disk leaves the old file as it was.
        part = file.with_name(file.name + ".part")
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    except OSError as error:
        raise ConfigError(f"{file}: can't be written ({error.strerror}); give another --config") from error


def command(
    config: Annotated[Path, typer.Option(help="The file to write.")] = Path("firn.yaml"),
    from_url: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="postgres|mysql://USER@HOST:PORT/DATABASE",
            help="Read tables and keys from this database, and write debezium.properties too. "
            f"The password may come from {PASSWORD_VARIABLE}, PGPASSWORD or MYSQL_PWD; it is written nowhere.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="Where `firn up` listens, for debezium.properties.")] = DEFAULT_PORT,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Write a first firn.yaml. With --from, from the tables and keys of a running PostgreSQL, MySQL or MariaDB."""
    try:
        files = init(config, from_url, force, port)
    except FirnError as error:
        say(f"firn init: {error}", err=True)
        raise typer.Exit(1) from error
    for file in files:
        typer.echo(f"wrote {file}")
    if from_url is not None:
        say(
            f"Next: firn up --config {files[0]}, then start Debezium Server with {files[1].name} as its "
            f"application.properties and the password in {PASSWORD_VARIABLE}."
        )
    else:
        typer.echo(f"Next: put your tables in it, then firn up --config {files[0]}")
