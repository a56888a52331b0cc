"""`firn leftovers`: what a deleted deployment leaves in the account, and its removal.

Both buckets outlive their stack (`DeletionPolicy` in template.yaml). Log groups go with it, but for one that somebody
writes to afterwards; the tables in Glue are the jobs', and no stack knows them.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final

import typer

from firn.config.model import TargetConfig
from firn.deployment.cloudformation import session_of
from firn.deployment.terminal import print_json, print_table, size, spinner
from firn.errors import FirnError
from firn_cli.options import Json, StackName, stack_or_target

Report = Callable[[int, str], None]
"""Called with how many objects were listed or removed, and of what."""

_OWNER_TAG: Final = "aws:cloudformation:stack-name"
_BUCKETS: Final = ("staging", "lake")


class NotRemoved(FirnError):
    """What was not removed by then is there; the same command goes on."""


@dataclass(frozen=True)
class Leftover:
    """`kind`: bucket, log group or table. `objects`: versions and delete markers; `bytes`: of all versions;
    `database`: Glue's, of a table, else empty."""

    kind: str
    name: str
    objects: int | None = None
    bytes: int | None = None
    database: str = ""


class Account:
    """What is left of the stack `target.stack`, whose parameter Environment was `environment`."""

    def __init__(self, target: TargetConfig, environment: str) -> None:
        """Raises NoStack."""
        self._session, self._endpoint = session_of(target), target.endpoint
        self.stack, self.environment = target.stack, environment

    def expect_no_stack(self) -> None:
        """Raises NotRemoved while the stack is there, or another one that has its buckets or is to get them."""
        wanted = {f"s3://{bucket}" for bucket in self._buckets()}
        for page in self._client("cloudformation").get_paginator("describe_stacks").paginate():
            for one in page["Stacks"]:
                name, state = one["StackName"], one["StackStatus"]
                if state == "DELETE_COMPLETE":
                    continue
                if name == self.stack:
                    raise NotRemoved(
                        f"the stack {name} is there ({state}), so nothing of it is left over; to give it up: "
                        f"firn pause --stop, then aws cloudformation delete-stack --stack-name {name}"
                    )
                has = {str(out["OutputValue"]).removesuffix("/warehouse") for out in one.get("Outputs") or ()}
                if has & wanted:
                    raise NotRemoved(f"{min(has & wanted)} is in use: it belongs to the stack {name}")
                # Outputs come last, and never where a first deploy failed and was kept.
                given = {str(of["ParameterKey"]): str(of["ParameterValue"]) for of in one.get("Parameters") or ()}
                if "JobSha256" in given and given.get("Environment") == self.environment:
                    raise NotRemoved(
                        f"the stack {name} has the Environment {self.environment} too ({state}), and so the same names"
                    )

    def find(self, report: Report, *, tables: bool) -> list[Leftover]:
        """All that is there, `tables` with those in Glue. Raises NotRemoved: a bucket is another stack's."""
        found = []
        for bucket in self._buckets():
            if self._is_there(bucket):
                objects, total = 0, 0
                for page in self._versions(bucket):
                    objects += len(page)
                    total += sum(one.get("Size", 0) for one in page)
                    report(objects, bucket)
                found.append(Leftover("bucket", bucket, objects, total))
        groups = self._client("logs").get_paginator("describe_log_groups")
        for page in groups.paginate(logGroupNamePrefix=f"/firn/{self.environment}/"):
            found += [
                Leftover("log group", one["logGroupName"], None, one.get("storedBytes")) for one in page["logGroups"]
            ]
        return found + list(self._tables()) if tables else found

    def remove(self, one: Leftover, report: Report) -> None:
        """Remove it for good. Raises NotRemoved, what boto3 raises."""
        self.expect_no_stack()
        if one.kind == "log group":
            self._client("logs").delete_log_group(logGroupName=one.name)
        elif one.kind == "table":
            table = one.name.removeprefix(f"{one.database}.")
            there = self._client("glue").get_table(DatabaseName=one.database, Name=table)["Table"]
            if not self._lies_here(there):  # somebody made it again meanwhile: emptying buckets takes hours
                raise NotRemoved(f"the table {one.name} lies elsewhere by now: it is another one of that name")
            self._client("glue").delete_table(DatabaseName=one.database, Name=table)
        elif self._is_there(one.name):
            self._empty(one.name, report)
            self._client("s3").delete_bucket(Bucket=one.name)

    def _empty(self, bucket: str, report: Report) -> None:
        s3, removed = self._client("s3"), 0
        # Until a look finds nothing: one that goes on behind what was removed may pass something over.
        while found := next(self._versions(bucket), None):
            self.expect_no_stack()  # which may have been made or imported meanwhile: this takes hours
            keys = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in found]
            answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
            if errors := answer.get("Errors"):
                first = errors[0]
                raise NotRemoved(
                    f"{len(errors)} objects of {bucket} were not removed, {first['Key']}: "
                    f"{first.get('Message') or first['Code']}; see to your rights and the bucket's policy"
                )
            removed += len(keys)
            report(removed, bucket)

    def _versions(self, bucket: str) -> Iterator[list[Mapping[str, Any]]]:
        """The versions and delete markers of a bucket, at most 1,000 at once."""
        for page in self._client("s3").get_paginator("list_object_versions").paginate(Bucket=bucket):
            if found := [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]:
                yield found

    def _buckets(self) -> list[str]:
        """As template.yaml names them."""
        account = self._client("sts").get_caller_identity()["Account"]
        return [f"firn-{self.environment}-{kind}-{account}-{self._session.region_name}" for kind in _BUCKETS]

    def _is_there(self, bucket: str) -> bool:
        from botocore.exceptions import ClientError

        try:
            tags = self._client("s3").get_bucket_tagging(Bucket=bucket)["TagSet"]
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchBucket":
                return False
            if error.response["Error"]["Code"] != "NoSuchTagSet":
                raise
            tags = []
        owner = next((tag["Value"] for tag in tags if tag["Key"] == _OWNER_TAG), self.stack)
        if owner != self.stack:
            raise NotRemoved(f"the bucket {bucket} is of the stack {owner}, not of {self.stack}: say --stack {owner}")
        return True

    def _tables(self) -> Iterator[Leftover]:
        glue = self._client("glue")
        for page in glue.get_paginator("get_databases").paginate():
            for name in (one["Name"] for one in page["DatabaseList"]):
                for tables in glue.get_paginator("get_tables").paginate(DatabaseName=name):
                    for table in filter(self._lies_here, tables["TableList"]):
                        yield Leftover("table", f"{name}.{table['Name']}", database=name)

    def _lies_here(self, table: Mapping[str, Any]) -> bool:
        return str(table.get("Parameters", {}).get("metadata_location", "")).startswith(f"s3://{self._lake}/")

    @cached_property
    def _lake(self) -> str:
        return self._buckets()[1]

    def _client(self, service: str) -> Any:
        return self._session.client(service, endpoint_url=self._endpoint)


