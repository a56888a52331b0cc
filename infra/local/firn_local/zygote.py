"""The zygote: the process that execution environments are forked from. What most functions load is in memory once, and
not once for each of them (docs/adr/0082-forked-environments.md).

    python -m firn_local.zygote SOCKET_FD MODULE…

Frames on the socket are those of `worker`. In: {"folder", "variables"} with two descriptors, an environment's socket
and its log; out: {"process": its id}. In: {"end": id}; out, once that process is killed and gone: {"code": what it
ended with}. It has one thread, so that a fork has all there is, and opens nothing that two processes must not share.
The end of the socket ends it; environments end with their own sockets.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress

from firn_local import worker

_HEADER = 4  # bytes of a frame's length


def main(descriptor: int, modules: Sequence[str]) -> None:
    """Load the modules that there are, and start environments until the socket ends."""
    connection = socket.socket(fileno=descriptor)
    for name in modules:
        with suppress(ImportError):  # a template's functions need not be Firn's
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would write to all pages, and so copy them
    while True:
        header, passed, _, _ = socket.recv_fds(connection, _HEADER, 2)
        if not header:
            return
        request = json.loads(worker.exactly(connection, int.from_bytes(header, "big")) or b"{}")
        if "end" in request:
            worker.send(connection, json.dumps({"code": _ended(request["end"])}).encode())
            continue
        ours, log = passed
        process = os.fork()
        if process == 0:
            _become(request["folder"], request["variables"], connection, ours, log)
        os.close(ours)
        os.close(log)
        worker.send(connection, json.dumps({"process": process}).encode())


def _ended(process: int) -> int:
    """Kills a process, and waits for it -> its code, as subprocess has it. One that ended by itself keeps its code."""
    os.kill(process, signal.SIGKILL)  # it is ours until it is waited for: its id is nobody else's
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _become(folder: str, variables: Mapping[str, str], connection: socket.socket, ours: int, log: int) -> None:
    """Be the environment of a function, until its socket ends."""
    code = 1
    try:
        connection.close()
        os.setsid()  # Ctrl-C is for the stack, which then stops its environments
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.chdir(folder)
        own = set(os.environ.get("PYTHONPATH", "").split(os.pathsep))
        os.environ.clear()
        os.environ.update(variables)
        time.tzset()
        sys.path[:] = [*variables["PYTHONPATH"].split(os.pathsep), *(one for one in sys.path if one not in own)]
        worker.main(ours)
        code = 0
    except BaseException:  # noqa: BLE001 - nothing of the child may go on as the parent
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
        finally:
            os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
