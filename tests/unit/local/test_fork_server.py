"""Environments that are forked from one process: each is its own, and what it ends with is told (Linux)."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from firn_local import fork_server as fork_server_module
from firn_local import functions
from firn_local.fork_server import ForkServer
from firn_local.functions import FunctionError, FunctionRunner, fork_server
from firn_local.template import Function

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="functions are forked on Linux only")

APP = """
import os, sys, time
calls = []
def handler(event, context):
    if event.get("exit") is not None:
        os._exit(event["exit"])
    if event.get("sleep"):
        time.sleep(event["sleep"])
    calls.append(1)
    name = ascii(os.environ["NAME"]) if event.get("ascii") else os.environ["NAME"]
    return {"pid": os.getpid(), "parent": os.getppid(), "calls": len(calls), "name": name,
            "function": context.function_name, "folder": os.getcwd(), "session": os.getsid(0),
            "comm": open("/proc/self/comm").read().strip(), "shared": "firn.function_context" in sys.modules,
            "random": __import__("random").random()}
"""


class Ground:
    def __init__(self, folder: Path) -> None:
        specs = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            (folder / name / "app.py").write_text(APP)
            core = Path(__file__).parents[3] / "layers/core/python"
            specs.append(Function(name, name, "app.handler", folder / name, (core,), {"NAME": name}, 2.0, 128))
        self.forks: ForkServer = fork_server(specs, {"BOTH": "same"}, folder / "logs")
        self.one, self.two = (
            FunctionRunner(spec, {"BOTH": "same"}, folder / "logs", forks=self.forks) for spec in specs
        )

    def stop(self) -> None:
        self.one.close()
        self.two.close()
        self.forks.close()


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    made = Ground(tmp_path_factory.mktemp("forks"))
    yield made
    made.stop()


def called(function: FunctionRunner, **event: Any) -> dict[str, Any]:
    answer: dict[str, Any] = function.invoke(event)
    return answer


def test_functions_share_what_was_loaded_and_nothing_else(ground: Ground) -> None:
    one, two = called(ground.one), called(ground.two)
    assert one["parent"] == two["parent"] != os.getpid()
    assert one["shared"]
    assert two["shared"]
    for name, told in (("one", one), ("two", two)):
        assert (told["name"], told["function"], told["comm"], told["calls"]) == (name, name, name, 1)
        assert told["folder"].endswith(f"/{name}")
        assert told["session"] == told["pid"], "Ctrl-C is for the stack"
    assert one["random"] != two["random"]
    assert called(ground.one)["calls"] == 2


def test_what_an_environment_ended_with_is_told_and_the_next_one_works(ground: Ground) -> None:
    before = called(ground.one)["pid"]
    with pytest.raises(FunctionError, match="its process ended with code 7"):
        called(ground.one, exit=7)
    os.kill(now := called(ground.one)["pid"], signal.SIGKILL)
    with pytest.raises(FunctionError, match="its process ended with code -9"):
        called(ground.one)
    assert len({before, now, called(ground.one)["pid"]}) == 3


def test_a_time_out_ends_the_process(ground: Ground) -> None:
    slow = called(ground.two)["pid"]
    with pytest.raises(FunctionError, match="took over 2 s"):
        called(ground.two, sleep=30)
    assert not Path(f"/proc/{slow}").exists()


def test_where_the_process_is_killed_that_they_come_from_another_is_begun(ground: Ground) -> None:
    parent = called(ground.one)["parent"]
    os.kill(parent, signal.SIGKILL)
    assert called(ground.one)["calls"] >= 1, "an environment that is there goes on"
    with pytest.raises(FunctionError, match="its process ended"):
        called(ground.one, exit=3)
    assert called(ground.one)["parent"] not in (parent, os.getpid())


def test_they_end_with_the_stack(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    told = called(ground.one)
    ground.stop()
    until = time.monotonic() + 5
    while any(Path(f"/proc/{one}").exists() for one in (told["pid"], told["parent"])):
        assert time.monotonic() < until
        time.sleep(0.02)


def gone(process: int, seconds: float = 2.0) -> bool:
    """Whether it ends in that time; who waits for it is nobody of ours."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(FileNotFoundError):
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.02)
                continue
        return True
    return False


def test_one_that_is_busy_ends_with_the_stack_where_nobody_is_there_that_forked_it(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    told = called(ground.one)
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(called, ground.one, sleep=60)
        os.kill(told["parent"], signal.SIGKILL)
        ground.stop()
        assert isinstance(asking.exception(), FunctionError)
    assert gone(told["pid"])


def test_one_that_the_stack_stops_before_its_answer_is_waited_for_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = Ground(tmp_path)
    called(ground.one)
    monkeypatch.setattr(functions, "send", lambda _, __: ground.one.close())
    with pytest.raises(FunctionError, match="its process ended"):
        called(ground.one)
    ground.stop()


def test_one_whose_birth_was_not_told_shares_no_socket_with_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = Ground(tmp_path)
    asked, lost = ForkServer._asked, list[int]()

    def losing(forks: ForkServer, request: bytes, descriptors: list[int]) -> dict[str, Any]:
        answer = asked(forks, request, descriptors)
        if not lost:
            lost.append(answer["process"])
            raise ConnectionResetError("it was killed before it said so")
        return answer

    monkeypatch.setattr(ForkServer, "_asked", losing)
    found = [called(ground.one) for _ in range(4)]
    assert [one["calls"] for one in found] == [1, 2, 3, 4]
    assert gone(lost[0])
    ground.stop()


def test_an_answer_that_was_not_waited_for_is_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server_module, "_SECONDS", 10.0)
    ground = Ground(tmp_path)
    parent = called(ground.one)["parent"]
    assert ground.forks._socket is not None
    ground.forks._socket.settimeout(0.2)
    os.kill(parent, signal.SIGSTOP)
    ground.one.close()
    assert called(ground.two)["parent"] != parent
    assert gone(parent)
    ground.stop()


def test_none_is_begun_once_the_stack_has_stopped(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.stop()
    with (tmp_path / "log").open("wb") as log, pytest.raises(OSError, match="stopping"):
        ground.forks.start(tmp_path, {}, log.fileno())


def test_a_variable_may_have_bytes_that_are_no_text(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.two._variables["NAME"] = os.fsdecode(b"caf\xe9")
    assert called(ground.two, ascii=True)["name"] == r"'caf\udce9'"
    ground.stop()


def test_where_no_process_can_be_started_the_invocation_fails_and_no_more(tmp_path: Path) -> None:
    """Who invokes for a schedule or a queue goes on, and the next one may be lucky."""
    ground = Ground(tmp_path)
    alone = FunctionRunner(ground.one.spec, {}, tmp_path / "logs", python=str(tmp_path / "python"))
    for function in (alone, ground.one):
        ground.forks.close()
        with pytest.raises(FunctionError, match=r"Runtime\.StartFailed: one: no process could be started for it: ."):
            called(function)
        assert "no process could be started" in function.last_error
    ground.stop()


def test_one_that_is_started_while_the_stack_stops_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground(tmp_path)
    begun = list[int]()

    def starting(forks: ForkServer, *about: Any) -> Any:
        found = started(forks, *about)
        begun.append(found[0].pid)
        ground.one.close()
        return found

    started = ForkServer.start
    monkeypatch.setattr(ForkServer, "start", starting)
    with pytest.raises(FunctionError, match="the stack is stopping"):
        called(ground.one)
    assert gone(begun[0])
    ground.stop()
