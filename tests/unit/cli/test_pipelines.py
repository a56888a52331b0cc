"""`firn pipelines`, `try` and `history` as people call them, over a staging area in files. And `firn publish`."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from firn.dispatch.dispatcher import Terms, dispatch
from firn.ingest.accept import accept
from firn.log import published_configs
from firn.log.store import Store
from firn_cli.main import main

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SQL = "INSERT INTO web.clean SELECT id, lower(name) AS name, UNNEST(items) AS item FROM clicks WHERE id > 0"
CONFIG = """
streams:
  web:
    envelope: rows
    tables:
      clicks: {{to: web.clicks, mode: append, columns: {{items: list<long>}}}}
      people: {{to: web.people, key: [id]}}
    pipelines:
      clean:
        sql: {sql}
      adults:
        mode: mirror
        sql: INSERT INTO web.adults SELECT id, name FROM people WHERE age >= 18
      raw: {{sql: SELECT * FROM clicks, files: {{to: 's3://archive/clicks'}}}}
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, addresses: dict[str, str]) -> Run:
    """Runs a command on the folder -> (exit code, standard output, standard error)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--dir", str(tmp_path)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def stream(store: Store) -> Callable[..., None]:
    """Publishes the configuration with that SQL, and stages rows of clicks; `sealed`: in an epoch of their own."""
    when = [NOW]

    def send(*rows: dict[str, Any], sql: str = SQL, table: str = "clicks", sealed: bool = False) -> None:
        config = published_configs.publish(store, CONFIG.format(sql=sql))
        when[0] += timedelta(minutes=1)
        if rows:
            accept(store, config, "web", json.dumps(rows).encode(), now=when[0], table=table)
        if sealed:
            dispatch(store, "web", None, now=when[0], terms=Terms(config.sha), force=True)

    return send


def test_the_pipelines_are_listed_with_source_target_mode_and_version(run: Run, stream: Callable[..., None]) -> None:
    stream()
    code, out, _ = run("pipelines", "--json")
    told = json.loads(out)
    assert code == 0
    assert [(one["pipeline"], one["source"], one["target"], one["mode"]) for one in told] == [
        ("clean", "clicks", "web.clean", "append"),
        ("adults", "people", "web.adults", "mirror"),
        ("raw", "clicks", "s3://archive/clicks", "files"),
    ]
    code, out, _ = run("pipelines")
    assert "clean" in out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80


def test_a_trial_shows_rows_types_counts_and_rejects(run: Run, stream: Callable[..., None], tmp_path: Path) -> None:
    stream({"id": 1, "name": "OLD", "items": [1]}, sealed=True)
    stream({"id": 2, "name": "Ann", "items": [1, 2]}, {"id": 0, "name": "No", "items": [3]}, {"id": 3, "name": "x"})
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    code, out, err = run("pipelines", "try", "clean", "--json")
    assert err == ""
    assert code == 0
    told = json.loads(out)
    assert (told["events"], told["rows_out"], told["without_rows"], told["rejected"]) == (4, 3, 2, 0)
    assert told["columns"] == {"id": "int64", "name": "string", "item": "int64"}
    assert told["rows"][0] == {"id": 1, "name": "old", "item": 1}
    assert [row["item"] for row in told["rows"][1:]] == [1, 2]
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before

    code, out, err = run("pipelines", "try", "web.clean", "--last", "3")
    assert "3 events: 2 rows, 2 without rows, 0 rejected" in err
    assert "name=ann" in out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80


def test_another_sql_is_compared_with_the_current_one(run: Run, stream: Callable[..., None], tmp_path: Path) -> None:
    stream(*({"id": id_, "name": name, "items": [1]} for id_, name in enumerate(["a", "7", "8", None])))
    new = tmp_path / "new.sql"
    new.write_text("INSERT INTO web.clean\nSELECT id, CAST(name AS INTEGER) AS name, lower(nick) AS nick FROM clicks\n")
    code, out, err = run("pipelines", "try", "clean", "--sql", str(new), "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert (told["rows_out"], told["rejected"], told["unseen"]) == (3, 1, ["nick"])
    assert "Could not convert string 'a' to INT32" in next(iter(told["reasons"]))
    assert told["changes"] == {
        "columns_new": ["nick"],
        "columns_gone": ["item"],
        "columns_retyped": {"name": "string -> int32"},
        "rows_before": 3,
        "rows_after": 3,
        "events_that_differ": 3,
        "rejected_before": 0,
    }
    _, _, err = run("pipelines", "try", "clean", "--sql", str(new))
    assert "against the current version: 3 events give other rows; 3 -> 3 rows; new columns nick; without item" in err


def test_sql_that_is_refused_names_file_line_and_column(run: Run, stream: Callable[..., None], tmp_path: Path) -> None:
    stream({"id": 1})
    new = tmp_path / "new.sql"
    new.write_text("INSERT INTO web.clean\nSELECT sum(id) AS n FROM clicks")
    code, _, err = run("pipelines", "try", "clean", "--sql", str(new))
    assert (code, f"{new}:2:8: sum looks at several rows" in err) == (1, True)
    new.write_text("INSERT INTO web.adults SELECT lower(name) AS name FROM people")
    code, _, err = run("pipelines", "try", "adults", "--sql", str(new))
    assert (code, "the key column id does not pass through unchanged" in err) == (1, True)
    new.write_text("INSERT INTO web.clean SELECT id + name AS x FROM clicks")
    stream({"id": 1, "name": "x"})
    code, _, err = run("pipelines", "try", "clean", "--sql", str(new))
    assert (code, "Binder Error" in err or "Conversion" in err or "rejected" in err) in ((1, True), (0, True))


def test_a_pipeline_that_is_not_there_names_those_that_are(run: Run, stream: Callable[..., None]) -> None:
    stream()
    code, _, err = run("pipelines", "try", "clear")
    assert (code, "there is no pipeline 'clear': the configuration has web.adults, web.clean, web.raw" in err) == (
        1,
        True,
    )
    _, _, err = run("pipelines", "try", "clean")
    assert "no event of its source is staged" in err


def test_the_history_has_each_version_with_its_epochs(run: Run, stream: Callable[..., None]) -> None:
    for sql in (SQL, SQL, SQL.replace("lower", "upper")):
        stream({"id": 1, "name": "a", "items": [1]}, sql=sql, sealed=True)
    stream(sql="INSERT INTO web.clean SELECT id FROM clicks")
    code, out, _ = run("pipelines", "history", "clean", "--json")
    told = json.loads(out)
    assert code == 0
    assert [one["epochs"] for one in told] == ["none yet", "3 to 3", "1 to 2"]
    assert len({one["version"] for one in told}) == 3
    code, out, _ = run("pipelines", "history", "web.clean")
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 100


def test_publishing_a_file_checks_its_sql(run: Run, stream: Callable[..., None], tmp_path: Path) -> None:
    stream()
    file = tmp_path / "firn.yaml"
    file.write_text(CONFIG.format(sql="INSERT INTO web.clean SELECT getenv('HOME') AS home FROM clicks"))
    code, _, err = run("publish", str(file))
    assert code == 1
    assert f"{file}:10: streams.web.pipelines.clean.sql: line 1, column 30: getenv tells of the machine" in err
    file.write_text(CONFIG.format(sql=SQL))
    assert run("publish", "--config", str(file))[0] == 0
