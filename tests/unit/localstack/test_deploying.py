"""What a deploy refuses before it starts anything."""

import fcntl
import socket
from contextlib import nullcontext
from pathlib import Path

import pytest

from firn_deploy import DeployError
from firn_deploy.deploying import Options, deploy, undeploy


def test_a_port_that_somebody_else_has_is_named_with_the_way_out(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(DeployError, match=rf"port {port} can't be used .*PORT=4567"):
            deploy(Options(folder=tmp_path / "here", port=port), lambda _: nullcontext())
    assert {entry.name for entry in (tmp_path / "here").iterdir()} == {"lock"}


def test_undeploying_nothing_is_no_error(tmp_path: Path) -> None:
    assert undeploy(tmp_path / "nowhere", lambda _: nullcontext()) is False


def test_a_folder_that_is_not_ours_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(DeployError, match="holds no deployment"):
        undeploy(tmp_path, lambda _: nullcontext())
    assert (tmp_path / "thesis.tex").exists()


def test_one_command_at_a_time(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DeployError, match="another command"):
            deploy(Options(folder=tmp_path, port=0), lambda _: nullcontext())
