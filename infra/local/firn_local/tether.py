"""Run a command in a session of its own and leave nothing of it behind, whatever happens to the parent.

    python tether.py PID_FILE COMMAND ARG…

Standard input is the tether: its end of file means that the parent is gone, and the whole session is killed at once. A
line with a number means: send SIGTERM, and SIGKILL after so many seconds. Exits with the command's code (128 + n when
signal n ended it). Only the standard library, and small: one runs beside each Spark job.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def session_members(session: int) -> list[int]:
    """Processes of a session. PySpark's daemon makes a process group of its own, so the group is not enough.

    Linux only (/proc/PID/stat: state, parent, group, session after the name in brackets); elsewhere empty.
    """
    members = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int(entry.read_text().rpartition(")")[2].split()[3]) == session:
                members.append(int(entry.parent.name))
    return members


def kill_session(session: int, sign: int) -> None:
    """Signal the group that leads the session, and on Linux every other process in it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(session, sign)
    if sign == signal.SIGKILL:
        for pid in session_members(session):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)


def _die_with_parent() -> None:
    # Only for the case that the tether itself is killed by SIGKILL; Linux knows it, others do without.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _follow_parent(child: "subprocess.Popen[bytes]") -> None:
    # os.read, because a thread inside sys.stdin's buffer makes the interpreter abort at exit.
    grace = os.read(0, 64)
    if grace:
        kill_session(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(float(grace))
    kill_session(child.pid, signal.SIGKILL)


def main(pid_file: str, command: list[str]) -> int:
    """Run `command`; returns its exit code. Its process id, which is its session's id, is written to `pid_file`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_die_with_parent)
    signal.signal(signal.SIGTERM, lambda *_: kill_session(child.pid, signal.SIGKILL))
    Path(pid_file).write_text(f"{child.pid}\n")
    threading.Thread(target=_follow_parent, args=(child,), daemon=True).start()
    code = child.wait()
    kill_session(child.pid, signal.SIGKILL)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
