"""What the page of catalogs says of pairs of catalog and storage is what `make demo` runs and refuses."""

from pathlib import Path

import pytest

from firn.config.catalogs import KINDS
from tests.demo import main
from tests.demo_pairs import CATALOGS, PAIRS, STORAGES, refusal, table


def test_the_page_of_catalogs_has_the_pairs_as_they_are_run() -> None:
    page = (Path(__file__).parents[3] / "docs/catalogs.md").read_text()
    assert "\n".join(table()) in page


def test_each_pair_is_run_or_refused_with_its_reason() -> None:
    assert {catalog for catalog, storage in PAIRS if refusal(catalog, storage)} == {"nessie"}
    assert set(CATALOGS) == set(KINDS) - {"glue"}
    assert len(PAIRS) == len(CATALOGS) * len(STORAGES)


@pytest.mark.parametrize("storage", STORAGES)
def test_the_reason_says_where_streams_can_write(storage: str) -> None:
    assert "sql, glue, rest or hive" in str(refusal("nessie", storage))


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (["--catalog", "rest", "--keep"], "KEEP=1 is for demos without CATALOG"),
        (["--storage", "file", "--mixed"], "--mixed is for azure and gcs"),
        (["--catalog", "nessie"], "Firn only reads from it"),
    ],
)
def test_what_contradicts_itself_is_said_before_anything_starts(
    told: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(told) == 2
    shown = capsys.readouterr()
    assert (said in shown.err, shown.out) == (True, "")
