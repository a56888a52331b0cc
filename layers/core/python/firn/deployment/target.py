"""Which Firn a command talks to: the embedded stack whose addresses are in {dir}/stack.json, or a deployment."""

import json
import os
from pathlib import Path
from typing import Any

from firn.deployment.stack import NoStack, Stack

_target: str | None = None


def use_target(name: str | None) -> None:
    """From here on `find_stack` finds the deployment of that name in firn.yaml (`firn --target NAME`)."""
    global _target
    _target = name


def target_name() -> str | None:
    """The name that `firn --target NAME` gave."""
    return _target


def is_deployed() -> bool:
    """Whether commands talk to a deployment (`firn --target NAME`), and so to nothing of this machine."""
    return _target is not None


def find_stack(folder: Path, url: str | None = None, *, running: bool = True) -> Stack:
    """The stack of `folder`; `url` replaces its HTTP address, and is enough by itself for commands that only send.

    `running` False also takes a stack that has stopped, if its data are files: tables can be read all the same.
    After `use_target` it is the deployment of that name, whatever runs in `folder`. Raises NoStack, ConfigError.
    """
    if _target is not None:
        from firn.deployment.cloudformation import find_deployed

        return find_deployed(_target, folder, url)
    described = _described(folder)
    if described is None:
        if url is not None:
            return Stack(folder, url.rstrip("/"))
        stopped = None if running else _files_left_by_a_stopped_stack(folder)
        if stopped is not None:
            return stopped
        raise NoStack(f"no stack runs here ({folder}): start one with `firn up`, or name it with --dir or --url")
    pid = described.get("pid")
    stack = Stack(
        dir=folder,
        url=(url or str(described["url"])).rstrip("/"),
        staging=str(described.get("staging", "")),
        warehouse=str(described.get("warehouse", "")),
        catalog_uri=str(described.get("catalog_uri", "")),
        queues=dict(described.get("queues") or {}),
        env={str(name): str(value) for name, value in (described.get("env") or {}).items()},
        pid=pid if isinstance(pid, int) else None,
        dispatch=str(described["dispatch"]) if described.get("dispatch") else None,
        alerts=str(described.get("alerts") or ""),
        token=str(described.get("token") or ""),
    )
    alive = url is not None or stack.pid is None or _alive(stack.pid)
    if not alive and (running or not stack.warehouse.startswith("file:")):
        again = "make deploy-local" if stack.dispatch else "firn up"
        raise NoStack(f"the stack of {folder} (process {stack.pid}) has ended: start it again with `{again}`")
    return stack


def is_down(stack: Stack) -> bool:
    """Whether the stack that `find_stack` found has stopped, so that only its files are there."""
    return not is_deployed() and (not stack.url or (stack.pid is not None and not _alive(stack.pid)))


def _described(folder: Path) -> dict[str, Any] | None:
    file = folder / "stack.json"
    try:
        described = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise NoStack(f"{file} can't be read ({error}): start the stack again with `firn up`") from error
    if not isinstance(described, dict) or "url" not in described:
        raise NoStack(f"{file} names no url: start the stack again with `firn up`")
    return described


def _files_left_by_a_stopped_stack(folder: Path) -> Stack | None:
    # A stack takes its stack.json away when it stops; what it kept in files is where it always is.
    root = folder.resolve()
    if not (root / "catalog.db").is_file():
        return None
    from firn.config.region import WAREHOUSES
    from firn.config.warehouses import beside

    return Stack(
        dir=folder,
        url="",
        staging=f"file://{root}/staging",
        warehouse=f"file://{root}/warehouse",
        catalog_uri=f"sqlite:///{root}/catalog.db",
        env={WAREHOUSES: beside(f"file://{root}/warehouse")},
    )


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
