"""The parts of an example, wired as a user would: PostgreSQL, Debezium Server, `firn up`, and `firn init --from`."""

import base64
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from examples.sources.debezium import DebeziumServer
from examples.sources.fetching import ROOT
from examples.sources.firn_up import FirnUp
from examples.sources.postgres import Postgres
from examples.sources.processes import ServerFailed
from firn_demo.comparing import Comparison, compare
from firn_lake.catalogs.stack_catalog import catalog_of
from firn_lake.tables import find_table

Sink = Literal["http", "sqs", "kafka"]
STREAM = "bank"
USERS = "users"
SIGNALS = "public.debezium_signal"
TABLES = ("orders", "pgbench_accounts", "pgbench_tellers", "pgbench_branches", "pgbench_history")
FILES = ROOT / "examples" / "postgres-debezium"
LOAD = FILES / "load.sql"
_CLIENTS = 4


class Bank:
    """All parts in one folder. `start`, and `stop` whatever happens. `signed`: the stream takes signed requests only.
    `kafka`: the broker's address, where Debezium Server writes to Kafka."""

    def __init__(
        self,
        folder: Path,
        postgres: Path,
        java: Path,
        program: Path,
        sink: Sink,
        *,
        signed: bool = False,
        kafka: str = "",
    ) -> None:
        self.folder, self.sink, self.signed, self._binaries, self._kafka = folder, sink, signed, postgres, kafka
        folder.chmod(0o755)  # PostgreSQL may run as another user
        self.postgres = Postgres(postgres, folder / "postgres", STREAM)
        self.firn = FirnUp(folder / "firn", queue_stream=STREAM if sink == "sqs" else None)
        self._secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        self.secret_file = folder / "sender-secret"
        environment = {"FIRN_SOURCE_PASSWORD": self.postgres.password, "FIRN_WEBHOOK_SECRET": self._secret}
        environment |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}  # the embedded stack's
        self.debezium = DebeziumServer(program, java, folder / "debezium", environment)
        self.debezium_ended: list[str] = []  # why it ended by itself, each time, and was started again
        self._wanted = False

    def start(self, accounts: int) -> None:
        """The database with its tables, Firn with a configuration made from them, then Debezium Server, which begins
        with a snapshot. Raises ServerFailed, FirnError."""
        self.postgres.start()
        made = self.postgres.pgbench("-i", "-I", "dtp", log=self.folder / "pgbench.log")
        if made.wait(60):
            raise ServerFailed(f"pgbench -i failed: see {self.folder / 'pgbench.log'}")
        self.postgres.run_file(FILES / "bank.sql", {"accounts": accounts})
        self._init()
        self.firn.start()
        self.debezium.configure((self.firn.folder / "debezium.properties").read_text(), self._properties())
        self.debezium.start()
        self._wanted = True

    def stop(self) -> None:
        """End everything; the folder stays."""
        self._wanted = False
        for part in (self.debezium, self.firn, self.postgres):
            with suppress(Exception):  # the others are stopped too, whatever one of them does
                part.stop()

    def load(self, transactions: int, rate: float, accounts: int) -> "subprocess.Popen[bytes]":
        """pgbench on its way: so many transactions in all, at most `rate` a second."""
        each = str(max(1, transactions // _CLIENTS))
        return self.postgres.pgbench(
            "-n", "-f", LOAD, "-c", str(_CLIENTS), "-j", "1", "-t", each, "-R", str(rate), "-D", f"accounts={accounts}",
            log=self.folder / "pgbench.log",
        )  # fmt: skip

    def transactions(self) -> int:
        """How many of pgbench's transactions are committed."""
        return int(self.postgres.value("SELECT count(*) FROM pgbench_history"))

    def changes(self) -> int:
        """Rows inserted, updated and deleted since the database was made, as PostgreSQL counts them."""
        time.sleep(1.5)  # a session tells its counts within a second
        counted = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"
        return int(self.postgres.value(f"{counted} WHERE relname <> 'debezium_signal'"))

    def supervise(self) -> None:
        """Start Debezium Server again if it has ended by itself, as a service manager would."""
        if self._wanted and not self.debezium.running:
            self.debezium_ended.append(self.debezium.last_error())
            self.debezium.start()

    def kill_debezium(self) -> None:
        """SIGKILL, and a new start."""
        self.debezium.kill()
        self.debezium.start()

    def restart_firn(self) -> str:
        """SIGKILL of `firn up` and a new start, where requests come again. A queue of the embedded stack is in its
        memory, unlike one of SQS: there only the functions are killed. -> what was done."""
        if self.sink == "sqs":
            return f"{self.firn.kill_functions()} processes of Firn's functions killed"
        self.firn.kill()
        self.firn.start()
        return "Firn's function host killed and started again"

    def delivered(self, signal: str, report: Callable[[str], None], seconds: float = 900) -> None:
        """Wait until Debezium Server has handed over every change made until now, and read again what `signal` (the
        last one's id, "" for none) and those before it ask for. Raises ServerFailed after so many `seconds`."""
        deadline = time.monotonic() + seconds
        if signal:
            done = self.debezium.has_read_again
            self._until("tables to be read again", deadline, report, lambda: "" if done(signal) else signal)
        # A message in the log, which no table sees: something new for Debezium to confirm.
        message = "SELECT pg_logical_emit_message(true, 'firn-example', '')"
        target = _lsn(self.postgres.value(message))

        def behind() -> str:
            self.postgres.run(message)
            missing = target - _lsn(self.postgres.value("SELECT confirmed_flush_lsn FROM pg_replication_slots"))
            return f"{missing:,} bytes of log" if missing > 0 else ""

        self._until("changes to be handed over", deadline, report, behind)

    def _until(self, what: str, deadline: float, report: Callable[[str], None], left: Callable[[], str]) -> None:
        while waiting := left():
            if time.monotonic() > deadline:
                raise ServerFailed(f"still waiting for {what}: {waiting}; see {self.debezium.log}")
            report(f"waiting for {what}: {waiting}")
            self.supervise()
            time.sleep(1)

    def compare(self) -> list[Comparison]:
        """Each row of each table in Iceberg against PostgreSQL's own."""
        catalog, compared = catalog_of(self.firn.stack()), []
        for name in TABLES:
            final = self.folder / f"{name}.csv"
            self.postgres.table(f"public.{name}", final)
            table = find_table(catalog, f"{STREAM}.{name}").scan().to_arrow()
            with final.open(encoding="utf-8") as file:
                columns = file.readline().rstrip("\n").split(",")
            # A column that the source dropped stays in the table, for readers of the past; no row has a value there.
            gone = [c for c in table.column_names if c not in columns and table.column(c).null_count == table.num_rows]
            table = table.drop_columns(gone)
            # One in which no row ever had a value is not in the table yet: nothing has told its type.
            for column in columns:
                if column not in table.column_names:
                    table = table.append_column(column, pa.nulls(table.num_rows, pa.string()))
            compared.append(compare(name, table, final))
        return compared

    def users(self) -> dict[int, int]:
        """The rows of the users' table: key, version."""
        table = find_table(catalog_of(self.firn.stack()), f"{USERS}.{USERS}").scan().to_arrow()
        return dict(zip(table.column("id").to_pylist(), table.column("v").to_pylist(), strict=True))

    def run_firn(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """The firn command on this stack."""
        command = [sys.executable, "-m", "firn_cli.main", *arguments]
        environment = {**os.environ, "FIRN_SOURCE_PASSWORD": self.postgres.password}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    def _init(self) -> None:
        done = self.run_firn(
            "init", "--from", self.postgres.url, "--config", str(self.firn.config), "--port", str(self.firn.port)
        )
        if done.returncode:
            raise ServerFailed(done.stderr)
        if self.signed:
            self.secret_file.touch(mode=0o600)
            self.secret_file.write_text(self._secret)
        self.firn.edit(self._configure)

    def _configure(self, config: dict[str, Any]) -> None:
        """What the owner adds to what `firn init` found."""
        stream = config["streams"][STREAM]
        stream["commit"] = {"every": "15s"}
        stream["tables"][SIGNALS] = {"ignore": True}
        if self.sink == "kafka":
            stream["kafka"] = {"topics": [f"{STREAM}.*"], "cluster": self._kafka}
            # Somebody's rows beside it, whose order nobody knows but Kafka.
            config["streams"][USERS] = {
                "envelope": "rows",
                "commit": {"every": "15s"},
                "kafka": {"topics": [USERS], "cluster": self._kafka, "order": "timestamp"},
                "tables": {USERS: {"to": f"{USERS}.{USERS}", "key": ["id"], "columns": {"id": "long", "v": "long"}}},
            }
        if self.signed:
            stream["auth"] = {"by": "signature", "secret": f"file:{self.secret_file}"}

    def _properties(self) -> Mapping[str, str]:
        properties = {"debezium.source.signal.data.collection": SIGNALS}
        match self.sink:
            case "sqs":
                # SQS takes no empty message, which a tombstone would be.
                properties |= {
                    "debezium.sink.type": "sqs",
                    "debezium.sink.sqs.region": "us-east-1",
                    "debezium.sink.sqs.endpoint": self.firn.aws_endpoint(),
                    "debezium.sink.sqs.queue.url": next(iter(self.firn.stack().ingress_queues().values())),
                    "debezium.source.tombstones.on.delete": "false",
                    # It logs each message at INFO.
                    'quarkus.log.category."io.debezium.server.sqs".level': "WARN",
                }
            case "kafka":
                serializer = "org.apache.kafka.common.serialization.StringSerializer"
                properties |= {
                    "debezium.sink.type": "kafka",
                    "debezium.sink.kafka.producer.bootstrap.servers": self._kafka,
                    "debezium.sink.kafka.producer.key.serializer": serializer,
                    "debezium.sink.kafka.producer.value.serializer": serializer,
                }
            case "http" if self.signed:
                properties |= {
                    "debezium.sink.http.authentication.type": "standard-webhooks",
                    "debezium.sink.http.authentication.webhook.secret": "${FIRN_WEBHOOK_SECRET}",
                }
        return properties


def _lsn(text: str) -> int:
    """PostgreSQL's name of a place in its log, as a number."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)
