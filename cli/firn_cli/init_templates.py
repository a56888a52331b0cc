"""The text of a first firn.yaml and of debezium.properties. Pure: a description of the source in, text out."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

from firn.config.names import is_left_out, is_reserved
from firn_cli.postgres_source import Address, Source, SourceTable

PASSWORD_VARIABLE: Final = "FIRN_SOURCE_PASSWORD"  # noqa: S105 (the name of a variable)
# Text says exactly what the source holds, whatever the column's scale or precision was or becomes.
_DEBEZIUM: Final = {
    "decimal.handling.mode": "string",
    "time.precision.mode": "isostring",
    "interval.handling.mode": "string",
}
# MySQL's TIME has a sign and goes to 838 hours; isostring has times of day, and null for the rest (docs/adr/0063).
_DEBEZIUM_BINLOG: Final = {
    "decimal.handling.mode": "string",
    "time.precision.mode": "microseconds",
    "bigint.unsigned.handling.mode": "precise",
}
# The words that YAML 1.1 takes for something else.
_YAML_WORDS: Final = re.compile(r"(?i)y|n|yes|no|on|off|true|false|null")
_YAML_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_PLAIN_TABLE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ -]*")

COMMENTED: Final = """\
# What Firn does with your changes. Every setting: docs/configuration.md. Check this file: firn doctor

catalog: {type: sql}                  # sql | glue | rest | hive | nessie
# warehouse: s3://bucket/prefix       # left out: the deployment's own; below --dir with `firn up`

streams:
  shop:                               # POST /v1/streams/shop; one Debezium server is one stream
    envelope: debezium                # debezium | flat (ExtractNewRecordState) | cloudevents | auto | rows (your own)
    commit: {every: 60s, size: 100MB} # whichever comes first
    # debezium:                       # what the connector's properties say, if they differ from its defaults
    #   decimal.handling.mode: string
    #   time.precision.mode: isostring
    tables:
      public.orders:                  # the source's table
        to: shop.orders               # the Iceberg table, made when the first change arrives
        key: [id]                     # what tells rows apart; Debezium's HTTP sink does not send it
        mode: mirror                  # mirror: the same rows as the source; append: every change as a row
        # partition_by: [day(created_at), bucket(16, customer_id)]
        # columns:                    # types that plain JSON can't tell (not needed with inline schemas)
        #   amount: decimal(12,2)
        #   created_at: timestamp(6)
      public.audit_log:
        to: shop.audit_log
        mode: append
      # 'public.*':                   # all other tables of a schema; without a rule they are left out
      #   to: shop.{table}
"""


OWN_ROWS: Final = """\
# A first firn.yaml, by `firn up`, which reads it again whenever it changes. Every setting: docs/configuration.md. Check
# this file: firn doctor. For the tables of a database: firn init --from postgres://… or mysql://…

streams:
  web:                                # POST /v1/streams/web/tables/TABLE
    envelope: rows                    # your own rows, as JSON; debezium for Debezium's events, and others
    tables:
      # users: {to: web.users, key: [id]}    # with a key a later row replaces the earlier one
      '*': {to: 'web.{table}', mode: append}
"""


def stream_name(database: str) -> str:
    """A stream name made of the database's: `Acme Shop` -> `acme-shop`."""
    return re.sub(r"[^a-z0-9_-]+", "-", database.lower()).strip("-_")[:63] or "source"


def firn_yaml(source: Source, address: Address, stream: str) -> str:
    """firn.yaml for all tables of `source`, with keys and the declarations that plain JSON needs."""
    lines = [
        f"# Made by `firn init --from` of database {_one_line(address.database)} ({source.product} {source.version}).",
        "# Yours to change from here on. Every setting: docs/configuration.md. Check this file: firn doctor",
    ]
    if source.unreadable:
        user = _one_line(address.user)
        lines.append(f"# Tables that are not in it, because user {user} may not SELECT from them: {source.unreadable}.")
    lines += [
        "",
        "catalog: {type: sql}              # sql | glue | rest | hive | nessie",
        "# warehouse: s3://bucket/prefix   # left out: the deployment's own; below --dir with `firn up`",
        "",
        "streams:",
        f"  {stream}:",
        "    envelope: debezium",
        "    debezium:                     # as in debezium.properties: change both or neither",
        *(f"      {name}: {value}" for name, value in _modes(source).items()),
        "    tables:",
    ]
    namespaces = _namespaces(source.tables, stream.replace("-", "_"))
    for table in source.tables:
        lines += _rule(table, namespaces[table.schema])
    return "\n".join(lines) + "\n"


