"""What a job may do in the two buckets and in Glue: less than its role, which serves all streams. Pure.

StartJobRun takes an IAM policy beside the role, and the job has what both allow. This one leaves everything but S3's
objects and Glue's tables to the role (another bucket of an adopted table too). Of the objects in the staging and the
warehouse bucket, and of Glue's tables, it allows those of the job's streams and tables. The API takes 2,048 characters,
so of several ways to say it, from the narrowest on, the first that fits is taken: many tables become their namespaces,
then all.
https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/jobs-cli-execution.html
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

from firn.config.model import StreamConfig, TableRule
from firn.config.names import FACTS, TableName, slug
from firn.errors import EventError
from firn.runs.job_runs import PREFIX
from firn.views.view_sources import ViewSources

LONGEST: Final = 2048
GLUE: Final = "glue://"
# How narrow: in S3, and in Glue. 2: tables, 1: their namespaces, 0: all.
_DEPTHS: Final = ((2, 2), (2, 1), (1, 1), (1, 0), (0, 0))
# Of a stream; jobs/, state/ and health/ hold one object each.
_FOLDERS: Final = ("staged", "epochs", "cuts", "dead", "quarantine", "attempts", "pulls")


def policy(
    streams: Sequence[StreamConfig],
    staging: str,
    warehouse: str,
    partition: str = "aws",
    catalog: str = "",
    files: Sequence[str] = (),
    views: Sequence[ViewSources] = (),
    shards: Sequence[str] = (),
    beside: Sequence[str] = (),
) -> str | None:
    """The policy for a job of these streams, as JSON; None unless staging is in S3, or if even the widest is too long.

    `staging`, `warehouse`, `catalog`: URLs; `partition`: the first part of the account's ARNs; `files`: addresses of
    file sinks beside those of `streams`; `views`: what the views of `streams` read; `shards`: the tables that maps of
    shards name beside those of firn.yaml; `beside`: addresses of the warehouses in which shards may lie, of which jobs
    of streams without any have nothing. What a job may do in a warehouse on Azure or Google, its identity there says.
    """
    log, lake = urlsplit(staging), urlsplit(warehouse)
    if log.scheme != "s3" or lake.scheme not in ("s3", "gs", "abfss"):
        return None
    arn = f"arn:{partition}:s3:::"
    tables = f"arn:{partition}:glue:*:*:" if _is_glue(catalog) else None
    named = [one.files.to for s in streams for one in s.pipelines if one.files is not None]
    others = [one for one in map(urlsplit, beside) if one.scheme == "s3"]
    buckets = [one.netloc for one in (log, lake, *others) if one.scheme == "s3"]
    sinks = _sinks([*named, *files], arn, buckets)
    place = arn + _place(lake.netloc, lake.path) if lake.scheme == "s3" else None
    further = [arn + _place(one.netloc, one.path) for one in others]
    for objects, known in _ways(streams, views, shards, arn + _place(log.netloc, log.path), place, tables, further):
        text = _document([f"{arn}{bucket}/*" for bucket in buckets], objects + sinks, known)
        if len(text) <= LONGEST:
            return text
    return None


def _is_glue(catalog: str) -> bool:
    """Whether Glue is asked: by its own API, or by its Iceberg REST endpoint."""
    host = urlsplit(catalog).hostname or ""
    return catalog.startswith(GLUE) or (host.startswith(("glue.", "glue-fips.")) and ".amazonaws.com" in host)


def _sinks(addresses: Sequence[str], arn: str, buckets: Sequence[str]) -> list[str]:
    """Where files go in these buckets; another bucket is left to the role."""
    places = map(urlsplit, addresses)
    return sorted({f"{arn}{_place(to.netloc, to.path)}/*" for to in places if to.netloc in buckets})


def _place(bucket: str, path: str) -> str:
    return f"{bucket}{path}".rstrip("/")


def _document(buckets: Sequence[str], objects: Sequence[str], tables: Sequence[str]) -> str:
    statements = [
        {"Effect": "Allow", "NotAction": ["s3:*", "glue:*"] if tables else "s3:*", "Resource": "*"},
        {"Effect": "Allow", "Action": "s3:*", "NotResource": list(dict.fromkeys(buckets))},
        {"Effect": "Allow", "Action": "s3:*", "Resource": list(dict.fromkeys(objects))},
    ]
    if tables:
        statements.append({"Effect": "Allow", "Action": "glue:*", "Resource": list(dict.fromkeys(tables))})
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def _ways(
    streams: Sequence[StreamConfig],
    views: Sequence[ViewSources],
    shards: Sequence[str],
    log: str,
    lake: str | None,
    glue: str | None,
    beside: Sequence[str] = (),
) -> Iterable[tuple[list[str], list[str]]]:
    """From the narrowest to the widest: objects in S3, tables in Glue."""
    common = [f"{log}/config/*", f"{log}/code/*", f"{log}/tier/*"]
    each = [f"{log}/{folder}/{s.name}/*" for s in streams for folder in _FOLDERS]
    each += [f"{log}/{of}/{s.name}.json" for s in streams for of in ("state", "health")]
    each += [f"{log}/jobs/{PREFIX}{s.name}-*" for s in streams]
    # A sink that firn.yaml no longer names is written out under the next configuration.
    each += [f"{log}/sinks/{s.name}/*" for s in streams]
    each += [f"{log}/shards/{s.name}/*" for s in streams if any(rule.shard for rule in s.tables)]
    # What views read of other streams, and up to which cut.
    each += [f"{log}/views/{one.stream}/*" for one in views]
    own = {s.name for s in streams}
    each += [f"{log}/cuts/{name}/*" for name in sorted({name for one in views for name in one.streams} - own)]
    others = {table for one in views for table, feeding in one.feeders.items() if not own.issuperset(feeding)}
    others |= {table for s in streams for one in s.pipelines for table in one.joins}
    rules = [rule for s in streams for rule in s.targets if rule.to]
    rules += [TableRule(str(table), str(table)) for table in sorted({*others, *map(TableName.parse, shards)})]
    # Tenants that appear while the job runs may be any.
    appearing = [TableRule("*", one.shard.to) for s in streams for one in s.tables if one.shard and one.shard.most]
    rules += appearing
    # Which shard lies in which of them, maps say that may change while the job runs.
    apart = [*appearing, *(TableRule(table, table) for table in shards)]
    apart += [one for s in streams for r in s.tables if r.shard and not r.ignore for one in r.shard.rules(r)]
    for logs in (common + each, [f"{log}/*"]):
        for depth, depth_in_glue in _DEPTHS:
            files = {f"{lake}/{place}" for rule in rules for place in _places(rule, depth)} if lake else set()
            files |= {f"{other}/{place}" for other in beside for rule in apart for place in _places(rule, depth)}
            objects = logs + sorted(files)
            tables = {f"{glue}{place}" for rule in rules for place in _in_glue(rule, depth_in_glue)} if glue else set()
            yield objects, [f"{glue}catalog", *sorted(tables)] if glue else []


def _in_glue(rule: TableRule, depth: int) -> list[str]:
    """The rule's database, and its tables to that depth, as the ends of Glue's ARNs."""
    found = []
    for place in _places(rule, depth):
        # Where a name is not a path as it is, Glue has it otherwise than S3.
        namespace, _, table = place.removesuffix("/*").partition("/")
        if namespace == "*" or not namespace.replace("_", "").isalnum():
            return ["database/*", "table/*"]
        found += [f"database/{namespace}", f"table/{namespace}/{table or '*'}"]
    return found


def _places(rule: TableRule, depth: int) -> list[str]:
    """Where the rule's tables lie below the warehouse, to a depth of 2 (the table), 1 (its namespace) or 0."""
    namespace, _, table = rule.to.partition(".")
    if not rule.is_pattern:
        try:
            name = rule.target(rule.source)
        except EventError:
            return ["*"]
        namespace, table = name.namespace, name.table
    if depth == 0 or "{" in namespace:
        return ["*"]
    # What a delete is remembered in, and what a rebuild in place makes of it (firn_spark/branch.py).
    facts = f"{table}{FACTS}"
    if depth == 1 or slug(f"{facts}_9999_00000000") != f"{facts}_9999_00000000":  # a name that is not a path as it is
        return [f"{slug(namespace)}/*"]
    return [f"{slug(namespace)}/{table}/*", f"{slug(namespace)}/{facts}*"]
