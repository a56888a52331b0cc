"""The options that many commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firn_cli import completion

if TYPE_CHECKING:
    from firn.config.model import TargetConfig
    from firn_lake.lake_table import LakeTable

Dir = Annotated[Path, typer.Option("--dir", help="The stack's folder.", show_default=True)]
Url = Annotated[str | None, typer.Option("--url", help="The stack's HTTP address, instead of the one in --dir.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Wide = Annotated[
    bool, typer.Option("--wide", help="Show all columns, however wide; a narrow terminal leaves some out.")
]
OneTable = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="namespace.table, or the table alone if only one namespace has it.",
        autocompletion=completion.tables,
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", help="ISO time (UTC without a zone), ms since 1970, snapshot id, tag or branch."),
]

DEFAULT_DIR = Path(".firn")
StackName = Annotated[
    str | None, typer.Option("--stack", metavar="NAME", help="The CloudFormation stack; --target's if left out.")
]


def lake_table(folder: Path, name: str) -> "LakeTable":
    """A table of the stack of `folder`, whether that runs or not. Raises NoStack, TableNotFound."""
    from firn.deployment.target import find_stack
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.lake import Lake

    stack = find_stack(folder, running=False)
    return Lake(catalog_of(stack), stack.store).table(name)


def stack_or_target(stack: str | None) -> "TargetConfig":
    """Which deployment is meant, whether it is there or not: by `--stack` or `firn --target`. Raises NoStack,
    ConfigError, typer's BadParameter."""
    from firn.config.model import TargetConfig
    from firn.deployment.cloudformation import target_of
    from firn.deployment.target import target_name

    name = target_name()
    if name is not None:
        target = target_of(name)
        if stack not in (None, target.stack):
            raise typer.BadParameter(f"--target {name} is the stack {target.stack}", param_hint="--stack")
        return target
    if stack is None:
        raise typer.BadParameter("say which stack: --stack firn-dev, or firn --target NAME", param_hint="--stack")
    return TargetConfig(stack=stack)
