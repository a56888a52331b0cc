"""A JSON Schema of firn.yaml, by which editors complete and check it (`firn config schema`).

It says how the file is built: which settings there are, what kind of value each takes, and its words. Whatever it
refuses the reader refuses too, never the other way round: that a table's key is a column, that two rules do not meet,
is the reader's to say. tests/property/test_config_schema.py holds the two together.
https://json-schema.org/draft/2020-12
"""

from typing import get_args

from firn.changes.decode.row_schema import UNITS, Invalid, Unknown
from firn.changes.decode.source_encodings import BinaryMode, DecimalMode, IntervalMode, TimeMode, UnsignedMode
from firn.changes.envelopes import registry
from firn.changes.metadata_columns import ASKED_METADATA
from firn.config.catalogs import KINDS
from firn.config.event_sources import KafkaOrder
from firn.config.file_sinks import FileCompression, FileFormat
from firn.config.model import AuthBy, SnapshotReads, Update, Way
from firn.config.modes import fed
from firn.config.pull_source import Plugin
from firn.config.views_reader import Refresh
from firn.config.writers import Outside
from firn_cli.alert_shapes import alerts
from firn_cli.json_shapes import (
    DECLARED,
    NAME,
    READER,
    TEXT,
    Schema,
    flag,
    free,
    list_of,
    named,
    quantity,
    section,
    text,
    texts,
    whole,
    words,
)
from firn_cli.table_shapes import DURATION, SIZE, common_care, written


def schema() -> Schema:
    """The schema of a whole firn.yaml."""
    top = section(
        "Firn's configuration: streams of changes and the tables they become.",
        {
            "catalog": _catalog(),
            "warehouse": text(
                "Where tables live: s3://bucket/prefix, gs://…, abfss://… or file:///absolute.",
                "s3://acme-lake/warehouse",
            ),
            "targets": named("Deployments for `firn --target NAME COMMAND`.", _target()),
            "care": common_care(),
            "query": section(
                "Who may read tables over HTTP.",
                {
                    "auth": _auth("Who may read everything; a deployment without it lets nobody."),
                    "readers": named("Who may read some tables.", _reader(), READER),
                },
            ),
            "console": section(
                "Who may look and act in the console.",
                {
                    "auth": _auth("Who may look; without it who may read."),
                    "events": section("Who may see the bytes of dead letters.", {"auth": _auth("Who that is.")}),
                    "actions": section("Who may change anything.", {"auth": _auth("Who that is; without it nobody.")}),
                },
            ),
            "sources": named("Databases that Firn reads by itself.", _source(), NAME),
            "alerts": alerts(),
            "streams": named("Streams by name: each is a way in, POST /v1/streams/NAME.", _stream(), NAME)
            | {"type": "object", "minProperties": 1},
            "views": named("Tables that are a query over others: namespace.table -> its SQL.", _view()),
            "schema_files": free("What schema files held when this text was published; `firn publish` writes it."),
        },
        required=["streams"],
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "firn.yaml",
        **top,
        "type": "object",
        "$defs": {"field": _field(), "items": _items()},
    }


def _catalog() -> Schema:
    return section(
        "The Iceberg catalog.",
        {
            "type": words("Its kind.", tuple(KINDS), "sql"),
            "uri": texts("Its address, or several servers of one catalog; the deployment's own if left out."),
            "properties": free("Further properties by PyIceberg's names; never secrets.", TEXT),
        },
    )


def _target() -> Schema:
    return section(
        "A deployment.",
        {
            "stack": text("Its CloudFormation stack.", "firn-NAME"),
            "region": text("Its region; that of the AWS environment if left out.", "eu-central-1"),
            "profile": text("The profile of your AWS configuration to go there with.", "acme-prod"),
            "endpoint": text("Another address of AWS's API, such as LocalStack's.", "http://127.0.0.1:4566"),
        },
    )


