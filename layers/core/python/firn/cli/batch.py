"""`firn batch ID`: what became of an accepted batch."""

from typing import Annotated
from urllib.parse import quote

import typer

from firn.cli.options import DEFAULT_DIR, Dir, Json, Url
from firn.cli.output import cell, print_json
from firn.cli.stack import find_stack


def command(
    batch_id: Annotated[str, typer.Argument(metavar="ID", help="As the stream's answer gave it.")],
    folder: Dir = DEFAULT_DIR,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Say where a batch is: staged, in an epoch, or committed in which snapshots."""
    from firn.client import StreamClient

    with StreamClient(find_stack(folder, url).url) as client:
        answer = client.request("GET", f"/v1/batches/{quote(batch_id, safe='')}")
    if as_json:
        print_json(answer)
        return
    for name, value in answer.items():
        text = ", ".join(f"{key} {number}" for key, number in value.items()) if isinstance(value, dict) else cell(value)
        typer.echo(f"{name.replace('_', ' '):<14}{text}")
