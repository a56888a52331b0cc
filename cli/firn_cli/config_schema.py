"""A JSON Schema of firn.yaml, by which editors complete and check it (`firn config schema`).

It says how the file is built: which settings there are, what kind of value each takes, and its words. Whatever it
refuses the reader refuses too, never the other way round: that a table's key is a column, that two rules do not meet,
is the reader's to say. tests/property/test_config_schema.py holds the two together.
https://json-schema.org/draft/2020-12
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from firn.changes.decode.row_schema import UNITS, Invalid, Unknown
from firn.changes.decode.source_encodings import BinaryMode, DecimalMode, IntervalMode, TimeMode, UnsignedMode
from firn.changes.envelopes import registry
from firn.changes.metadata_columns import ASKED_METADATA
from firn.config.catalogs import KINDS
from firn.config.event_sources import KafkaOrder
from firn.config.file_sinks import FileCompression, FileFormat
from firn.config.file_writing_reader import Codec
from firn.config.maintenance import FEWEST_SNAPSHOTS, MOST_SNAPSHOTS, StorageClass
from firn.config.model import AuthBy, SnapshotReads, Update, Way, Write
from firn.config.modes import MODES

Schema = dict[str, Any]

_NAME: Final = "^[a-z0-9][a-z0-9_-]{0,62}$"
_TEXT: Final[Schema] = {"type": ["string", "number", "boolean"], "pattern": r"\S"}
_ON_OFF: Final = "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|[Yy][Ee][Ss]|[Nn][Oo]|[Oo][Nn]|[Oo][Ff][Ff])$"
_DURATION: Final = r"^\s*\d{1,12}\s*[smhdSMHD]\s*$"
_SIZE: Final = r"^\s*\d{1,12}\s*([kKmMgGtT][iI]?)?[bB]\s*$"


def schema() -> Schema:
    """The schema of a whole firn.yaml."""
    top = _section(
        "Firn's configuration: streams of changes and the tables they become.",
        {
            "catalog": _catalog(),
            "warehouse": _text(
                "Where tables live: s3://bucket/prefix or file:///absolute.", "s3://acme-lake/warehouse"
            ),
            "targets": _named("Deployments for `firn --target NAME COMMAND`.", _target()),
            "care": _care(),
            "query": _section(
                "Who may read tables over HTTP.", {"auth": _auth("Who may read; a deployment without it lets nobody.")}
            ),
            "sources": _named("Databases that Firn reads by itself.", _source(), _NAME),
            "streams": _named("Streams by name: each is a way in, POST /v1/streams/NAME.", _stream(), _NAME)
            | {"type": "object", "minProperties": 1},
            "schema_files": _free("What schema files held when this text was published; `firn publish` writes it."),
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
    return _section(
        "The Iceberg catalog.",
        {
            "type": _words("Its kind.", tuple(KINDS), "sql"),
            "uri": _texts("Its address, or several servers of one catalog; the deployment's own if left out."),
            "properties": _free("Further properties by PyIceberg's names; never secrets.", _TEXT),
        },
    )


def _target() -> Schema:
    return _section(
        "A deployment.",
        {
            "stack": _text("Its CloudFormation stack.", "firn-NAME"),
            "region": _text("Its region; that of the AWS environment if left out.", "eu-central-1"),
            "profile": _text("The profile of your AWS configuration to go there with.", "acme-prod"),
            "endpoint": _text("Another address of AWS's API, such as LocalStack's.", "http://127.0.0.1:4566"),
        },
    )


def _source() -> Schema:
    return _section(
        "A PostgreSQL whose replication slot Firn reads.",
        {
            "postgres": _text("postgresql://user@host:5432/database; the password stands elsewhere, see secret."),
            "slot": _text("The replication slot.", "firn_NAME"),
            "publication": _text("The publication.", "firn"),
            "stream": _text("The stream that it feeds, of the same name if left out."),
            "secret": _text("Where the password is: secretsmanager:NAME, ssm:/NAME or file:/PATH."),
            "iam": _flag("Log in with an IAM token instead of a password.", "false"),
            "linger": _quantity("How long a run goes on reading after the last change.", _DURATION, "50s", zero=True),
        },
        required=["postgres"],
    )


def _stream() -> Schema:
    found = _section(
        "A stream: how its events are written, and the tables it feeds.",
        {
            "envelope": _words("How its events are written; rows: plain JSON.", registry.KNOWN.names, "debezium"),
            "unavailable_value": _text(
                "The connector's unavailable.value.placeholder.", "__debezium_unavailable_value"
            ),
            "commit": _commit(),
            "backlog": _section(
                "How much may wait for its commit; beyond it a POST gets a 429.",
                {
                    "bytes": _quantity("Staged bytes.", _SIZE, "10GB"),
                    "events": _whole("Changes.", 1, None, "any number"),
                    "age": _quantity("Age of the oldest change that waits.", _DURATION, "any"),
                },
            ),
            "debezium": _debezium(),
            "out_of_range": _words(
                "What becomes of a value that Iceberg can't hold.", ("null", "dead_letter"), "null", null=True
            ),
            "generation": _whole("Raise it when the source's positions start again.", 0, 2**32 - 1, "0"),
            "order_by": _texts("The field, or two, that order changes of a source without positions."),
            "table_by": _text("Of plain rows: the field that names a row's source table."),
            "op_field": _text("Of plain rows: the field that tells deletes."),
            "delete_when": _texts("Of plain rows: the values of op_field that make a delete, or a condition in SQL."),
            "job": _text("Streams with the same name share their job runs.", "shared"),
            "auth": _auth("Who may post; anybody the network lets through if left out."),
            "accept": _list_of("The ways in.", get_args(Way)),
            "max_tables": _whole("How many tables the stream's patterns may make.", 1, 1_000_000, "1000"),
            "max_body": _quantity(
                "Largest request as sent.", r"^\s*\d{1,12}(\.\d{1,3})?\s*([kKmMgGtT][iI]?)?[bB]\s*$", "4MiB"
            ),
            "rate": _quantity("Bytes of JSON a second that the stream takes.", r"^.+/\s*s\s*$", "any"),
            "kinesis": _texts("ARN of the Kinesis stream that feeds it."),
            "dynamodb": _texts("ARN of the DynamoDB table, or of several, that feeds it."),
            "kafka": _kafka(),
            "tables": _named("Source table -> rule; * in a name stands for any characters.", _rule()),
            "pipelines": _named("SQL between a source table and a table or files.", _pipeline(), _NAME),
        },
    )
    return found | {"anyOf": [{"type": "null"}, {"required": ["tables"]}, {"required": ["pipelines"]}]}


def _commit() -> Schema:
    return _section(
        "When staged changes are committed.",
        {
            "every": _quantity("At the latest so long after the first change.", _DURATION, "60s"),
            "size": _quantity("Or once so much is staged.", _SIZE, "100MB"),
            "fresh": _quantity("While a job is up, changes wait only so long.", _DURATION, "2s"),
            "linger": _quantity("A job stays up so long after its last change.", _DURATION, "60s", zero=True),
            "max_size": _quantity("What one epoch holds at most.", _SIZE, "256MB"),
            "max_events": _whole("The same, in changes.", 1, None, "5000000"),
        },
    )


def _debezium() -> Schema:
    return _section(
        "The connector's own settings, under their own names.",
        {
            "decimal.handling.mode": _words("How decimals are written.", get_args(DecimalMode), "precise"),
            "time.precision.mode": _words("How times are written.", get_args(TimeMode), "adaptive"),
            "binary.handling.mode": _words("How bytes are written.", get_args(BinaryMode), "bytes"),
            "interval.handling.mode": _words("How intervals are written.", get_args(IntervalMode), "numeric"),
            "bigint.unsigned.handling.mode": _words("What unsigned bigints are.", get_args(UnsignedMode), "long"),
        },
    )


def _kafka() -> Schema:
    registry_ = _section(
        "The schema registry.",
        {
            "url": _text("Its address.", "https://registry.example.org"),
            "secret": _text("Where user:password is: secretsmanager:NAME, ssm:/NAME or file:/PATH."),
            "id_bytes": _whole("Bytes of a schema's id: 4, or 8 of Apicurio's own format.", 4, 8, "4"),
        },
        required=["url"],
    )
    return _section(
        "Kafka topics whose records are for this stream.",
        {
            "topics": _texts("Names of topics, or patterns with *."),
            "cluster": _text("The MSK cluster's ARN, or the bootstrap servers of another.", "any"),
            "order": _words("What places records whose events say nothing of order.", get_args(KafkaOrder), "offset"),
            "registry": registry_,
        },
        required=["topics"],
    )


def _rule() -> Schema:
    found = _section(
        "What becomes of one source table, or of all that a pattern takes.",
        {
            "to": _texts("The Iceberg table namespace.table, or several; {schema} and {table} are the source's."),
            "key": _texts("The columns that make a row; of a mirror."),
            "mode": _words("mirror: one row a key. append: each change is a row.", tuple(MODES), "mirror"),
            "snapshot_reads": _words("What reads of a snapshot do.", get_args(SnapshotReads), "upsert"),
            "update": _words("Whether a plain row replaces, or changes what it names.", get_args(Update), "replace"),
            "metadata": _list_of("Of an append table: columns that say where a row comes from.", tuple(ASKED_METADATA)),
            "columns": _free("Column -> type, for what plain JSON can't tell.", _TEXT),
            "ignore": _flag("Leave this table out.", "false"),
            "renames": _free("Columns that the source renamed: new name -> old name.", _TEXT),
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
            "invalid": _words("What becomes of rows that don't fit the schema.", get_args(Invalid), "dead_letter"),
            "unknown": _words("What becomes of fields that it doesn't name.", get_args(Unknown), "keep"),
            **_written(),
        },
    )
    return found | {"anyOf": [{"type": "null"}, {"required": ["to"]}, {"required": ["ignore"]}]}


def _pipeline() -> Schema:
    files = _section(
        "Files to write, in place of a table.",
        {
            "to": _text("s3://bucket/prefix or file:///folder, outside the warehouse."),
            "format": _words("Their format.", get_args(FileFormat), "parquet"),
            "compression": _words("Their compression.", get_args(FileCompression), "zstd"),
            "path": _text("Folders such as dt=%Y-%m-%d/region={region}."),
            "time": _text("The output column that gives the %-codes of path their time.", "acceptance"),
            "roll": _section(
                "When files are written.",
                {
                    "every": _quantity("Once what waits is so old.", _DURATION, "300s"),
                    "size": _quantity("Or takes so much of the log.", _SIZE, "100MB"),
                },
            ),
        },
        required=["to"],
    )
    return _section(
        "SQL from a source table to a target.",
        {
            "sql": _text("INSERT INTO namespace.table SELECT … FROM source; without INSERT INTO the target is files."),
            "mode": _words("mirror: at every cut the SELECT over the source's mirror.", tuple(MODES), "append"),
            "key": _texts("Of a mirror: its key, by the names that the SQL gives."),
            "files": files,
            **_written(),
        },
        required=["sql"],
    )


def _written() -> Mapping[str, Schema]:
    """What rules and pipelines say of their table's files."""
    bloom = _section(
        "",
        {
            "columns": _texts("The columns, or key."),
            "fpp": _number("Share of wrong hits, 0.0001 to 0.5.", "0.01"),
            "max_bytes": _quantity("Largest filter.", _SIZE, "1MB"),
        },
        required=["columns"],
    )
    return {
        "write": _words("How rows leave a mirror.", get_args(Write), "merge-on-read"),
        "partition_by": _texts("Columns, or day(c), bucket(16, c), truncate(8, c), …."),
        "bloom": {"description": "Columns with Bloom filters, or key.", "anyOf": [_texts(""), bloom]},
        "compression": _words("Of data files.", get_args(Codec), "zstd"),
        "compression_level": _whole("1 to 22 of zstd, 1 to 9 of gzip.", 1, 22, "3"),
        "target_file_size": _quantity("About how large data files become.", _SIZE, "128MB"),
        "properties": _free("Further properties of the Iceberg table that say how it is written.", _TEXT),
        "care": _care(),
    }


