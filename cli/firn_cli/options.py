"""The options that many commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from firn.config.model import TargetConfig

Dir = Annotated[Path, typer.Option("--dir", help="The stack's folder.", show_default=True)]
Url = Annotated[str | None, typer.Option("--url", help="The stack's HTTP address, instead of the one in --dir.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

DEFAULT_DIR = Path(".firn")
StackName = Annotated[
    str | None, typer.Option("--stack", metavar="NAME", help="The CloudFormation stack; --target's if left out.")
]


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
