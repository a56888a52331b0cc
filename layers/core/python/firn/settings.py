"""The environment of Firn's functions, read once into a typed value. The only place that knows its variables' names."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from firn.changes.envelopes.limits import EventLimits
from firn.config.region import NO_NETWORK, WAREHOUSES, region_of
from firn.errors import ConfigError
from firn.ingest.bodies import Limits

# Of the query function's memory: its own process, an upload's parts, and what a worker takes between two looks at it.
_OWN_BYTES = 512 << 20


@dataclass(frozen=True)
class Settings:
    """What a deployment says to its functions. Parts that a function doesn't use may be empty."""

    staging: str  # URL of the staging store
    warehouse: str = ""
    warehouses: str = ""  # those beside it, where shards may lie (firn.config.warehouses)
    catalog_uri: str = ""
    limits: Limits = field(default_factory=Limits)
    queue_stream: str = ""  # the stream of queue messages that name none
    emr_application: str = ""  # "": sealing only, jobs are started elsewhere
    emr_role: str = ""
    job_entry_point: str = ""
    job_sha256: str = ""  # of the packaged job; "": it is run as it lies there, unchecked
    spark_submit_parameters: str = ""
    jobs_region: str = ""  # jobs have no network, and reach AWS's endpoints of this region only; "": they have one
    query_seconds: int = 25  # what one query may take: API Gateway waits 29 seconds
    query_rows: int = 1_000_000
    query_memory: str = "1GB"
    query_cpu_seconds: int = 100
    query_process_bytes: int = 2_500_000_000  # the worker's resident memory, above which it is killed
    open_reads: bool = False  # whether everybody may read where firn.yaml does not say who
    environment: str = ""  # the deployment's name
    dispatch_function: str = ""  # names of the functions that the console's actions invoke; "": it only looks
    compact_function: str = ""
    expire_function: str = ""
    alerts_function: str = ""
    alerts_local: str = ""  # what ARNs of the embedded stack's topics begin with; "": alerts leave for the internet
    job_logs: str = ""  # the folder of the embedded stack's job runs; "": their logs are not on this machine

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> "Settings":
        """Read FIRN_* from `environment` (None: the process's). Raises ConfigError naming the variable."""
        env = os.environ if environment is None else environment
        if not env.get("FIRN_STAGING"):
            raise ConfigError("FIRN_STAGING is not set: give the staging store's URL, such as s3://acme-staging")
        return Settings(
            staging=env["FIRN_STAGING"],
            warehouse=env.get("FIRN_WAREHOUSE", ""),
            warehouses=env.get(WAREHOUSES, ""),
            catalog_uri=env.get("FIRN_CATALOG_URI", ""),
            limits=Limits(
                sent=_bytes(env, "FIRN_MAX_BODY_BYTES", Limits.sent),
                inflated=_bytes(env, "FIRN_MAX_INFLATED_BYTES", Limits.inflated),
                ratio=_number(env, "FIRN_MAX_INFLATED_RATIO", Limits.ratio, "times"),
                members=_number(env, "FIRN_MAX_MEMBERS", Limits.members, "gzip members"),
                events=EventLimits(
                    events=_number(env, "FIRN_MAX_EVENTS", EventLimits.events, "events"),
                    alone=_number(env, "FIRN_MAX_EVENTS_ALONE", EventLimits.alone, "events"),
                    tables=_number(env, "FIRN_MAX_TABLES", EventLimits.tables, "tables"),
                    columns=_number(env, "FIRN_MAX_COLUMNS", EventLimits.columns, "columns"),
                    size=_bytes(env, "FIRN_MAX_EVENT_BYTES", EventLimits.size),
                ),
            ),
            queue_stream=env.get("FIRN_QUEUE_STREAM", ""),
            emr_application=env.get("FIRN_EMR_APPLICATION_ID", ""),
            emr_role=env.get("FIRN_EMR_ROLE_ARN", ""),
            job_entry_point=env.get("FIRN_JOB_ENTRY_POINT", ""),
            job_sha256=env.get("FIRN_JOB_SHA256", ""),
            spark_submit_parameters=env.get("FIRN_SPARK_SUBMIT_PARAMETERS", ""),
            jobs_region=region_of(env) if env.get("FIRN_NETWORK") == NO_NETWORK else "",
            query_seconds=_number(env, "FIRN_QUERY_SECONDS", Settings.query_seconds, "seconds"),
            query_rows=_number(env, "FIRN_QUERY_ROWS", Settings.query_rows, "rows"),
            query_memory=env.get("FIRN_QUERY_MEMORY", "") or Settings.query_memory,
            query_cpu_seconds=_number(env, "FIRN_QUERY_CPU_SECONDS", Settings.query_cpu_seconds, "seconds"),
            query_process_bytes=_process_bytes(env),
            open_reads=env.get("FIRN_OPEN_READS", "") == "1",
            environment=env.get("FIRN_ENVIRONMENT", ""),
            dispatch_function=env.get("FIRN_DISPATCH_FUNCTION", ""),
            compact_function=env.get("FIRN_COMPACT_FUNCTION", ""),
            expire_function=env.get("FIRN_EXPIRE_FUNCTION", ""),
            alerts_function=env.get("FIRN_ALERTS_FUNCTION", ""),
            alerts_local=env.get("FIRN_ALERTS_LOCAL", ""),
            job_logs=env.get("FIRN_JOB_LOGS", ""),
        )


def _process_bytes(env: Mapping[str, str]) -> int:
    """What a function of this size can leave to the process that runs its queries."""
    function = int(env.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "") or 0) << 20
    return max(function - _OWN_BYTES, function // 2) or Settings.query_process_bytes


def _bytes(env: Mapping[str, str], name: str, default: int) -> int:
    return _number(env, name, default, "bytes")


def _number(env: Mapping[str, str], name: str, default: int, of: str) -> int:
    text = env.get(name, "") or str(default)
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ConfigError(f"{name} is {text!r}: write a number of {of}, such as {default}")
    return int(text)
