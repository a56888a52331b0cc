"""A MariaDB of our own for the time of an example: a temporary server on loopback with a binlog of rows and GTIDs."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from examples.sources.processes import Server, ServerFailed, free_port

USER = "cdc"


@dataclass(frozen=True)
class Programs:
    """MariaDB's programs. `server`: mariadbd; `install`: mariadb-install-db."""

    server: Path
    install: Path


class MariaDb:
    """The server lives in `folder` and ends with `stop`. `programs`: its mariadbd and mariadb-install-db. `password` is
    made up, and passed by the environment only. `server_id`: which server of a replication this is."""

    def __init__(self, programs: Programs, folder: Path, database: str, server_id: int = 7) -> None:
        self.folder, self.database = folder, database
        self._programs = programs
        self.port, self.password = free_port(), secrets.token_urlsafe(18)
        # It refuses to run as root.
        self._user = "mysql" if os.geteuid() == 0 else None
        settings = {
            # Its own: a server that starts deletes the temporary tables of all others from a folder that they share.
            "tmpdir": folder,
            "datadir": folder / "data", "port": self.port, "bind-address": "127.0.0.1", "socket": folder / "socket",
            "pid-file": folder / "pid", "log-bin": "binlog", "server-id": server_id, "binlog-format": "ROW",
            "binlog-row-image": "FULL", "binlog-row-metadata": "FULL", "gtid-strict-mode": "ON",
            "character-set-server": "utf8mb4", "innodb-buffer-pool-size": "64M", "performance-schema": "OFF",
            "max-binlog-size": "4M", "default-time-zone": "+00:00", "skip-name-resolve": "ON",
        }  # fmt: skip
        command: list[str | Path] = [programs.server, "--no-defaults"]
        command += [f"--{name}={value}" for name, value in settings.items()]
        self._server = Server("mariadb", command, folder, user=self._user)

    @property
    def url(self) -> str:
        """For `firn init --from`; the password goes by FIRN_SOURCE_PASSWORD."""
        return f"mysql://{USER}@127.0.0.1:{self.port}/{quote(self.database)}"

    def start(self) -> None:
        """Make the database and its user, and wait until it answers. Raises ServerFailed."""
        self.folder.mkdir(parents=True)
        if self._user:
            shutil.chown(self.folder, self._user, self._user)
        done = subprocess.run(
            [self._programs.install, "--no-defaults", f"--datadir={self.folder / 'data'}", "--skip-test-db",
             "--auth-root-authentication-method=normal", *([f"--user={self._user}"] if self._user else [])],
            capture_output=True, text=True, check=False, cwd=self.folder,
        )  # fmt: skip
        if done.returncode:
            raise ServerFailed(f"mariadb-install-db failed:\n{(done.stdout + done.stderr)[-2000:]}")
        self._server.start()
        self._server.wait(self._answers, 60)
        self.run_as_root(
            f"CREATE DATABASE `{self.database}`",
            f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{self.password}'",
            f"GRANT ALL ON *.* TO {USER}@'127.0.0.1'",
        )

    def run_as_root(self, *statements: str) -> None:
        """Run statements as the server's own administrator, by its socket. Raises ServerFailed."""
        self._run(self._connect(unix_socket=str(self.folder / "socket"), user="root"), statements)

    def connect(self) -> Any:
        """A connection to the database, with each statement a transaction. Raises ServerFailed."""
        where = {"host": "127.0.0.1", "port": self.port, "user": USER, "password": self.password}
        return self._connect(**where, database=self.database)

    def run(self, *statements: str) -> None:
        """Run statements, each by itself. Raises ServerFailed with what MariaDB says."""
        self._run(self.connect(), statements)

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query. Raises ServerFailed."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, values or None)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def restart(self) -> None:
        """SIGKILL, and a new start: InnoDB recovers, the binlog goes on in a new file."""
        self._server.kill()
        self._server.start()
        self._server.wait(self._answers, 60)

    def stop(self) -> None:
        """Stop the server; the folder stays."""
        self._server.stop(30)

    def _run(self, connection: Any, statements: Sequence[str]) -> None:
        import pymysql

        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    try:
                        cursor.execute(statement)
                    except pymysql.err.MySQLError as error:
                        said = f"MariaDB refused {' '.join(statement.split())[:200]}: {error}"
                        raise ServerFailed(said) from error
        finally:
            connection.close()

    @staticmethod
    def _connect(**where: Any) -> Any:
        import pymysql

        try:
            return pymysql.connect(**where, charset="utf8mb4", autocommit=True, connect_timeout=10, ssl_disabled=True)
        except pymysql.err.MySQLError as error:
            raise ServerFailed(f"MariaDB does not answer: {error}") from error

    def _answers(self) -> bool:
        try:
            self._connect(unix_socket=str(self.folder / "socket"), user="root").close()
        except ServerFailed:
            return False
        return True
