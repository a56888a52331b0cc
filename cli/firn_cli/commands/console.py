"""`firn console`: the console in a browser; of a deployment on loopback, for a browser can't sign."""

import secrets
import signal
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from firn.deployment.stack import NoStack, Stack
from firn.deployment.target import find_stack, is_deployed, target_name, use_target
from firn.errors import ConfigError
from firn_cli.console_relay import Deployed, Place, Relay, key_sender, signing_sender
from firn_cli.options import DEFAULT_DIR, Dir

_TOKEN_BYTES: Final = 32


def command(
    target: Annotated[
        str | None, typer.Option("--target", metavar="NAME", help="The deployment NAME under targets: in firn.yaml.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.", min=0, max=65535)] = 8182,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file", metavar="FILE", help="A file with a key of console.auth, instead of signing for AWS."
        ),
    ] = None,
    folder: Dir = DEFAULT_DIR,
) -> None:
    """Serve a deployment's console on loopback, signed. Until Ctrl-C, with your AWS credentials.

    An embedded stack serves its own: this prints where.
    """
    if target is not None:
        use_target(target)
    stack = find_stack(folder)
    if not is_deployed():
        typer.echo(f"{stack.url}/console/")
        return
    if not stack.has_console:
        raise NoStack(f"target {target_name()} has no console: deploy it with the parameter Console=on")
    relay = Relay(
        _with_key(stack, _key(key_file)) if key_file else _signed(stack), secrets.token_urlsafe(_TOKEN_BYTES), port
    )
    print(f"the console of {target_name()}: {relay.address}", flush=True)
    typer.echo("whoever has this address acts as you do, until Ctrl-C ends it", err=True)
    for sign in (signal.SIGINT, signal.SIGTERM):  # a script's background process ignores Ctrl-C otherwise
        signal.signal(sign, signal.default_int_handler)
    try:
        relay.serve()
    except KeyboardInterrupt:
        typer.echo("ended", err=True)


def _signed(stack: Stack) -> Deployed:
    """By function URLs, which take signed requests alone. Raises NoStack."""
    from firn.deployment.cloudformation import session_of, target_of

    name = target_name() or ""
    if set(stack.signed_urls) != {"console", "query"}:
        raise NoStack(
            f"target {name} has no function URLs to sign requests for: deploy it with FunctionUrl=AWS_IAM and "
            "Console=on, or give a reader's key with --key-file FILE"
        )
    found = target_of(name)
    send = signing_sender(session_of(found), stack.env["AWS_REGION"])
    console, query = (_place(stack.signed_urls[of], found.endpoint) for of in ("console", "query"))
    return Deployed(console, query, send)


def _place(url: str, endpoint: str | None) -> Place:
    return Place(url) if endpoint is None else Place(endpoint.rstrip("/"), urlsplit(url).netloc)


def _with_key(stack: Stack, key: str) -> Deployed:
    return Deployed(Place(stack.url), Place(stack.url), key_sender(key))


def _key(file: Path) -> str:
    """Raises ConfigError."""
    try:
        words = file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--key-file: {file} can't be read ({error})") from error
    if not words or not words[0].isascii():
        raise ConfigError(f"--key-file: {file} holds no key: write it there, alone")
    return words[0]