def _care() -> Schema:
    return _section(
        "How tables are looked after.",
        {
            "compact": _section(
                "Rewriting files.",
                {
                    "on": _flag("false: large files are never rewritten.", "true"),
                    "target": _quantity("About how large data files become.", _SIZE, "128MB"),
                    "budget": _quantity("How much of a table an hour may rewrite.", _SIZE, "2GB"),
                    "sort_by": _texts("Columns that order the rows of files.", null=True),
                    "zorder_by": _texts("Or columns along a curve through them.", null=True),
                },
            ),
            "expire": _section(
                "Letting snapshots go.",
                {
                    "keep": _quantity("Younger snapshots stay.", _DURATION, "5d"),
                    "at_least": _whole("So many stay however old.", FEWEST_SNAPSHOTS, MOST_SNAPSHOTS, "100"),
                    "at_most": _whole("No more than so many stay.", FEWEST_SNAPSHOTS, MOST_SNAPSHOTS, "1000"),
                    "orphans_after": _quantity("Unknown files go when older.", _DURATION, "3d"),
                },
            ),
            "tier": _section(
                "Moving cold files to a cheaper class.",
                {
                    "cold_after": _quantity(
                        "Not written for so long: cold.",
                        r"^\s*(\d{1,12}\s*[smhdSMHD]|[nN][eE][vV][eE][rR])\s*$",
                        "never",
                    ),
                    "predictive": _flag("Or where recorded reads say that it saves money.", "false"),
                    "class": _words("Where cold files go.", get_args(StorageClass), "STANDARD_IA"),
                },
            ),
        },
    )


