"""Files that lie right in a table's folder, as tables that others made have them, are seen by tiering too."""

from datetime import UTC, datetime
from typing import Any

from firn_lake.tiering.class_port import Listed, Place
from firn_lake.tiering.live import _stored
from firn_lake.tiering.objects import place

WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)


class Bucket:
    """A storage with these objects."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def place(self, url: str) -> Place | None:
        return place(url)

    def listing(self, prefix: Place) -> dict[str, Listed]:
        return {key: Listed(1, WRITTEN, "STANDARD") for key in self.keys if key.startswith(prefix.key)}

    def look(self, where: Place) -> Listed | None:
        return Listed(1, WRITTEN, "STANDARD") if where.key in self.keys else None


def test_a_file_right_in_the_tables_folder_is_there() -> None:
    classes: Any = Bucket("shop/t/a.parquet", "shop/t/data/b.parquet")
    files = ["s3://lake/shop/t/a.parquet", "s3://lake/shop/t/data/b.parquet", "s3://lake/shop/t/data/gone.parquet"]
    assert set(_stored(classes, "s3://lake/shop/t", files)) == set(files[:2])
