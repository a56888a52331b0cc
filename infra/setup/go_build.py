"""How `make setup` builds a server by Go: what a go.mod names, by the hashes of the go.sum beside it."""

import re
import shutil
import subprocess
from pathlib import Path


def lacks(module: Path) -> str | None:
    """Why Go can't build `module` (a folder with a go.mod) here; None if it can."""
    found = re.search(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text(), re.MULTILINE)
    needed = (int(found[1]), int(found[2])) if found else (0, 0)
    release = "{}.{}".format(*needed)
    go = shutil.which("go")
    if go is None:
        return f"there is no Go: https://go.dev/dl has it, {release} or newer"
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False, cwd=module.parent)
    there = tuple(int(part) for part in re.findall(r"\d+", said.stdout)[:2])
    return None if there >= needed else f"{said.stdout.strip()} is older than Go {release}: https://go.dev/dl"


def command(module: Path, package: str, program: Path) -> tuple[str, ...]:
    """What builds `package`, a requirement of `module`, into `program`. What is installed builds it: Go would fetch
    another of itself, or change go.mod."""
    settings = ("CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOFLAGS=-mod=readonly", "GOWORK=off")
    return (
        "env",
        *settings,
        "go",
        "-C",
        str(module),
        "build",
        "-trimpath",
        "-buildvcs=false",
        "-o",
        str(program),
        package,
    )