def _auth(about: str) -> Schema:
    return _section(
        about,
        {
            "by": _words("How senders are told apart.", get_args(AuthBy), None),
            "secret": _text("Where the keys are: secretsmanager:NAME, ssm:/NAME or file:/PATH."),
            "iam": _texts("ARNs of those who may, with by: iam."),
        },
    )


def _fields() -> Schema:
    return {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/field"}}


def _typed() -> dict[str, Schema]:
    return {
        "type": _text("string, int64, decimal(12,2), timestamp, json, list, struct, …"),
        "unit": _words("Of a timestamp written as a number.", tuple(UNITS), None),
        "items": {"description": "Of a list: what is in it.", "anyOf": [_TEXT, {"$ref": "#/$defs/items"}]},
        "fields": _fields() | {"description": "Of a struct: its fields."},
        "precision": _whole("Of a decimal.", 1, 38, None),
        "scale": _whole("Of a decimal.", 0, 38, None),
    }


def _field() -> Schema:
    own = {
        "name": _text("Its name."),
        "required": _flag("Rows without it are refused.", "false"),
        "default": {"description": "The value of rows that leave it out."},
    }
    return _section("A field of a row.", own | _typed(), required=["name", "type"]) | {"type": "object"}


def _items() -> Schema:
    return _section("What a list's elements are.", _typed(), required=["type"])


def _section(about: str, properties: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    found: Schema = {"type": ["object", "null"], "properties": dict(properties), "additionalProperties": False}
    if about:
        found = {"description": about} | found
    return found | ({"required": list(required)} if required else {})


def _named(about: str, of: Schema, names: str | None = None) -> Schema:
    found: Schema = {"description": about, "type": ["object", "null"], "additionalProperties": of}
    return found | ({"propertyNames": {"pattern": names}} if names else {})


def _free(about: str, of: Schema | None = None) -> Schema:
    return {"description": about, "type": ["object", "null"]} | ({"additionalProperties": of} if of else {})


def _described(about: str, default: str | None) -> Schema:
    return {"description": about if default is None else f"{about} Default: {default}."}


def _text(about: str, default: str | None = None) -> Schema:
    return _described(about, default) | _TEXT


def _texts(about: str, *, null: bool = False) -> Schema:
    kinds: list[Schema] = [_TEXT, {"type": "array", "minItems": 1, "items": _TEXT}]
    found: Schema = {"anyOf": [*kinds, {"type": "null"}] if null else kinds}
    return ({"description": about} if about else {}) | found


def _list_of(about: str, known: Sequence[str]) -> Schema:
    word = {"type": "string", "enum": list(known)}
    return {"description": about, "anyOf": [word, {"type": "array", "minItems": 1, "items": word}]}


def _words(about: str, known: Sequence[str], default: str | None, *, null: bool = False) -> Schema:
    return _described(about, default) | {"enum": [*known, *([None] if null else [])]}


def _whole(about: str, low: int, high: int | None, default: str | None) -> Schema:
    number: Schema = {"type": "integer", "minimum": low} | ({"maximum": high} if high is not None else {})
    return _described(about, default) | {"anyOf": [number, {"type": "string", "pattern": r"^[+-]?\d{1,18}$"}]}


def _number(about: str, default: str) -> Schema:
    return _described(about, default) | {"type": ["number", "string"]}


def _flag(about: str, default: str) -> Schema:
    return _described(about, default) | {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": _ON_OFF}]}


def _quantity(about: str, pattern: str, default: str, *, zero: bool = False) -> Schema:
    text: Schema = {"type": "string", "pattern": pattern}
    if not zero:
        return _described(about, default) | text
    return _described(about, default) | {"anyOf": [{"enum": [0, "0"]}, text]}