def _source() -> Schema:
    return section(
        "A PostgreSQL whose replication slot Firn reads.",
        {
            "postgres": text("postgresql://user@host:5432/database; the password stands elsewhere, see secret."),
            "slot": text("The replication slot.", "firn_NAME"),
            "publication": text("The publication.", "firn"),
            "stream": text("The stream that it feeds, of the same name if left out."),
            "plugin": words("The slot's output plugin.", get_args(Plugin), "pgoutput"),
            "secret": text("Where the password is: secretsmanager:NAME, ssm:/NAME or file:/PATH."),
            "iam": flag("Log in with an IAM token instead of a password.", "false"),
            "linger": quantity("How long a run goes on reading after the last change.", DURATION, "50s", zero=True),
        },
        required=["postgres"],
    )


def _stream() -> Schema:
    found = section(
        "A stream: how its events are written, and the tables it feeds.",
        {
            "envelope": words("How its events are written; rows: plain JSON.", registry.KNOWN.names, "debezium"),
            "unavailable_value": text("The connector's unavailable.value.placeholder.", "__debezium_unavailable_value"),
            "commit": _commit(),
            "backlog": section(
                "How much may wait for its commit; beyond it a POST gets a 429.",
                {
                    "bytes": quantity("Staged bytes.", SIZE, "10GB"),
                    "events": whole("Changes.", 1, None, "any number"),
                    "age": quantity("Age of the oldest change that waits.", DURATION, "any"),
                },
            ),
            "debezium": _debezium(),
            "out_of_range": words(
                "What becomes of a value that Iceberg can't hold.", ("null", "dead_letter"), "null", null=True
            ),
            "generation": whole("Raise it when the source's positions start again.", 0, 2**32 - 1, "0"),
            "order_by": texts("The field, or two, that order changes of a source without positions."),
            "table_by": text("Of plain rows: the field that names a row's source table."),
            "op_field": text("Of plain rows: the field that tells deletes."),
            "delete_when": texts("Of plain rows: the values of op_field that make a delete, or a condition in SQL."),
            "job": _job(),
            "auth": _auth("Who may post; anybody the network lets through if left out.", queue=True),
            "writers": named("Senders that may write a part of it, by name.", _writer(), NAME),
            "accept": list_of("The ways in.", get_args(Way)),
            "max_tables": whole("How many tables the stream's patterns may make.", 1, 1_000_000, "1000"),
            "max_body": quantity(
                "Largest request as sent.", r"^\s*\d{1,12}(\.\d{1,3})?\s*([kKmMgGtT][iI]?)?[bB]\s*$", "4MiB"
            ),
            "rate": quantity("Bytes of JSON a second that the stream takes.", r"^.+/\s*s\s*$", "any"),
            "kinesis": texts("ARN of the Kinesis stream that feeds it."),
            "dynamodb": texts("ARN of the DynamoDB table, or of several, that feeds it."),
            "kafka": _kafka(),
            "tables": named("Source table -> rule; * in a name stands for any characters.", _rule()),
            "pipelines": named("SQL between a source table and a table or files.", _pipeline(), NAME),
        },
    )
    return found | {"anyOf": [{"type": "null"}, {"required": ["tables"]}, {"required": ["pipelines"]}]}


def _job() -> Schema:
    name = text("Streams with the same name share their job runs.", "shared")
    lanes = whole("Of a table of several shards: how many of them are committed at the same time.", 1, 16, "1")
    return {"anyOf": [name, section("The job that commits it.", {"name": name, "lanes": lanes})]}


def _commit() -> Schema:
    return section(
        "When staged changes are committed.",
        {
            "every": quantity("At the latest so long after the first change.", DURATION, "60s"),
            "size": quantity("Or once so much is staged.", SIZE, "100MB"),
            "fresh": quantity("While a job is up, changes wait only so long.", DURATION, "2s"),
            "linger": quantity("A job stays up so long after its last change.", DURATION, "60s", zero=True),
            "max_size": quantity("What one epoch holds at most.", SIZE, "256MB"),
            "max_events": whole("The same, in changes.", 1, None, "5000000"),
        },
    )


