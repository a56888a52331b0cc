"""`firn doctor`: is everything here that Firn needs, and if not, what to do."""

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

import firn
from firn.deployment.stack import NoStack
from firn.deployment.target import find_stack, is_deployed
from firn.deployment.terminal import counted, print_json, say, spinner
from firn.errors import ConfigError, FirnError
from firn.extras import BY_CHOICE, DISTRIBUTION, EXTRA_OF
from firn_cli.check_parts import Check
from firn_cli.options import DEFAULT_DIR, Dir, Json
from firn_cli.self_check import SelfCheck


def command(
    config: Annotated[Path, typer.Option(help="The streams.")] = Path("firn.yaml"),
    port: Annotated[int, typer.Option(help="Where `firn up` would listen.", min=0, max=65535)] = 8181,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Send changes all the way into a table that is removed again. Runs jobs."),
    ] = False,
    catalog: Annotated[
        bool,
        typer.Option("--catalog", help="Make a table in the catalog that firn.yaml names, commit to it and drop it."),
    ] = False,
    storage: Annotated[
        str,
        typer.Option(
            "--storage", metavar="URL", help="Write, list, read and delete objects of its own at s3://bucket/prefix."
        ),
    ] = "",
    namespace: Annotated[str, typer.Option(help="--deep, --catalog: where the table is made.")] = "firn_check",
    timeout: Annotated[float, typer.Option(help="--deep: seconds to wait for a job at most.", min=1)] = 900.0,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Check this machine, firn.yaml and the running stack. Installation, Java, jars, port. Exit code 1:
    something is wrong."""
    checks = []
    found = _found(config, folder, port, (namespace, timeout) if deep else None)
    catalogs = _catalog(config, folder, namespace) if catalog else ()
    for one in chain(found, catalogs, _storage(storage) if storage else ()):
        checks.append(one)
        if not as_json:
            _show(one)
    if as_json:
        print_json(checks)
    if any(one.ok is False for one in checks):
        raise typer.Exit(1)


def _show(one: Check) -> None:
    mark, colour = {True: ("ok", "green"), False: ("wrong", "red"), None: ("-", None)}[one.ok]
    typer.secho(f"{mark:<6}", fg=colour, nl=False)
    typer.echo(f"{one.name:<10}{one.found}")
    if one.ok is False:
        say(f"{'':16}{one.advice}", hang=16)


def _found(config: Path, folder: Path, port: int, deep: tuple[str, float] | None) -> Iterator[Check]:
    for check in _checks(config, folder, port):
        yield check()
    if (held := pause(folder)) is not None:
        yield held
    if deep is None:
        return
    # A check that is ended takes away what it made, as one that is interrupted does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with spinner() as say:
        yield from SelfCheck(find_stack(folder), *deep, lambda part: say(f"self-check: {part}")).checks()


def _catalog(config: Path, folder: Path, namespace: str) -> Iterator[Check]:
    """The parts of `--catalog`; one that says why, where no catalog is named."""
    from firn_cli.catalog_check import CatalogCheck

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)  # it tells of each commit that it tries again
    try:
        address, warehouse, env = _place(config, folder)
        with spinner() as say:
            yield from CatalogCheck(address, warehouse, env, namespace, lambda part: say(f"catalog: {part}")).checks()
    except FirnError as error:
        yield Check(
            "catalog", False, str(error), f"name one in {config} (docs/catalogs.md), or start the stack: firn up"
        )


def _storage(url: str) -> Iterator[Check]:
    """The parts of `--storage`."""
    from firn_cli.storage_check import StorageCheck

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("firn.log.store").setLevel(logging.ERROR)  # it tells of each put that it tries again
    with spinner() as say:
        yield from StorageCheck(url, lambda part: say(f"storage: {part}")).checks()


def _place(config: Path, folder: Path) -> tuple[str, str, Mapping[str, str]]:
    """Address, warehouse and environment of the catalog: the file's, else the stack's. Raises ConfigError, NoStack,
    StorageUnavailable."""
    from firn.config.reader import parse
    from firn.deployment.config_text import config_text

    said = parse(config_text(config), str(config)) if config.is_file() else None
    if said is None or not said.catalog.address:
        found = find_stack(folder)
        return found.catalog_address(), found.warehouse, {**os.environ, **found.env}
    warehouse = said.warehouse or os.environ.get("FIRN_WAREHOUSE", "") or said.catalog.properties.get("warehouse", "")
    if not warehouse:
        raise ConfigError(f"{config} names a catalog and no warehouse: write warehouse: s3://bucket/prefix")
    return said.catalog.address, warehouse, os.environ


def _checks(config: Path, folder: Path, port: int) -> list[Callable[[], Check]]:
    if is_deployed():
        return [lambda: configuration(config), lambda: stack(folder)]
    return [
        installation,
        python,
        java,
        jars,
        packages,
        lambda: configuration(config),
        lambda: stack(folder),
        lambda: free_port(folder, port),
    ]


def python() -> Check:
    """Python 3.11 or later."""
    found = sys.version.split()[0]
    return Check(
        "python", sys.version_info >= (3, 11), found, "install Python 3.11 or later, and Firn into an environment of it"
    )


def installation() -> Check:
    """How Firn was installed, and whether another distribution has taken the package's name."""
    from firn_cli.installation import look

    found = look()
    if found.foreign:
        return Check(
            "firn",
            False,
            f"{', '.join(found.foreign)} is installed in {sys.prefix} too, and brings another package `firn`",
            f"only one of them fits into an environment: pip uninstall {found.foreign[0].split()[0]}, then "
            "pip install --force-reinstall 'firn-cdc[all]' (in a checkout: make setup)",
        )
    return Check("firn", True, f"{found.version or firn.__version__}, {found.how}")


