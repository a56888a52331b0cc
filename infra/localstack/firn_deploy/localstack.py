"""LocalStack in host mode, on loopback, with the functions as processes (infra/localstack/plugin)."""

import json
import os
import socket
import time
import urllib.request
from pathlib import Path

from firn_deploy import DeployError
from firn_deploy.daemon import Daemon
from firn_local.environment import REPOSITORY

DEFAULT_PORT = 4566
STOP_SECONDS = 15.0
_START_SECONDS = 60.0
_HERE = Path(__file__).parent


def url(port: int) -> str:
    """Its address."""
    return f"http://127.0.0.1:{port}"


def credentials(port: int) -> dict[str, str]:
    """What any AWS client needs in its environment to talk to this LocalStack and to nothing else."""
    return {
        "AWS_ENDPOINT_URL": url(port),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        # No profile of the person at the keyboard.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def plain_environment() -> dict[str, str]:
    """This process's environment without what would point a program at some other AWS or Python."""
    ours = ("AWS_", "FIRN_", "LOCALSTACK_", "PYTHON", "VIRTUAL_ENV", "SAM_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def free_port(port: int) -> int:
    """`port`, or for 0 one that is free. Raises DeployError if somebody listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise DeployError(
                f"port {port} can't be used ({error.strerror}), and what listens there is not this deployment: "
                "stop it, or deploy to another port (make deploy-local PORT=4567; 0 takes a free one)"
            ) from None
        return int(probe.getsockname()[1])


def start(daemon: Daemon, folder: Path, port: int) -> None:
    """Start it and wait until it answers. Raises DeployError with the end of its log."""
    server, runtime = (REPOSITORY / name / "bin" / "python" for name in (".venv-localstack", ".venv-runtime"))
    for python in (server, runtime):
        if not python.exists():
            raise DeployError(f"{python} is missing: `make setup-localstack` installs LocalStack")
    for name in ("tmp", "files", "functions"):
        (folder / name).mkdir(exist_ok=True)
    daemon.start(
        [str(server), "-m", "localstack.runtime.main"],
        {
            **plain_environment(),
            **credentials(port),
            "PYTHONPATH": str(_HERE.parent / "plugin"),
            "GATEWAY_LISTEN": f"127.0.0.1:{port}",
            "LOCALSTACK_HOST": f"127.0.0.1:{port}",
            "GATEWAY_SERVER": "loopback",
            "LAMBDA_RUNTIME_EXECUTOR": "process",
            "FIRN_LAMBDA_PYTHON": str(runtime),
            "FIRN_LAMBDA_LOGS": str(folder / "functions"),
            "LAMBDA_KEEPALIVE_MS": "600000",
            "SQS_ENDPOINT_STRATEGY": "path",
            "FILESYSTEM_ROOT": str(folder / "files"),
            "TMPDIR": str(folder / "tmp"),
            # Nothing leaves this machine: no analytics, no certificate to download, no name server.
            "DISABLE_EVENTS": "1",
            "SKIP_SSL_CERT_DOWNLOAD": "1",
            "DNS_ADDRESS": "0",
        },
    )
    deadline = time.monotonic() + _START_SECONDS
    while not healthy(port):
        if not daemon.running():
            raise DeployError(f"LocalStack ended at its start; the end of {daemon.log}:\n{daemon.tail()}")
        if time.monotonic() > deadline:
            raise DeployError(
                f"LocalStack does not answer after {_START_SECONDS:.0f} s; {daemon.log}:\n{daemon.tail()}"
            )
        time.sleep(0.2)


def healthy(port: int) -> bool:
    """Whether it answers and has what the template needs."""
    try:
        with urllib.request.urlopen(f"{url(port)}/_localstack/health", timeout=2) as answer:  # noqa: S310
            services = json.load(answer)["services"]
    except (OSError, ValueError, KeyError):
        return False
    return all(services.get(name) in ("available", "running") for name in ("lambda", "s3", "sqs", "cloudformation"))
