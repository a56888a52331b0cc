"""What a request asks of the query function, as a question to its worker. Imports neither PyArrow nor DuckDB."""

from collections.abc import Mapping
from typing import Any

from firn.auth.gateway import Routes, call, parameters_of, request_of
from firn.config.model import Config
from firn.config.reader_scopes import Everything, Scope
from firn.settings import Settings
from firn_lake.query_protocol import Question


def _query(event: Mapping[str, Any], _: str) -> dict[str, Any]:
    return {"about": "query", "body": request_of(event).body}


def _changes(event: Mapping[str, Any], table: str) -> dict[str, Any]:
    return {"about": "changes", "table": table, "parameters": parameters_of(event)}


def _snapshots(event: Mapping[str, Any], table: str) -> dict[str, Any]:
    return {"about": "snapshots", "table": table, "parameters": parameters_of(event)}


def _schema(event: Mapping[str, Any], table: str) -> dict[str, Any]:
    return {"about": "schema", "table": table, "parameters": parameters_of(event)}


def _columns(event: Mapping[str, Any], table: str) -> dict[str, Any]:
    return {"about": "columns", "table": table, "parameters": parameters_of(event)}


def _timeline(event: Mapping[str, Any], table: str) -> dict[str, Any]:
    return {"about": "timeline", "table": table, "parameters": parameters_of(event)}


def _batch(event: Mapping[str, Any], table: str) -> dict[str, Any]:
    return {"about": "batch", "table": table, "parameters": parameters_of(event)}


def _dead(event: Mapping[str, Any], table: str) -> dict[str, Any]:
    return {"about": "dead", "table": table, "parameters": parameters_of(event)}


def _tables(_event: Mapping[str, Any], _: str) -> dict[str, Any]:
    return {"about": "tables"}


ROUTES: Routes = {
    "query": {"POST": _query},
    "tables": {"GET": _tables},
    "tables/*/changes": {"GET": _changes},
    "tables/*/snapshots": {"GET": _snapshots},
    "tables/*/schema": {"GET": _schema},
    "tables/*/columns": {"GET": _columns},
    "tables/*/timeline": {"GET": _timeline},
    "tables/*/batch": {"GET": _batch},
    "tables/*/dead": {"GET": _dead},
}


def asked(event: Mapping[str, Any]) -> dict[str, Any]:
    """What a request asks: the fields of a Question that come from it. Raises RequestError 400, 404, 405."""
    fields: dict[str, Any] = call(ROUTES, event, "questions go to POST /v1/query")
    return fields


def question(
    fields: Mapping[str, Any], scope: Everything | Scope, settings: Settings, config: Config, seconds: float
) -> Question:
    """The question that `asked` gave, of what may be read of a deployment's lake, and within its limits. `seconds`: all
    that are left."""
    return Question(
        scope=scope,
        staging=settings.staging,
        catalog=settings.catalog_uri or config.catalog.address,
        warehouse=settings.warehouse or config.warehouse,
        seconds=max(0.1, min(settings.query_seconds, seconds)),
        rows=settings.query_rows,
        memory=settings.query_memory,
        **fields,
    )
