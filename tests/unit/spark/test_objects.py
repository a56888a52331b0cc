"""A table's files, by the locations that its metadata has."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from firn_spark import vended_keys
from firn_spark.tables.objects import Objects

AZURE = "abfss://lake@acme.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("table", "opened", "file", "key"),
    [
        (f"{AZURE}/w/t", AZURE, f"{AZURE}/w/t/data/kind=a%2Fb/x.parquet", "w/t/data/kind=a%2Fb/x.parquet"),
        (f"{AZURE}/w/t", AZURE, "wasbs://lake@acme.blob.core.windows.net/w/t/data/x.parquet", "w/t/data/x.parquet"),
        ("wasbs://lake@acme.blob.core.windows.net/w/t", AZURE, f"{AZURE}/w/t/data/x.parquet", "w/t/data/x.parquet"),
        ("s3://lake/t", "s3://lake", "s3a://lake/t/data/x.parquet", "t/data/x.parquet"),
        ("s3://lake/t", "s3://data", "s3://data/from/before/x.parquet", "from/before/x.parquet"),
        ("s3://lake/t", "s3://data", "s3a://data/from/before/x.parquet", "from/before/x.parquet"),
        ("file:///lake/t", "s3://data", "s3://data/x.parquet", "x.parquet"),
    ],
)
def test_a_file_is_found_under_each_name_of_its_storage(
    table: str, opened: str, file: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, asked = MemoryStore(), []
    monkeypatch.setattr(vended_keys, "open_store", lambda url, keys: asked.append(url) or store)
    data = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1]}), data)
    Objects(table).write(file, data.getvalue())
    assert [one["path"] for chunk in store.list() for one in chunk] == [key]
    assert Objects(table).open(file).read().num_rows == 1
    assert set(asked) == {opened}
