"""`firn init` as far as it needs no database."""

import socket
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from firn.config.reader import parse
from firn.errors import ConfigError, TransientError
from firn_cli.commands.init import command, init


def test_no_server_is_a_transient_error(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound and not listening: refuses
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(TransientError, match="can't be reached"):
            init(tmp_path, f"postgres://u:hunter2@127.0.0.1:{taken.getsockname()[1]}/d", force=False)


@pytest.mark.parametrize(
    "url",
    ["oracle://u:hunter2@h/d", "postgres://h/d", "postgres://u:hunter2@h:port/d", "postgres://u:hunter2@h", "x",
     "mysql://h/d", "mariadb://u:hunter2@h:port/d", "mysql://u:hunter2@h", "mysql://u:hunter2@h/d?sslmode=maybe"],
)  # fmt: skip
def test_an_address_that_cannot_be_read_is_not_repeated(tmp_path: Path, url: str) -> None:
    shown = "write (postgres|mysql)://user:password@host:(5432|3306)/database|sslmode is one of"
    with pytest.raises(ConfigError, match=shown) as raised:
        init(tmp_path, url, force=False)
    assert "hunter2" not in str(raised.value)


def test_without_from_a_commented_file_that_parses_is_written(tmp_path: Path) -> None:
    (file,) = init(tmp_path / "mine.yaml", None, force=False)
    assert set(parse(file.read_text(encoding="utf-8")).streams) == {"shop"}


def test_the_commented_lines_of_the_first_file_are_settings_too(tmp_path: Path) -> None:
    (file,) = init(tmp_path, None, force=False)
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# What Firn does")
    uncommented = "\n".join(line.replace("# ", "", 1) if line.lstrip().startswith("#") else line for line in lines[1:])
    shop = parse(uncommented).streams["shop"]
    assert (shop.decimal, len(shop.tables), len(shop.tables[0].columns)) == ("string", 3, 2)


def test_a_file_that_is_there_stays_unless_forced(tmp_path: Path) -> None:
    file = tmp_path / "firn.yaml"
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="--force"):
        init(tmp_path, None, force=False)
    assert file.read_text(encoding="utf-8") == "mine"
    init(tmp_path, None, force=True)
    assert "streams:" in file.read_text(encoding="utf-8")


def test_the_command_tells_what_it_wrote_and_fails_with_one(tmp_path: Path) -> None:
    app = Typer()
    app.command()(command)
    runner = CliRunner()
    path = str(tmp_path / "firn.yaml")
    first = runner.invoke(app, ["--config", path])
    assert (first.exit_code, first.stdout.splitlines()[0]) == (0, f"wrote {path}")
    second = runner.invoke(app, ["--config", path])
    assert second.exit_code == 1
    assert "already exists" in second.stderr