def _modes(source: Source) -> dict[str, str]:
    return _DEBEZIUM if source.product == "PostgreSQL" else _DEBEZIUM_BINLOG


def _namespaces(tables: Iterable[SourceTable], for_public: str) -> dict[str, str]:
    """Schema -> namespace: public becomes `for_public` unless another schema is named so; dots become underscores."""
    schemas = {table.schema for table in tables}
    taken: dict[str, str] = {}
    for schema in sorted(schemas, key=lambda schema: (schema == "public", schema)):
        name = for_public if schema == "public" else schema.replace(".", "_")
        while name in taken.values():
            name += "_public" if schema == "public" else "_"
        taken[schema] = name
    return taken


def _rule(table: SourceTable, namespace: str) -> list[str]:
    # {table} where the name itself would not survive: dots and braces mean something in `to`.
    target = table.name if _PLAIN_TABLE.fullmatch(table.name) else "{table}"
    if is_reserved(table.name):
        target = f"t_{target}_"
    lines = [f"      {_yaml(f'{table.schema}.{table.name}')}:", f"        to: {_yaml(f'{namespace}.{target}')}"]
    if table.key:
        why = "" if table.key_from == "primary key" else f"  # {table.key_from}"
        lines.append(f"        key: [{', '.join(_yaml(column) for column in table.key)}]{why}")
    else:
        lines.append("        mode: append                  # no primary key: every change becomes a row")
    if table.identity == "n":
        lines.append("        # REPLICA IDENTITY NOTHING: PostgreSQL sends no updates and no deletes of this table")
    declared = [one for one in table.columns if (one.declared or one.note) and not is_left_out(one.name)]
    if any(column.declared for column in declared):
        lines.append("        columns:")
    for column in declared:
        note = f"  # {column.note}" if column.note else ""
        if column.declared:
            lines.append(f"          {_yaml(column.name)}: {column.declared}{note}")
        else:
            lines.append(f"          # {_one_line(column.name)}{note}")
    return lines


def _yaml(text: str) -> str:
    plain = _YAML_PLAIN.fullmatch(text) and not _YAML_WORDS.fullmatch(text)
    # A JSON string is a YAML string in double quotes; what is not printable is escaped.
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())


def _one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)


def debezium_properties(source: Source, address: Address, stream: str, port: int) -> str:
    """application.properties for Debezium Server (3.2 or later) that sends `source` to a Firn on this machine.

    Holds no password: Debezium Server reads it from the environment (FIRN_SOURCE_PASSWORD).
    """
    settings: list[tuple[str, str]] = [
        ("debezium.sink.type", "http"),
        ("debezium.sink.http.url", f"http://127.0.0.1:{port}/v1/streams/{stream}"),
        ("debezium.sink.http.batch.enabled", "true"),
        ("debezium.sink.http.batch.max-size", "500"),
        ("debezium.sink.http.timeout.ms", "60000"),
        ("debezium.sink.http.retries", "300"),
        ("debezium.sink.http.retry.interval.ms", "1000"),
        ("debezium.format.value", "json"),
        ("debezium.format.value.schemas.enable", "false"),
        ("debezium.format.key", "json"),
        ("debezium.format.key.schemas.enable", "false"),
        ("debezium.format.header.schemas.enable", "false"),
        ("debezium.source.offset.storage.file.filename", "data/offsets.dat"),
        ("debezium.source.offset.flush.interval.ms", "0"),
        ("debezium.source.database.hostname", address.host),
        ("debezium.source.database.port", str(address.port)),
        ("debezium.source.database.user", address.user),
        ("debezium.source.topic.prefix", stream),
        ("debezium.source.table.include.list", _include_list(source.tables)),
        # Truncates are skipped by default, and then the table here keeps rows that the source lost.
        ("debezium.source.skipped.operations", "none"),
        ("debezium.source.heartbeat.interval.ms", "10000"),
        *((f"debezium.source.{name}", value) for name, value in _modes(source).items()),
        *(_postgres if source.product == "PostgreSQL" else _binlog)(source, address, stream),
    ]
    if any(not table.key for table in source.tables):
        # Not provide.transaction.metadata: docs/adr/0019-numbers-in-a-transaction.md
        settings.append(("debezium.source.provide.transaction.metadata", "false"))
    lines = [
        "# Made by `firn init --from`: Debezium Server's application.properties (3.2 or later).",
        "# The password is not in it. Start Debezium Server with it in the environment:",
        f"#   export {PASSWORD_VARIABLE}=...",
        "# Where it starts, make the folder `data`: there it keeps how far it has come. Without that folder it only",
        "# warns, and starts over after a restart.",
    ]
    if source.wal_level != "logical":
        lines += [
            f"# wal_level is {source.wal_level}; before the first start run this and restart PostgreSQL:",
            "#   ALTER SYSTEM SET wal_level = logical;",
        ]
    if source.advice:
        lines += [f"# {source.product}'s binlog is not as Debezium needs it; before the first start:"]
        lines += [f"#   {line}" for line in source.advice]
    lines += [f"{name}={_property(value)}" for name, value in settings]
    lines.append(f"debezium.source.database.password=${{{PASSWORD_VARIABLE}}}")
    return "\n".join(lines) + "\n"


