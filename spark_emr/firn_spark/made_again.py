"""Tables that are made of other tables, all of each made again at once: mirrors that pipelines make, and views."""

from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from firn.config.model import Config
from firn.config.names import TableName
from firn.config.views import View
from firn.log import cuts
from firn.log.store import Store
from firn.rebuild.plan import CannotRebuild, not_of_the_log
from firn.tables.outcome import Outcome
from firn.tables.routing import mirrors_on
from firn.views.view_sources import sources_of
from firn_spark.following import follow
from firn_spark.table_commit import RangeContext
from firn_spark.tables.evolve import Tables


def made_again(
    spark: SparkSession,
    store: Store,
    warehouse: str,
    tables: Tables,
    config: Config,
    table: TableName,
    *,
    in_place: bool,
) -> Outcome | None:
    """A pipeline's mirror or a view, all of it made again out of what it rests on; None if the table is neither. Raises
    CannotRebuild."""
    why = not_of_the_log(config, table)
    if why is None:
        return None
    if not in_place:
        raise CannotRebuild(why)
    for stream, settings in config.streams.items():
        context = RangeContext(spark, store, stream, settings, warehouse, {}, 0, tables)
        for pipeline, base, target in mirrors_on(settings):
            if target == table:
                outcome = follow(context, pipeline, base, whole=True)
                if outcome is None:
                    raise CannotRebuild(f"there is no {base}, on which {table} rests")
                return outcome
        for view in settings.views:
            if view.table == table:
                return _refreshed(context, config, view)
    return None


def _refreshed(context: RangeContext, config: Config, view: View) -> Outcome:
    from firn_spark.views.refreshed import refresh  # loads DuckDB

    sources = sources_of(config, context.stream)
    outcome = None
    if sources is not None:
        streams = sources.streams_below(view)
        newest = {name: cut for name in streams if (cut := cuts.last(context.store, name)) is not None}
        at = replace(sources.cut_of(view, newest), now=datetime.now(UTC))
        outcome = refresh(context, view, at, whole=True)
    if outcome is None:
        read = " and ".join(map(str, view.sources))
        raise CannotRebuild(f"there is no cut yet that has {read}, which {view.table} reads")
    return outcome
