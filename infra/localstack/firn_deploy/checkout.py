"""The commands of a checkout of Firn: SAM, and `python -m infra.package`, with the environment that each needs."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from firn_deploy import DeployError
from firn_local.environment import INSTALLED, REPOSITORY, TEMPLATE


@dataclass(frozen=True)
class Command:
    """What to run in the checkout. `environment`: what it needs beside that of whoever runs it."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def expect_checkout() -> None:
    """Raises DeployError where Firn was installed: layers, SAM and what packages the job are in a checkout alone."""
    if INSTALLED or not TEMPLATE.is_file():
        raise DeployError(
            f"this needs a checkout of Firn (template.yaml, functions, layers), and {REPOSITORY} is not one: clone the "
            "repository, `make setup` there, and run its .venv/bin/firn"
        )


def sam(*arguments: str) -> Command:
    """SAM, as `make setup-sam` installs it. Raises DeployError."""
    program = REPOSITORY / ".venv-sam" / "bin" / "sam"
    if not program.exists():
        raise DeployError(f"{program} is missing: `make setup-sam` installs it")
    # `sam build` wants the functions' Python with pip on the PATH, for the layers.
    path = f"{REPOSITORY / '.venv-runtime' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    return Command((str(program), *arguments), {"PATH": path, "SAM_CLI_TELEMETRY": "0"})


def overrides(parameters: Mapping[str, str]) -> tuple[str, ...]:
    """The template's parameters for `sam deploy`; the others stay as the stack has them."""
    return ("--parameter-overrides", *(f'ParameterKey={k},ParameterValue="{v}"' for k, v in parameters.items()))


def package(*arguments: str) -> Command:
    """The commands of `make package` and `make upload`."""
    paths = (REPOSITORY, REPOSITORY / "infra" / "local", REPOSITORY / "layers/core/python")
    return Command(
        (sys.executable, "-m", "infra.package", *arguments), {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    )
