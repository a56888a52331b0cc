"""What is said of columns that were renamed, made again, or came with a default."""

from datetime import timedelta

import msgspec
import obstore.store

from firn.log.layout import pull_columns_path
from firn.log.store import put
from firn.sources.column_watch import NumberedColumn, compared, notes_of
from firn.sources.postgres.row_form import SourceColumn
from firn.sources.pull import pull
from tests.unit.sources.test_pull import CONFIG, START, inserts, task_of
from tests.unit.sources.wal import ITEMS, Wal

BEFORE = {1: "id", 2: "v", 3: "w"}


def said(*now: NumberedColumn) -> list[str]:
    return [text.partition(":")[0] for text in compared(BEFORE, now)]


def test_numbers_tell_what_became_of_a_column() -> None:
    id, v, w = (NumberedColumn(*one) for one in BEFORE.items())
    assert said(id, v, w) == []
    assert said(id, v, w, NumberedColumn(4, "x")) == []
    assert said(id, v) == []
    assert said(id, NumberedColumn(2, "x"), w) == ["column v is called x now"]
    assert said(id, v, NumberedColumn(4, "w")) == ["column w was dropped and made again"]
    assert said(id, v, w, NumberedColumn(4, "x", filled=True)) == ["column x came with a default"]
    assert said(id, NumberedColumn(2, "w"), NumberedColumn(3, "v")) == [
        "column v is called w now",
        "column w is called v now",
    ]


def test_a_pull_notes_it_once_and_only_what_the_database_still_calls_so() -> None:
    log, store = Wal(), obstore.store.MemoryStore()

    def noted() -> list[tuple[str, str]]:
        return [(note.table, note.text.partition(":")[0]) for note in notes_of(store, "shop", "shop", START)]

    inserts(log, 1, 1)
    pull(task_of(store), CONFIG, log)
    log.numbered = [NumberedColumn(1, "id"), NumberedColumn(2, "u"), NumberedColumn(3, "v")]
    inserts(log, 2, 1)  # still as (id, v): which of the two v it was is not known
    log.tables[ITEMS.oid] = msgspec.structs.replace(ITEMS, columns=(SourceColumn("id", 23), SourceColumn("t", 25)))
    pull(task_of(store), CONFIG, log)
    assert noted() == []
    log.tables[ITEMS.oid] = msgspec.structs.replace(ITEMS, columns=(SourceColumn("id", 23), SourceColumn("u", 25)))
    for number in (3, 4):
        inserts(log, number, 1)
        pull(task_of(store), CONFIG, log)
    assert noted() == [("public.items", "column v is called u now")]
    assert notes_of(store, "shop", "shop", START + timedelta(days=30)) == []
    put(store, pull_columns_path("shop", "shop"), b"{")
    assert noted() == []
