"""What a request asks of the query function, as a question to its worker. Imports neither PyArrow nor DuckDB."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from firn.auth.gateway import Routes, call, parameters_of, request_of
from firn.config.model import Config
from firn.config.reader_scopes import Everything, Scope
from firn.settings import Settings
from firn_lake.query_protocol import Question


def _query(event: Mapping[str, Any], _: str) -> dict[str, Any]:
    return {"about": "query", "body": request_of(event).body}


def _of_table(about: str) -> Callable[[Mapping[str, Any], str], dict[str, Any]]:
    def fields(event: Mapping[str, Any], table: str) -> dict[str, Any]:
        return {"about": about, "table": table, "parameters": parameters_of(event)}

    return fields


def _tables(_event: Mapping[str, Any], _: str) -> dict[str, Any]:
    return {"about": "tables"}


_OF_TABLE: Final = ("changes", "snapshots", "schema", "columns", "timeline", "batch", "dead")

ROUTES: Routes = {
    "query": {"POST": _query},
    "tables": {"GET": _tables},
    **{f"tables/*/{about}": {"GET": _of_table(about)} for about in _OF_TABLE},
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