def _postgres(source: Source, address: Address, stream: str) -> list[tuple[str, str]]:
    """What only PostgreSQL's connector has."""
    slot = "firn_" + re.sub(r"[^a-z0-9_]", "_", stream)[:57]
    settings = [
        ("debezium.source.connector.class", "io.debezium.connector.postgresql.PostgresConnector"),
        ("debezium.source.plugin.name", "pgoutput"),
        ("debezium.source.slot.name", slot),
        ("debezium.source.publication.name", slot),
        ("debezium.source.publication.autocreate.mode", "filtered"),
        ("debezium.source.database.dbname", address.database),
    ]
    if address.sslmode != "prefer":
        settings.append(("debezium.source.database.sslmode", address.sslmode))
    if any(table.partitioned for table in source.tables):
        settings.append(("debezium.source.publish.via.partition.root", "true"))
    return settings


# What each connector calls the modes of TLS. MariaDB's has none that goes on without.
_SSL: Final = {
    "MySQL": {"disable": "disabled", "prefer": "preferred", "require": "required", "verify-full": "verify_identity"},
    "MariaDB": {"disable": "disable", "prefer": "disable", "require": "trust", "verify-full": "verify-full"},
}
_CONNECTORS: Final = {
    "MySQL": "io.debezium.connector.mysql.MySqlConnector",
    "MariaDB": "io.debezium.connector.mariadb.MariaDbConnector",
}


def _binlog(source: Source, address: Address, stream: str) -> list[tuple[str, str]]:
    """What only the connectors of MySQL and MariaDB have."""
    return [
        ("debezium.source.connector.class", _CONNECTORS[source.product]),
        # No other replica of the server may have it.
        ("debezium.source.database.server.id", str(10**9 + crc32(stream.encode()) % 10**9)),
        ("debezium.source.database.include.list", _regex(address.database)),
        ("debezium.source.database.ssl.mode", _SSL[source.product][address.sslmode]),
        ("debezium.source.schema.history.internal", "io.debezium.storage.file.history.FileSchemaHistory"),
        ("debezium.source.schema.history.internal.file.filename", "data/schema_history.dat"),
        ("debezium.source.include.schema.changes", "false"),
        # The JSON converter would write a null as the column's default.
        ("debezium.format.value.replace.null.with.default", "false"),
    ]


def _include_list(tables: Sequence[SourceTable]) -> str:
    # A list of regular expressions, parted by commas.
    return ",".join(_regex(f"{table.schema}.{table.name}") for table in tables)


def _regex(text: str) -> str:
    # `\$` is an escape to Debezium Server too, and would arrive as a bare `$`: a class says the same.
    return re.sub(r"([\\.^|?*+()\[\]{},])", r"\\\1", text).replace("$", "[$]")


def _property(value: str) -> str:
    """As java.util.Properties reads it, and with `$` doubled, which Debezium Server would otherwise expand."""
    escaped = value.replace("\\", "\\\\").replace("$", "$$")
    if escaped[:1] in (" ", "\t", "\f"):
        escaped = "\\" + escaped
    pieces = []
    for character in escaped:
        if " " <= character <= "~":
            pieces.append(character)
        else:
            units = character.encode("utf-16-be")
            pieces += [f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)]
    return "".join(pieces)
