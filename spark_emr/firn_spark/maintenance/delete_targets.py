"""Which data files a file of position deletes names."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import pyarrow.compute as pc

from firn_spark.tables.objects import Objects

_BATCH: Final = 100_000  # rows: as text, a path a row, all at once would take a hundred times the memory


def paths_in(objects: Objects, location: str) -> Mapping[str, int]:
    """Data file -> how many of its rows a Parquet file of deletes takes. Raises LostRace if the file is gone,
    StorageUnavailable."""
    found: Counter[str] = Counter()
    with objects.open(location) as file:
        for batch in file.iter_batches(batch_size=_BATCH, columns=["file_path"]):
            for one in pc.value_counts(batch.column(0)).to_pylist():
                found[one["values"]] += one["counts"]
    return found
