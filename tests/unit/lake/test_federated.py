"""One query over several lakes: shards, and tables of each by name."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import firn_lake
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.federated import Lakes, LakeUnavailable
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.sql.query_errors import QueryError
from firn_lake.tables import TableNotFound


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[Lakes]:
    """Orders in two lakes, of which one has a column more, and customers in one."""

    def made(name: str, **tables: pa.Table) -> firn_lake.Lake:
        folder = tmp_path / name
        folder.mkdir()
        catalog = open_catalog(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", {})
        catalog.create_namespace("shop")
        for table, rows in tables.items():
            catalog.create_table(f"shop.{table}", rows.schema).append(rows)
        return firn_lake.connect(catalog)

    eu = made(
        "eu",
        orders=pa.table({"id": [1, 2], "total": [10, 20], "vat": [2, 4]}),
        customers=pa.table({"id": [1], "name": ["ada"]}),
    )
    us = made("us", orders=pa.table({"id": [2, 3], "total": [200, 300]}))
    with firn_lake.together(eu=eu, us=us) as both:
        yield both


def test_a_name_without_a_lake_is_the_table_of_every_lake_that_has_it(lakes: Lakes) -> None:
    found = lakes.sql("SELECT _lake, count(*) AS n, sum(total) AS total, sum(vat) AS vat FROM shop.orders GROUP BY ALL")
    assert sorted(found.pylist(), key=str) == [
        {"_lake": "eu", "n": 2, "total": 30, "vat": 6},
        {"_lake": "us", "n": 2, "total": 500, "vat": None},
    ]
    assert lakes.sql("SELECT name, _lake FROM customers").pylist() == [{"name": "ada", "_lake": "eu"}]


def test_a_name_with_a_lake_is_a_table_of_that_lake(lakes: Lakes) -> None:
    text = "SELECT e.total AS eu, u.total AS us FROM eu.shop.orders e JOIN us.shop.orders u USING (id) WHERE id = ?"
    assert lakes.sql(text, parameters=[2]).pylist() == [{"eu": 20, "us": 200}]


def test_only_files_that_fit_are_read_of_each_lake(lakes: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    from firn_lake.reading import rows

    read: list[str] = []
    read_file: Callable[..., Iterator[pa.RecordBatch]] = rows.read_file

    def noting(source: object, file: object, *more: object, **named: object) -> Iterator[pa.RecordBatch]:
        read.append(str(file.file_path))  # type: ignore[attr-defined]
        return read_file(source, file, *more, **named)

    monkeypatch.setattr(rows, "read_file", noting)
    assert lakes.sql("SELECT _lake FROM shop.orders WHERE id = 3").pylist() == [{"_lake": "us"}]
    assert len(read) == 1
    assert "/us/" in read[0]


@pytest.mark.parametrize(
    ("sql", "error", "said"),
    [
        ("SELECT * FROM asia.shop.orders", TableNotFound, "there is no lake 'asia', but eu, us"),
        ("SELECT * FROM us.shop.customers", TableNotFound, "tables: shop.orders"),
        ("SELECT * FROM shop.nothing", TableNotFound, r"^eu: no table 'shop.nothing'.*; us: no table"),
        ("SELECT * FROM eu.a.b.orders", QueryError, r'one quoted name, eu\."a\.b"\.orders'),
        ("SELECT 1 FROM shop.orders, eu.shop.orders AS other WHERE wrong = 1", QueryError, "wrong"),
        ("DROP TABLE eu.shop.orders", QueryError, "only reads"),
    ],
)
def test_what_is_wrong_is_told_with_what_there_is(lakes: Lakes, sql: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        lakes.sql(sql)


def test_what_was_read_where_is_told(lakes: Lakes, tmp_path: Path) -> None:
    found = lakes.sql("SELECT _lake, count(*) AS n FROM shop.orders WHERE id > 2 GROUP BY ALL")
    assert found.pylist() == [{"_lake": "us", "n": 1}]
    eu, us = found.plain()
    size = {name: sum(one.stat().st_size for one in (tmp_path / name / "warehouse").rglob("orders/data/*.parquet"))
            for name in ("eu", "us")}  # fmt: skip
    assert (eu["lake"], eu["tables"], eu["files"], eu["bytes"], eu["rows"]) == ("eu", ("shop.orders",), 0, 0, 0)
    assert (us["lake"], us["files"], us["bytes"], us["rows"]) == ("us", 1, size["us"], 2)
    assert us["warehouse"].endswith("/us/warehouse")
    assert us["seconds"] >= 0
    (one,) = lakes.sql("SELECT * FROM eu.shop.orders, eu.shop.customers").reads
    assert (one.lake, one.tables, one.files) == ("eu", ("shop.customers", "shop.orders"), 2)


def test_a_lake_that_does_not_answer_ends_the_query_by_its_name(
    lakes: Lakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = "SELECT count(*) AS n FROM shop.orders"
    (file,) = (tmp_path / "us/warehouse").rglob("*.parquet")
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(UnreadableFile, match=r"^us: .*is missing"):
        lakes.sql(both).pylist()
    assert lakes.sql("SELECT count(*) AS n FROM eu.shop.orders").pylist() == [{"n": 2}]
    file.write_bytes(content)
    us = lakes._lakes["us"].catalog
    for name in ("list_namespaces", "load_table"):
        with monkeypatch.context() as away:
            away.setattr(us, name, lambda *_: (_ for _ in ()).throw(ConnectionError("refused")))
            with pytest.raises(LakeUnavailable, match=r"the lake us can't be read \(ConnectionError: refused\)"):
                lakes.sql(both)
    assert lakes.sql(both).pylist() == [{"n": 4}]


def test_moments_and_names_that_can_not_be_are_refused(lakes: Lakes) -> None:
    with pytest.raises(NoSuchMoment, match="its first kept one is of"):
        lakes.sql("SELECT * FROM shop.orders", "2020-01-01")
    with pytest.raises(QueryError, match="can't be called main"):
        Lakes(main=firn_lake.Lake.__new__(firn_lake.Lake))
    with pytest.raises(QueryError, match="name at least one"):
        firn_lake.together()
