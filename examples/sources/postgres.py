"""A PostgreSQL of our own for the time of an example: a temporary cluster on loopback, with logical replication on."""

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from examples.sources.processes import Server, ServerFailed, free_port

USER = "bank"


class Postgres:
    """The cluster lives in `folder` and ends with `stop`. `password` is made up, and passed by the environment only."""

    def __init__(self, binaries: Path, folder: Path, database: str) -> None:
        self._binaries, self.folder, self.database = binaries, folder, database
        self.port, self.password = free_port(), secrets.token_urlsafe(18)
        # PostgreSQL refuses to run as root.
        self._user = _other_user() if os.geteuid() == 0 else None
        self._server: Server | None = None

    @property
    def url(self) -> str:
        """For `firn init --from`; the password goes by FIRN_SOURCE_PASSWORD."""
        return f"postgres://{USER}@127.0.0.1:{self.port}/{quote(self.database)}"

    def start(self) -> None:
        """Make the cluster and the database, and wait until it answers. Raises ServerFailed."""
        self.folder.mkdir(parents=True)
        password_file = self.folder / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self.password)
        if self._user:
            shutil.chown(self.folder, self._user)
            shutil.chown(password_file, self._user)
        data = self.folder / "data"
        done = subprocess.run(
            [self._binaries / "initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C",
             "--no-sync", f"--pwfile={password_file}"],
            capture_output=True, text=True, check=False, cwd=self.folder, user=self._user,
        )  # fmt: skip
        password_file.unlink()
        if done.returncode:
            raise ServerFailed(f"initdb failed:\n{done.stderr[-2000:]}")
        # No fsync: this cluster lives as long as the example. Its own server keeps yours.
        settings = {"listen_addresses": "127.0.0.1", "wal_level": "logical", "fsync": "off", "max_wal_size": "2GB"}
        self._server = Server(
            "postgres",
            [self._binaries / "postgres", "-D", data, "-p", str(self.port), "-k", self.folder,
             *(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))],
            self.folder, user=self._user,
        )  # fmt: skip
        self._server.start()
        self._server.wait(self._answers, 60)
        self._psql("postgres", f'CREATE DATABASE "{self.database}"')

    def crash(self) -> None:
        """Kill the server as a machine that dies would; `again` starts it, and it recovers."""
        if self._server is not None:
            self._server.kill()

    def again(self) -> None:
        """Start the server again on the same cluster. Raises ServerFailed."""
        if self._server is None:
            return
        deadline = time.monotonic() + 30
        while True:
            self._server.start()
            try:
                self._server.wait(self._answers, 60)
                return
            except ServerFailed as error:
                # Of one that was killed a process may live on for a moment, in the middle of its work.
                if "is still in use" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def run(self, sql: str) -> None:
        """Run statements, each by itself. Raises ServerFailed with what PostgreSQL says."""
        self._psql(self.database, sql)

    def run_file(self, file: Path, variables: Mapping[str, object]) -> None:
        """Run a script of psql's with its variables. Raises ServerFailed."""
        given = [part for name, value in variables.items() for part in ("-v", f"{name}={value}")]
        self._psql(self.database, file.read_text(), *given)

    def value(self, sql: str) -> str:
        """The one value of a query, as text."""
        return self._psql(self.database, sql).strip()

    def table(self, name: str, file: Path) -> None:
        """All rows of a table into a file: COPY … CSV HEADER, NULL as \\N, times in UTC. `name`: schema.table."""
        schema, _, table = name.partition(".")
        copy = f'COPY "{schema}"."{table}" TO STDOUT (FORMAT csv, HEADER, NULL \'\\N\')'
        with file.open("wb") as rows:  # of any number: memory holds none of them
            self._psql(self.database, copy, to=rows)

    def pgbench(self, *arguments: str | Path, log: Path) -> "subprocess.Popen[bytes]":
        """pgbench with these arguments, on its way; its output goes to `log`."""
        with log.open("ab") as output:
            return subprocess.Popen(
                [self._binaries / "pgbench", *arguments, self.database],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._environment(),
                start_new_session=True,
            )  # fmt: skip

    def stop(self) -> None:
        """Stop the server, connections and all; the folder stays."""
        if self._server is not None:
            self._server.stop(sign=signal.SIGQUIT)  # at once: nobody starts this cluster again

    def _answers(self) -> bool:
        return subprocess.run(
            [self._binaries / "psql", "-XAtqc", "SELECT 1", "postgres"],
            env=self._environment(), capture_output=True, check=False,
        ).returncode == 0  # fmt: skip

    def _psql(self, database: str, sql: str, *arguments: str, to: IO[bytes] | int = subprocess.PIPE) -> str:
        done = subprocess.run(
            [self._binaries / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", *arguments, "-f", "-", database],
            env=self._environment(), input=sql, stdout=to, stderr=subprocess.PIPE, encoding="utf-8", check=False,
        )  # fmt: skip
        if done.returncode:
            raise ServerFailed(f"PostgreSQL refused {' '.join(sql.split())[:200]}\n{done.stderr[-2000:]}")
        return done.stdout or ""

    def _environment(self) -> dict[str, Any]:
        ours = {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": USER, "PGPASSWORD": self.password}
        others = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return {**others, **ours, "PGTZ": "UTC", "PGCLIENTENCODING": "UTF8"}


def _other_user() -> str:
    for name in ("postgres", "nobody"):
        if subprocess.run(["id", name], capture_output=True, check=False).returncode == 0:
            return name
    raise ServerFailed("PostgreSQL does not run as root, and there is no user postgres or nobody: run this as another")
