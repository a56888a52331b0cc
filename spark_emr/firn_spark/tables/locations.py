"""Where the tables of the catalog have their files.

Of Glue only the catalog is asked: Iceberg writes a table's location into Glue's entry at each commit, and
the places of `write.data.path` and its like beside it (IcebergToGlueConverter). So nothing of another's table is read,
which the job may not, and tables that are no Iceberg tables are seen too. Of other catalogs each table is loaded.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from firn.errors import TransientError
from firn.tables.table_state import TableState
from firn_spark.session import CATALOG
from firn_spark.tables.java import java_class

# Table properties that put files elsewhere than below the location.
PROPERTIES: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
_GLUE: Final = "org.apache.iceberg.aws.glue.GlueCatalog"
_DENIED: Final = "software.amazon.awssdk.services.glue.model.AccessDeniedException"

_LONGEST_FOLDER: Final = 200
_LONGEST_PATH: Final = 800

_OF_FILES: Final = {*PROPERTIES, "write.object-storage.enabled", "write.location-provider.impl"}

Place = tuple[tuple[str, ...], list[str]]
"""A table's identifier, and where it has files."""


def is_too_long(path: str) -> bool:
    """Whether the path of a file, with a folder for each partition, is longer than storages take: file systems 255
    characters a folder, S3 1,024 bytes in all. Such a file goes beside the folders, whose names only people read."""
    return len(path) > _LONGEST_PATH or any(len(one) > _LONGEST_FOLDER for one in path.split("/"))


def data_folder(state: TableState) -> str | None:
    """Where the data files of a table lie that says nothing of it; None if only Iceberg can tell."""
    return None if _OF_FILES.intersection(state.properties) else f"{state.location.rstrip('/')}/data"


def of_new_file(java: Any, state: TableState, name: str, spec: Any, partition: Any) -> str:
    """Where a file of an org.apache.iceberg.Table goes. `state`: the table's; `partition`: of that spec; None for
    none."""
    if partition is None and (folder := data_folder(state)) is not None:
        return f"{folder}/{name}"
    locations = java.locationProvider()
    if partition is not None:
        path = str(locations.newDataLocation(spec, partition, name))
        if not is_too_long(path):
            return path
    return str(locations.newDataLocation(name))


def places(spark: SparkSession, catalog: Any, own: str, is_ours: Callable[[str], bool]) -> Iterator[Place]:
    """Of all tables in the namespace `own`, and in those whose first level `is_ours` that the job may look into.

    `catalog`: the org.apache.iceberg.catalog.Catalog. Raises TransientError if Glue has a table and no place for it,
    and what the catalog raises.
    """
    ours = [one for one in catalog.listNamespaces() if (first := str(one.levels()[0])) == own or is_ours(first)]
    if str(catalog.getClass().getName()) == _GLUE:
        yield from _in_glue(spark, own, [str(one.levels()[0]) for one in ours])
        return
    while ours:
        namespace = ours.pop()
        ours += list(catalog.listNamespaces(namespace))
        for identifier in catalog.listTables(namespace):
            table = catalog.loadTable(identifier)
            levels = (str(level) for level in namespace.levels())
            said = dict(table.properties())
            beside = [str(said[name]) for name in PROPERTIES if name in said]
            yield (*levels, str(identifier.name())), [str(table.location()), *beside]


def _in_glue(spark: SparkSession, own: str, databases: list[str]) -> Iterator[Place]:
    prefix = f"spark.sql.catalog.{CATALOG}."
    properties = java_class(spark, "java.util.HashMap")()
    for name, value in spark.conf.getAll.items():
        if name.startswith(prefix):
            properties.put(name.removeprefix(prefix), value)
    client = getattr(java_class(spark, "org.apache.iceberg.aws.AwsClientFactories"), "from")(properties).glue()
    try:
        for database in databases:
            asked = java_class(spark, "software.amazon.awssdk.services.glue.model.GetTablesRequest").builder()
            asked = asked.databaseName(database).catalogId(properties.get("glue.id"))
            token = None
            while True:
                try:
                    answer = client.getTables(asked.nextToken(token).build())
                except Py4JJavaError as error:
                    # All databases are named to everybody. In those that the role was not given (GlueDatabases in
                    # template.yaml) no job can have made a table.
                    if database != own and _type_of(error) == _DENIED:
                        break
                    raise
                for table in answer.tableList():
                    yield (database, str(table.name())), _told(database, table)
                token = answer.nextToken()
                if token is None:
                    break
    finally:
        client.close()


def _type_of(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())


def _told(database: str, table: Any) -> list[str]:
    said = table.storageDescriptor()
    if said is not None and said.location():
        return [str(said.location()), *map(str, said.additionalLocations())]
    if str(table.parameters().get("table_type")).upper() == "ICEBERG":
        raise TransientError(f"Glue does not say where {database}.{table.name()} has its files: set its location")
    return []  # a view, or a link