def _debezium() -> Schema:
    return section(
        "The connector's own settings, under their own names.",
        {
            "decimal.handling.mode": words("How decimals are written.", get_args(DecimalMode), "precise"),
            "time.precision.mode": words("How times are written.", get_args(TimeMode), "adaptive"),
            "binary.handling.mode": words("How bytes are written.", get_args(BinaryMode), "bytes"),
            "interval.handling.mode": words("How intervals are written.", get_args(IntervalMode), "numeric"),
            "bigint.unsigned.handling.mode": words("What unsigned bigints are.", get_args(UnsignedMode), "long"),
        },
    )


def _kafka() -> Schema:
    registry_ = section(
        "The schema registry.",
        {
            "url": text("Its address.", "https://registry.example.org"),
            "secret": text("Where user:password is: secretsmanager:NAME, ssm:/NAME or file:/PATH."),
            "id_bytes": whole("Bytes of a schema's id: 4, or 8 of Apicurio's own format.", 4, 8, "4"),
        },
        required=["url"],
    )
    return section(
        "Kafka topics whose records are for this stream.",
        {
            "topics": texts("Names of topics, or patterns with *."),
            "cluster": text("The MSK cluster's ARN, or the bootstrap servers of another.", "any"),
            "order": words("What places records whose events say nothing of order.", get_args(KafkaOrder), "offset"),
            "registry": registry_,
        },
        required=["topics"],
    )


def _rule() -> Schema:
    found = section(
        "What becomes of one source table, or of all that a pattern takes.",
        {
            "to": texts("The Iceberg table namespace.table, or several; {schema} and {table} are the source's."),
            "key": texts("The columns that make a row; of a mirror."),
            "mode": words("mirror: one row a key. append: each change is a row.", fed(), "mirror"),
            "snapshot_reads": words("What reads of a snapshot do.", get_args(SnapshotReads), "upsert"),
            "update": words("Whether a plain row replaces, or changes what it names.", get_args(Update), "replace"),
            "metadata": list_of("Of an append table: columns that say where a row comes from.", tuple(ASKED_METADATA)),
            "columns": free("Column -> type, for what plain JSON can't tell.", DECLARED),
            "ignore": flag("Leave this table out.", "false"),
            "renames": free("Columns that the source renamed: new name -> old name.", TEXT),
            "shard": section(
                "Into which tables it is split; `to` of the rule has {shard} in it.",
                {
                    "by": text("hash(column), range(column), tenant(column) or geographic(column)."),
                    "count": whole("Of hash: how many shards.", 1, 99, None),
                    "at": texts("Of range: the bounds, rising."),
                    "tenants": texts("Of tenant: the values that have a table of their own."),
                    "most": whole("Of tenant: how many have one, those that appear among them.", 1, 99, None),
                    "to": free("Of geographic: value -> shard.", TEXT),
                    "else": text("The shard of all other values.", "rest"),
                    "whole": text("What all shards are read as; else the stream's name in place of {shard}."),
                    "warehouses": free("Shard -> warehouse beside the deployment's, by its name.", TEXT),
                },
            ),
            "schema": {
                "description": "What plain rows must be: {fields: […]}, or the name of a JSON file.",
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "properties": {"fields": _fields()},
                        "required": ["fields"],
                        "additionalProperties": False,
                    },
                ],
            },
            "invalid": words("What becomes of rows that don't fit the schema.", get_args(Invalid), "dead_letter"),
            "unknown": words("What becomes of fields that it doesn't name.", get_args(Unknown), "keep"),
            **written(),
        },
    )
    return found | {"anyOf": [{"type": "null"}, {"required": ["to"]}, {"required": ["ignore"]}]}


