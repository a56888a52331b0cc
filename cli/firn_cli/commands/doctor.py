"""`firn doctor`: is everything here that Firn needs, and if not, what to do."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from firn.deployment.stack import NoStack
from firn.deployment.target import find_stack, is_deployed
from firn.deployment.terminal import print_json, spinner
from firn.errors import FirnError
from firn_cli.options import DEFAULT_DIR, Dir, Json
from firn_cli.self_check import Check, SelfCheck

_JAVA_RELEASES = (17, 21)
_JARS = ("iceberg-spark-runtime", "iceberg-aws-bundle", "sqlite-jdbc")


def command(
    config: Annotated[Path, typer.Option(help="The streams.")] = Path("firn.yaml"),
    port: Annotated[int, typer.Option(help="Where `firn up` would listen.", min=0, max=65535)] = 8181,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Send changes all the way into a table that is removed again. Runs jobs."),
    ] = False,
    namespace: Annotated[str, typer.Option(help="--deep: where its table is made.")] = "firn_check",
    timeout: Annotated[float, typer.Option(help="--deep: seconds to wait for a job at most.", min=1)] = 900.0,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Check this machine, firn.yaml and the running stack. Python, Java, jars, packages, port. Exit code 1:
    something is wrong."""
    checks = []
    for one in _found(config, folder, port, (namespace, timeout) if deep else None):
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
        typer.echo(f"{'':16}{one.advice}")


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


def _checks(config: Path, folder: Path, port: int) -> list[Callable[[], Check]]:
    if is_deployed():
        return [lambda: configuration(config), lambda: stack(folder)]
    return [
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
    return Check("python", sys.version_info >= (3, 11), found, "install Python 3.11 or later, then: make setup")


def java() -> Check:
    """A Java runtime that Spark 4.0 and Iceberg run on."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = "install one: apt-get install openjdk-17-jre-headless, or brew install openjdk@17, and set JAVA_HOME"
    if command is None or not Path(command).exists():
        return Check("java", False, f"none{f' at {command}' if command else ''}; 17 or 21 is needed", advice)
    done = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = re.search(r'version "(\d+)[^"]*"', done.stderr + done.stdout)
    if version is None:
        return Check("java", False, f"{command} does not say its version", advice)
    release = int(version[1])
    return Check("java", release in _JAVA_RELEASES, f"{version[0].removeprefix('version ')} ({command})", advice)


def jars() -> Check:
    """Iceberg's jars, resolved by make setup."""
    folder = _repository() / ".cache" / "jars"
    there = [path.name for path in folder.glob("*.jar")]
    lacking = [name for name in _JARS if not any(name in jar for jar in there)]
    if lacking:
        return Check("jars", False, f"{', '.join(lacking)} not in {folder}", "run: make setup")
    return Check("jars", True, f"{len(there)} in {folder}")


def packages() -> Check:
    """The optional parts of the Python package."""
    needed = {"pyiceberg": "lake", "duckdb": "lake", "pyspark": "spark", "moto": "local", "waitress": "local"}
    needed["boto3"] = "cli"
    lacking = sorted({extra for module, extra in needed.items() if find_spec(module) is None})
    if lacking:
        return Check("packages", False, f"missing: {', '.join(lacking)}", f"pip install 'firn[{','.join(lacking)}]'")
    return Check("packages", True, "lake, spark, local, cli")


def configuration(file: Path) -> Check:
    """Does firn.yaml parse?"""
    from firn.config.reader import parse
    from firn.deployment.config_text import config_text
    from firn_sql.configured import check_pipelines

    if not file.is_file():
        return Check("config", None, f"no {file} here (firn init writes one)")
    try:
        config = parse(config_text(file), str(file))
        check_pipelines(config, str(file))
    except FirnError as error:
        return Check("config", False, str(error), f"fix {file} as it says")
    tables = sum(len(stream.tables) for stream in config.streams.values())
    found = sum(len(stream.pipelines) for stream in config.streams.values())
    pipelines = f", {found} pipelines" if found else ""
    return Check("config", True, f"{file}: {len(config.streams)} streams, {tables} table rules{pipelines}")


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


def _repository() -> Path:
    return Path(__file__).resolve().parents[3]
