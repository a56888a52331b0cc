"""An address before a Hive Metastore's, where a test has something happen at one call of whoever asks there."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.hive import relayed

_VERSION = 0x8001  # what a call of Thrift's strict binary protocol begins with


@dataclass
class Calls:
    """`act` is called once, at the first call whose name begins with `name`: before the metastore hears of it, or when
    that was `done` and the answer is not given. Whoever asked gets none then. `heard`: the names of all calls."""

    name: str
    done: bool
    act: Callable[[], None] = lambda: None
    hit: threading.Event = field(default_factory=threading.Event)
    heard: list[str] = field(default_factory=list)


@contextmanager
def before(metastore: str, calls: Calls) -> Iterator[str]:
    """-> the address."""
    port, claim = int(urlsplit(metastore).port or 0), threading.Lock()

    def serve(caller: socket.socket) -> None:
        with caller, suppress(OSError), socket.create_connection(("127.0.0.1", port)) as server:
            holding, answered = threading.Event(), threading.Event()
            back = threading.Thread(target=_answers, args=(server, caller, holding, answered), daemon=True)
            back.start()
            while data := caller.recv(1 << 20):
                name = _name(data)
                if name:
                    calls.heard.append(name)
                with claim:
                    now = name.startswith(calls.name) and not calls.hit.is_set()
                    if now:
                        calls.hit.set()
                if now:
                    if calls.done:
                        holding.set()
                        server.sendall(data)
                        assert answered.wait(60), "the metastore does not answer"
                    calls.act()
                    return
                server.sendall(data)

    with relayed(serve) as address:
        yield address


def _answers(server: socket.socket, caller: socket.socket, holding: threading.Event, answered: threading.Event) -> None:
    with suppress(OSError):
        while data := server.recv(1 << 20):
            if holding.is_set():
                answered.set()
            else:
                caller.sendall(data)


def _name(data: bytes) -> str:
    """Of the call that a message begins; "" for the rest of a long one."""
    if len(data) < 8:
        return ""
    version, size = struct.unpack(">H2xI", data[:8])
    return data[8 : 8 + size].decode() if version == _VERSION else ""
