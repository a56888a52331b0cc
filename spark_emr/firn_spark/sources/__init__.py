"""A lake's tables for Spark programs, in the same three ways as firn_lake reads them.

>>> from firn_spark import session, sources
>>> spark = session.build("sqlite:////data/catalog.db", "file:///data/warehouse")
>>> sources.batch(spark, "shop.orders", as_of="2026-01-31", where="status = 'paid'")
>>> sources.appended(spark, "shop.events", from_=cursor)
>>> with sources.changes(spark, "shop.orders", "month-end") as rows: ...
"""

from firn.tables.snapshot_history import AsOf, NoSuchMoment
from firn_spark.sources.changes import BadColumn, changes
from firn_spark.sources.moments import NotAppended, NotOneLine
from firn_spark.sources.reading import NoSuchColumn, NoSuchTable, appended, batch

__all__ = [
    "AsOf", "BadColumn", "NoSuchColumn", "NoSuchMoment", "NoSuchTable", "NotAppended", "NotOneLine", "appended",
    "batch", "changes",
]  # fmt: skip