def command(
    stack: StackName = None,
    environment: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its parameter Environment, if its name is not firn-NAME.")
    ] = None,
    tables: Annotated[bool, typer.Option("--tables", help="Also its tables in Glue: their files go.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove all of it for good, after a question.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Without the question.")] = False,
    as_json: Json = False,
) -> None:
    """List or remove what a deleted stack left behind. Buckets, log groups, tables."""
    from botocore.exceptions import BotoCoreError, ClientError

    if as_json and remove and not yes:
        raise typer.BadParameter("--json asks nothing: say --yes too", param_hint="--remove")
    target = stack_or_target(stack)
    account = Account(target, environment or target.stack.removeprefix("firn-"))
    try:
        account.expect_no_stack()
        with _progress("listed", quiet=as_json) as report:
            found = account.find(report, tables=tables)
        if not as_json:
            _show(found, account)
        if remove and found:
            if not yes:
                _ask(account.stack)
            with _progress("removed", quiet=as_json) as report:
                for one in found:
                    account.remove(one, report)
    except (BotoCoreError, ClientError) as error:
        raise NotRemoved(f"{error}; what is there still is there, the same command goes on") from error
    if as_json:
        print_json({"stack": account.stack, "found": found, "removed": remove})
    elif remove and found:
        typer.echo(f"all {len(found)} are removed")
    elif found:
        typer.echo("firn leftovers --remove removes them, and what was never committed with them")


def _show(found: list[Leftover], account: Account) -> None:
    if not found:
        typer.echo(f"nothing is left of {account.stack}, if its Environment was {account.environment} (--environment)")
        return
    print_table(
        ["kind", "name", "objects", "size"],
        [(one.kind, one.name, one.objects, None if one.bytes is None else size(one.bytes)) for one in found],
    )


def _ask(stack: str) -> None:
    typed = typer.prompt(f"This can't be undone. Type {stack} to remove all of it", err=True)
    if typed != stack:
        raise NotRemoved(f"{typed!r} is not {stack}: nothing was removed")


@contextmanager
def _progress(done: str, *, quiet: bool) -> Iterator[Report]:
    with spinner(shown=not quiet and sys.stderr.isatty()) as say:
        yield lambda count, name: say(f"{count:,} {done} of {name}")
