"""The command line of `make package`, `make upload` and `make lock`.

    python -m infra.package [--json]                      measure all, package the job, list what is in them
    python -m infra.package job                           package the job alone
    python -m infra.package --clouds azure                with the jar that a warehouse there needs
    python -m infra.package sha256                        the packaged job's, which the template's JobSha256 takes
    python -m infra.package upload --stack firn-dev       put the job into the stack's staging bucket
    python -m infra.package upload --bucket NAME
    python -m infra.package lock                          pin again what goes into the layers

Exit codes: 0 done; 1 over budget, for another system than that which runs it, or not possible; 2 usage.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from firn.deployment.terminal import notes, print_json, print_table, size
from infra.package import PackageError, job, locks, measurement, sbom
from infra.package.locks import ROOT
from infra.package.upload import packaged, staging_bucket, upload

BUILT = ROOT / ".aws-sam" / "build"
CODE = ROOT / "build" / "package"


def main(arguments: Sequence[str]) -> int:
    """Parse, do it, and say it. -> the exit code."""
    given = _parser().parse_args(arguments)
    try:
        return _COMMANDS[given.command](given)
    except (PackageError, measurement.NotBuilt) as error:
        print(f"package: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.package", description="Package what goes to AWS.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--python", default=job.PYTHON, help="Python of the jobs' image (default: %(default)s)")
    parser.add_argument("--built", type=Path, default=BUILT, help="what `sam build` made")
    parser.add_argument("--code", type=Path, default=CODE, help="where the packaged job goes")
    parser.add_argument("--clouds", type=_clouds, default=(), help="where warehouses are besides S3: azure, google")
    parser.add_argument("--functions-only", action="store_true", help="measure, and package nothing")
    commands = parser.add_subparsers(dest="command")
    up = commands.add_parser("upload", help="put the packaged job into the staging bucket")
    where = up.add_mutually_exclusive_group(required=True)
    where.add_argument("--stack", help="name of the deployed stack")
    where.add_argument("--bucket", help="name of the staging bucket")
    commands.add_parser("job", help="package the job alone, if it is not there as it would be made")
    commands.add_parser("sha256", help="say which job is packaged, for the template's parameter JobSha256")
    commands.add_parser("lock", help="pin again what goes into the layers")
    return parser


def _clouds(text: str) -> tuple[str, ...]:
    named = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
    if strange := [one for one in named if one not in job.CLOUDS]:
        raise argparse.ArgumentTypeError(f"{strange[0]} is no cloud that jobs have a jar for; write azure or google")
    return named


def _package(given: argparse.Namespace) -> int:
    manifest = None
    with notes().status("measuring") as status:
        measured = measurement.measure(given.built, began=lambda name: status.update(f"importing {name}"))
        if not given.functions_only:
            manifest = job.build(
                given.code,
                given.python,
                began=lambda what: status.update(f"packaging {what}"),
                clouds=given.clouds,
            )
            measured.append(measurement.measure_job(given.code, manifest))
            parts = sbom.document(sbom.libraries_of(manifest), clouds=given.clouds)
            (given.code / sbom.NAME).write_text(json.dumps(parts, indent=2) + "\n")
    if given.json:
        print_json({"measured": measured, "job": manifest})
    else:
        _print(measured)
        if manifest is not None:
            print_table(
                ["job", "size", "sha256"],
                [(name, size(file["bytes"]), file["sha256"]) for name, file in manifest["files"].items()],
            )
            print(f"JobSha256={manifest['sha256']}")
    for one in measured:
        for problem in one.problems:
            print(f"package: {one.name}: {problem}", file=sys.stderr)
    return 1 if any(one.problems for one in measured) else 0


def _job(given: argparse.Namespace) -> int:
    with notes().status("packaging") as status:
        manifest = job.current(given.code, given.python, given.clouds) or job.build(
            given.code,
            given.python,
            began=lambda what: status.update(f"packaging {what}"),
            clouds=given.clouds,
        )
    print_json(manifest) if given.json else print(f"JobSha256={manifest['sha256']}")
    return 0


def _print(measured: Sequence[measurement.Measured]) -> None:
    print_table(
        ["", "name", "unzipped", "of", "import, CPU", "of", "Python", "there", "glibc", "there"],
        [
            (
                *(one.kind, one.name, size(one.bytes)),
                None if one.budget.bytes is None else size(one.budget.bytes),
                *(None if s is None else f"{s * 1000:.0f} ms" for s in (one.seconds, one.budget.seconds)),
                *(one.python_needed or "any", one.python, one.glibc_needed or "any", one.glibc),
            )
            for one in measured
        ],
    )


def _upload(given: argparse.Namespace) -> int:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        bucket = given.bucket or staging_bucket(given.stack, boto3.client("cloudformation"))
        with notes().status("looking") as status:
            prefix, written = upload(given.code, bucket, boto3.client("s3"), began=status.update)
    except (BotoCoreError, ClientError) as error:
        where = f"the bucket {given.bucket}" if given.bucket else f"the stack {given.stack}"
        raise PackageError(f"{where}: {error}; check its name, AWS_REGION and your credentials") from error
    if given.json:
        print_json({"bucket": bucket, "written": written})
    else:
        print(f"s3://{bucket}/{prefix}: {f'{len(written)} written' if written else 'up to date'}")
    return 0


def _sha256(given: argparse.Namespace) -> int:
    print(packaged(given.code)["sha256"])
    return 0


def _lock(_given: argparse.Namespace) -> int:
    for layer in locks.LAYERS:
        locks.make(layer)
    return 0


_COMMANDS = {None: _package, "job": _job, "upload": _upload, "sha256": _sha256, "lock": _lock}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