def java() -> Check:
    """A Java runtime that Spark 4.0 and Iceberg run on."""
    from firn_local import java as javas

    found = javas.find()
    if found is None:
        return Check("java", False, javas.none_fits(), "rows are taken and can be queried without; commits need it")
    first = next(javas.installed())
    passed = "" if first == found else f"; {first.version} ({first.command}) comes first and is not for Spark"
    return Check("java", True, f"{found.version} ({found.command}){passed}")


def jars() -> Check:
    """Spark's jars for Iceberg: make setup fetches them, or the first `firn up` of an installed Firn."""
    from firn_local.environment import INSTALLED, JARS, JARS_LOCK
    from firn_local.spark_jars import locked, missing

    lacking = [jar.file for jar in missing(JARS, JARS_LOCK)]
    if lacking and INSTALLED:
        return Check("jars", None, f"{len(lacking)} of {len(locked(JARS_LOCK))} are yet to come: firn up fetches them")
    if lacking:
        return Check("jars", False, f"{', '.join(lacking)} not in {JARS}", "run: make setup")
    return Check("jars", True, f"{len(locked(JARS_LOCK))} in {JARS}")


def packages() -> Check:
    """The optional parts of the Python package."""
    wanted = {module: extra for module, extra in EXTRA_OF.items() if extra not in BY_CHOICE}
    lacking = sorted({extra for module, extra in wanted.items() if find_spec(module) is None})
    if lacking:
        # Each works alone, and a command that needs another says so.
        there = sorted(set(wanted.values()) - set(lacking))
        needs = f"pip install '{DISTRIBUTION}[{','.join(lacking)}]'"
        return Check("packages", None, f"{', '.join(there)}; not here: {', '.join(lacking)} ({needs})")
    return Check("packages", True, "lake, spark, local, cli")


def configuration(file: Path) -> Check:
    """Does firn.yaml parse?"""
    from firn.config.reader import parse
    from firn.config.writers import open_by_queue
    from firn.deployment.config_text import config_text

    if not file.is_file():
        return Check("config", None, f"no {file} here (firn init writes one)")
    try:
        config = parse(config_text(file), str(file))
        if find_spec("duckdb") is not None:
            from firn_sql.configured import check_sql

            check_sql(config, str(file))
    except FirnError as error:
        return Check("config", False, str(error), f"fix {file} as it says")
    tables = sum(len(stream.tables) for stream in config.streams.values())
    pipelines = sum(len(stream.pipelines) for stream in config.streams.values())
    views = sum(len(stream.views) for stream in config.streams.values())
    more = "".join(f", {counted(n, word)}" for n, word in ((pipelines, "pipeline"), (views, "view")) if n)
    more += "".join(f"; {line}" for line in open_by_queue(config))
    return Check(
        "config", True, f"{file}: {counted(len(config.streams), 'stream')}, {counted(tables, 'table rule')}{more}"
    )


def stack(folder: Path) -> Check:
    """Does a stack answer?"""
    from firn.client import Retry, StreamClient

    try:
        found = find_stack(folder)
    except NoStack as error:
        return Check("stack", None, str(error))
    try:
        with StreamClient(found.url, timeout=10, retry=Retry(tries=1, patience=0)) as client:
            client.request("GET", "/v1/health")
    except FirnError as error:
        return Check("stack", False, str(error), f"look into {folder}/logs, or start it again: firn up")
    return Check("stack", True, f"answers at {found.url}")


def pause(folder: Path) -> Check | None:
    """Is the stack paused? None if it is not, or none runs."""
    from firn.log.pause import since

    try:
        looked_at = find_stack(folder)
        found = since(looked_at.store())
    except NoStack:
        return None
    except FirnError as error:
        return Check("pause", False, str(error), "see to it that you may read the staging store")
    if found is not None:
        return Check("pause", None, f"since {found:%Y-%m-%d %H:%M} UTC no job starts; firn resume goes on")
    off = "deployed with Paused=true: schedules and events start no job"
    return None if looked_at.scheduled else Check("pause", None, off)


def free_port(folder: Path, port: int) -> Check:
    """Could `firn up` listen? Not asked while a stack of this folder runs."""
    try:
        find_stack(folder)
    except NoStack:
        pass
    else:
        return Check("port", None, "in use by the stack" if port else "any")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return Check("port", False, f"{port}: {error.strerror}", "free it, or start with another: firn up --port 0")
    return Check("port", True, f"{port} is free")
