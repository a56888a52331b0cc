"""One Lambda execution environment: a process that loads a handler once and runs one invocation at a time.

    python -m firn_local.worker SOCKET_FD

The handler is named by _HANDLER (`app.handler`), as in Lambda. Frames on the socket, both ways: 4 bytes of length (big
endian) and JSON. In: {"id", "deadline" (seconds since the epoch), "event"}. Out: first {"ready": true} or {"error": …},
then {"result": …} or {"error": {"errorType", "errorMessage", "stackTrace"}} each time. The end of the socket ends the
process, so no environment outlives the stack. Imports little: what it loads counts against the handler.
"""

import contextlib
import importlib
import json
import os
import signal
import socket
import struct
import sys
import time
import traceback
from typing import Any


class Context:
    """What Lambda passes as the second argument (Developer Guide, "Lambda context object in Python")."""

    def __init__(self, request_id: str, deadline: float) -> None:
        self._deadline = deadline
        self.aws_request_id = request_id
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = "$LATEST"
        self.invoked_function_arn = f"arn:aws:lambda:us-east-1:123456789012:function:{self.function_name}"
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = f"/aws/lambda/{self.function_name}"
        self.log_stream_name = "local"
        self.identity = None
        self.client_context = None

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda would stop this invocation."""
        return max(0, int((self._deadline - time.time()) * 1000))


def receive(connection: socket.socket) -> bytes | None:
    """One frame, or None at the end."""
    header = exactly(connection, 4)
    return None if header is None else exactly(connection, struct.unpack(">I", header)[0])


def send(connection: socket.socket, payload: bytes) -> None:
    """One frame."""
    connection.sendall(struct.pack(">I", len(payload)) + payload)


def exactly(connection: socket.socket, size: int) -> bytes | None:
    """So many bytes, or None at the end."""
    buffer = bytearray(size)
    view, got = memoryview(buffer), 0
    while got < size:
        count = connection.recv_into(view[got:])
        if count == 0:
            return None
        got += count
    return bytes(buffer)


def _error(error: BaseException) -> bytes:
    report = {
        "errorType": type(error).__name__,
        "errorMessage": str(error),
        "stackTrace": traceback.format_tb(error.__traceback__),
    }
    return json.dumps({"error": report}).encode()


def main(descriptor: int) -> None:
    """Load the handler and serve invocations until the socket ends."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as file:
        file.write(os.environ["AWS_LAMBDA_FUNCTION_NAME"])  # what `ps` and `top` call it, on Linux
    connection = socket.socket(fileno=descriptor)
    module, _, name = os.environ["_HANDLER"].rpartition(".")
    try:
        handler = getattr(importlib.import_module(module.replace("/", ".")), name)
    except BaseException as error:  # noqa: BLE001 - the parent has to hear of a failed start, whatever it was
        traceback.print_exc()
        send(connection, _error(error))
        return
    send(connection, b'{"ready":true}')
    while (frame := receive(connection)) is not None:
        request: dict[str, Any] = json.loads(frame)
        # The parent ends an environment at its time-out. This is for when the parent was killed meanwhile.
        signal.alarm(max(1, int(request["deadline"] - time.time()) + 5))
        try:
            result = handler(request["event"], Context(request["id"], request["deadline"]))
            answer = json.dumps({"result": result}).encode()
        except Exception as error:  # noqa: BLE001 - Lambda reports any exception of the handler and stays up
            traceback.print_exc()
            answer = _error(error)
        finally:
            signal.alarm(0)
        sys.stdout.flush()
        send(connection, answer)


if __name__ == "__main__":
    main(int(sys.argv[1]))
