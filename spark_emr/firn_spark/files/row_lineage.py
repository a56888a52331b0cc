"""Which row is which, in tables of Iceberg's format 3: a row that is only written again keeps its id, and the sequence
number of the commit that changed it last (https://iceberg.apache.org/spec/#row-lineage)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from firn.config.file_writing import OLDEST_FORMAT
from firn_spark.files import values
from firn_spark.files.write import Layout
from firn_spark.tables.evolve import Table
from firn_spark.tables.writing import LAST_UPDATED, ROW_ID

# Iceberg's reserved fields. Null in a file: the row's place after the file's first id, and the file's own number.
_IDS: Final[Mapping[int, str]] = {2147483540: ROW_ID, 2147483539: LAST_UPDATED}
_FIELDS: Final = tuple(
    values.file_field({"name": name, "id": number, "type": "long", "required": False}) for number, name in _IDS.items()
)


@dataclass(frozen=True)
class Lineage:
    """What rows of a data file have that do not say so themselves: the id of the `first`, and the `sequence` number;
    None: none yet. Goes to other processes."""

    first: int | None
    sequence: int | None

    def cells(self, rows: pa.Table, there: Mapping[int, str], number: int, places: pa.Array) -> pa.ChunkedArray:
        """The field with this id of some rows of the file, whose `places` in it these are. `there`: names in the file
        by id."""
        said = rows[there[number]] if number in there else pa.chunked_array([pa.nulls(len(rows), pa.int64())])
        if _IDS[number] == LAST_UPDATED:
            return pc.coalesce(said, pa.scalar(self.sequence, pa.int64()))
        return said if self.first is None else pc.coalesce(said, pa.chunked_array([pc.add(places, self.first)]))


NO_LINEAGE: Final = Lineage(None, None)


def is_of(number: int) -> bool:
    """Whether a field with this id is one of these."""
    return number in _IDS


def lineage_of(file: Any) -> Lineage:
    """Of an org.apache.iceberg.DataFile."""
    first, sequence = file.firstRowId(), file.dataSequenceNumber()
    return Lineage(None if first is None else int(first), None if sequence is None else int(sequence))


def with_lineage(layout: Layout, table: Table) -> Layout:
    """The layout of files that hold rows of other files again."""
    return replace(layout, fields=(*layout.fields, *_FIELDS)) if table.state.version > OLDEST_FORMAT else layout
