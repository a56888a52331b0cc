"""Jobs on a REST catalog that wants OAuth2 tokens: they end in seconds, are taken back, and the endpoint hangs or
refuses."""

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark.homes import commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.rest_catalog import RestServer, rest_server
from tests.soak import few_cases
from tests.token_server import TokenServer

pytestmark = pytest.mark.spark


@pytest.fixture
def server(spark: SparkSession, tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path, spark._jvm) as running:
        running.tokens = TokenServer()
        yield running
        running.tokens.stop()


def lake_at(spark: SparkSession, folder: Path, server: RestServer) -> Lake:
    """As a job of its own: with a session, and so with a catalog and a token, of its own."""
    tokens = server.tokens
    assert tokens is not None
    (folder / "client").write_text(tokens.credential)
    told = {"firn.credential": f"file:{folder}/client", "oauth2-server-uri": tokens.url, "firn.answer-seconds": "2"}
    own = "&".join(f"{name}={quote(value)}" for name, value in told.items())
    return Lake(spark, folder, config(), catalog_uri=f"{server.url}#{own}")


def values(lake: Lake) -> dict[int, str]:
    return {row["id"]: row["v"] for row in lake.rows("lake.t")}


@pytest.mark.parametrize("home", ["driver", "slices"])
def test_a_job_outlives_its_tokens_and_gets_new_ones_as_it_got_the_first(
    spark: SparkSession, tmp_path: Path, server: RestServer, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.tokens is not None
    commit_in(home, monkeypatch)
    server.tokens.lives = 2
    lake = lake_at(spark, tmp_path, server)
    began = time.monotonic()
    for n in range(3):
        lake.land([event("c", 10 + n, {"id": n, "v": f"v{n}"})])
        time.sleep(max(0.0, 1.5 * (n + 1) - (time.monotonic() - began)))
    assert values(lake) == {0: "v0", 1: "v1", 2: "v2"}
    assert {form["grant_type"] for form in server.tokens.asked} == {"client_credentials"}
    assert len(server.tokens.asked) > 3


@pytest.mark.parametrize("home", ["driver", "slices"])
def test_a_token_that_is_taken_back_fails_the_run_in_passing_and_the_next_run_has_another(
    spark: SparkSession, tmp_path: Path, server: RestServer, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No table is held for it: it is not at fault. The text says what to set, should it be no accident."""
    assert server.tokens is not None
    commit_in(home, monkeypatch)
    lake = lake_at(spark, tmp_path, server)
    lake.land([event("c", 10, {"id": 1, "v": "a"})])
    lake.post([event("u", 20, {"id": 1, "v": "b"})])
    n = lake.seal()
    server.tokens.forget()
    assert lake.commit(n) == 1
    said = " ".join(str(line.get("error")) for line in lake.lines)
    assert "PYICEBERG_CATALOG__FIRN__CREDENTIAL" in said, lake.lines
    assert server.tokens.secret not in said
    assert {line.get("failure") for line in lake.lines} <= {None, "transient"}
    lake = lake_at(spark, tmp_path, server)
    assert lake.commit(n) == 0, lake.lines
    assert values(lake) == {1: "b"}


@few_cases(1)
@pytest.mark.parametrize("home", ["driver", "slices"])
@pytest.mark.parametrize("how", ["hangs", "refuses", "fails"])
def test_a_job_that_gets_no_token_ends_in_time_and_commits_nothing(
    spark: SparkSession, tmp_path: Path, server: RestServer, how: str, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.tokens is not None
    commit_in(home, monkeypatch)
    lake = lake_at(spark, tmp_path, server)
    lake.post([event("c", 10, {"id": 1, "v": "a"})])
    n = lake.seal()
    server.tokens.hangs, server.tokens.status = how == "hangs", {"refuses": 401, "fails": 500}.get(how)
    began = time.monotonic()
    assert lake.commit(n) == 1
    assert time.monotonic() - began < 60
    said = " ".join(str(line.get("error")) for line in lake.lines)
    if how == "refuses":
        assert "PYICEBERG_CATALOG__FIRN__CREDENTIAL" in said, lake.lines
    assert server.tokens.secret not in said
    assert {line.get("failure") for line in lake.lines} <= {None, "transient"}, lake.lines
    server.tokens.hangs, server.tokens.status = False, None
    lake = lake_at(spark, tmp_path, server)
    assert lake.commit(n) == 0, lake.lines
    assert values(lake) == {1: "a"}
