"""`python -m firn_deploy up | down`: the deployment alone. `make deploy-local` also sends events through it."""

import argparse
import json
import sys
from pathlib import Path

from firn.errors import FirnError
from firn_deploy.deploying import Options, deploy, undeploy
from firn_deploy.showing import Steps


def add_options(parser: argparse.ArgumentParser) -> None:
    """Where the deployment is, and how to print; the same for every command about it."""
    parser.add_argument("--dir", type=Path, default=Path(".localstack"), help="its folder (default .localstack)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, progress on standard error")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; -> its exit code."""
    parser = argparse.ArgumentParser(prog="python -m firn_deploy", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start LocalStack and deploy template.yaml")
    up.add_argument("--port", type=int, help="LocalStack's port, 0 for a free one (default 4566)")
    up.add_argument("--config", type=Path, default=Options.config, help="the streams (default firn.yaml)")
    down = commands.add_parser("down", help="stop all and remove what was made")
    for command in (up, down):
        add_options(command)
    given = parser.parse_args(arguments)
    steps = Steps(as_json=given.json)
    result: dict[str, object]
    try:
        if given.command == "down":
            removed = undeploy(given.dir, steps.step)
            result = {"removed": removed}
            steps.say(f"{given.dir} is removed" if removed else f"nothing is deployed in {given.dir}")
        else:
            done = deploy(Options(folder=given.dir, port=given.port, config=given.config), steps.step)
            result = {"url": done.stack.url, "changed": done.changed, "port": done.port}
            steps.say(f"deployed at {done.stack.url}; " + (", ".join(done.changed) or "nothing") + " changed")
    except FirnError as error:
        print(f"firn_deploy: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("firn_deploy: stopped; what was started runs on (make undeploy-local)", file=sys.stderr)
        return 130
    if given.json:
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