def _pipeline() -> Schema:
    files = section(
        "Files to write, in place of a table.",
        {
            "to": text("s3://bucket/prefix, gs://…, abfss://… or file:///folder, outside the warehouse."),
            "format": words("Their format.", get_args(FileFormat), "parquet"),
            "compression": words("Their compression.", get_args(FileCompression), "zstd"),
            "path": text("Folders such as dt=%Y-%m-%d/region={region}."),
            "time": text("The output column that gives the %-codes of path their time.", "acceptance"),
            "roll": section(
                "When files are written.",
                {
                    "every": quantity("Once what waits is so old.", DURATION, "300s"),
                    "size": quantity("Or takes so much of the log.", SIZE, "100MB"),
                },
            ),
        },
        required=["to"],
    )
    return section(
        "SQL from a source table to a target.",
        {
            "sql": text("INSERT INTO namespace.table SELECT … FROM source; without INSERT INTO the target is files."),
            "mode": words("mirror: at every cut the SELECT over the source's mirror.", fed(), "append"),
            "key": texts("Of a mirror: its key, by the names that the SQL gives."),
            "files": files,
            **written(),
        },
        required=["sql"],
    )


def _view() -> Schema:
    return section(
        "A query, kept up to date by what changed.",
        {
            "sql": text("SELECT … FROM namespace.table; tables of streams, of pipelines, or other views."),
            "every": quantity(
                "Not more often (with now(): so often); without it at each cut.", DURATION, "0s", zero=True
            ),
            "refresh": words("full: all of it is made again each time.", get_args(Refresh), "incremental"),
            **written(),
        },
        required=["sql"],
    )


def _auth(about: str, *, queue: bool = False) -> Schema:
    ways = tuple(way for way in get_args(AuthBy) if queue or way != "queue")
    told = {
        "by": words("How senders are told apart.", ways, None),
        "secret": text("Where the keys are: secretsmanager:NAME, ssm:/NAME or file:/PATH."),
        "iam": texts("ARNs of those who may, with by: iam."),
    }
    if queue:
        told["queue"] = texts("Who may send by queue: ids of roles (AROA…) and users (AIDA…).")
    return section(about, told)


def _writer() -> Schema:
    return section(
        "A sender that may write a part of the stream.",
        {
            "auth": _auth("How it is told.", queue=True),
            "tables": texts("The source tables that it may write, or patterns with *; all if left out."),
            "rows": text("What must be true of its rows, before and after: tenant_id = 7."),
            "outside": words("What becomes of a change outside.", get_args(Outside), "refuse"),
            "rate": quantity("Bytes of JSON a second that it may send.", r"^.+/\s*s\s*$", "any"),
            "backlog": quantity("Bytes of JSON of its own that may wait for their commit.", SIZE, "any"),
            "storage": quantity("Bytes that the tables of `stored_in` may take.", SIZE, "any"),
            "stored_in": texts("Target tables that hold its rows alone, namespace.table with *."),
        },
        required=["auth"],
    )


def _reader() -> Schema:
    condition = "A condition over columns, such as tenant_id = 7."
    return section(
        "Who this is, and what they may read.",
        {
            "auth": _auth("Who this is; a key begins with the reader's name and a point."),
            "tables": texts("namespace.table, in which * stands for any characters."),
            "columns": free("Of tables as they stand in `tables`: those columns alone.", texts("")),
            "rows": {"anyOf": [text(condition), free("Likewise the rows that fit.", text(condition))]},
            "seconds": whole("Seconds of queries that it may use a day (UTC).", 1, 10_000_000, None),
        },
        required=["auth", "tables"],
    )


def _fields() -> Schema:
    return {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/field"}}


def _typed() -> dict[str, Schema]:
    return {
        "type": text("string, int64, decimal(12,2), timestamp, json, list, struct, …"),
        "unit": words("Of a timestamp written as a number.", tuple(UNITS), None),
        "items": {"description": "Of a list: what is in it.", "anyOf": [TEXT, {"$ref": "#/$defs/items"}]},
        "fields": _fields() | {"description": "Of a struct: its fields."},
        "precision": whole("Of a decimal.", 1, 38, None),
        "scale": whole("Of a decimal.", 0, 38, None),
    }


def _field() -> Schema:
    own = {
        "name": text("Its name."),
        "required": flag("Rows without it are refused.", "false"),
        "default": {"description": "The value of rows that leave it out."},
    }
    return section("A field of a row.", own | _typed(), required=["name", "type"]) | {"type": "object"}


def _items() -> Schema:
    return section("What a list's elements are.", _typed(), required=["type"])
