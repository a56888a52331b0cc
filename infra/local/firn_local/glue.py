"""What moto's Glue lacks: UpdateTable with a VersionId is taken only if that is still the table's version.

It is what Iceberg's commits to Glue rest on: without it the later of two writers would silently win.
https://docs.aws.amazon.com/glue/latest/webapi/API_UpdateTable.html
"""

import json
from typing import Any
from wsgiref.types import WSGIEnvironment

from firn_local.serving import peeked_body

REFUSED = json.dumps(
    {"__type": "ConcurrentModificationException", "Message": "Update table failed due to concurrent modifications."}
).encode()


def is_stale(environ: WSGIEnvironment, account: str, region: str) -> bool:
    """Whether the request (its body can be read again) updates a version of a table that is no longer its newest.

    Call it under the lock that the request itself is answered under.
    """
    if environ.get("HTTP_X_AMZ_TARGET") != "AWSGlue.UpdateTable":
        return False
    request: dict[str, Any] = json.loads(peeked_body(environ) or b"{}")
    expected = request.get("VersionId")
    if expected is None:
        return False
    from moto.glue.models import glue_backends

    databases = glue_backends[account][region].databases
    database = databases.get(request.get("DatabaseName"))
    table = database.tables.get(request.get("TableInput", {}).get("Name")) if database else None
    return table is not None and table.as_dict()["VersionId"] != str(expected)
