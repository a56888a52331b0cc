"""A commit to a REST catalog that another one overtook on another branch: its number or its row ids are taken."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from firn.errors import UnknownOutcome
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.writing.commit import MovedOn, land

NUMBER = "Cannot add snapshot with sequence number 1 older than last sequence number 1"
ROWS = "Cannot add a snapshot, first-row-id is behind table next-row-id: 0 < 4"


@contextmanager
def refusing(tmp_path: Path, said: str) -> Iterator[Table]:
    """A table of a server that answers each commit with 400 and these words."""
    own = open_catalog(f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/warehouse", {})
    own.create_namespace("a")
    made = own.create_table("a.t", pa.schema([("id", pa.int64())]))
    told = {"metadata-location": made.metadata_location, "metadata": json.loads(made.metadata.model_dump_json())}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(200, {"defaults": {}, "overrides": {}} if "config" in self.path else told)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.answer(400, {"error": {"message": said, "type": "ValidationException", "code": 400}})

        def answer(self, status: int, told: object) -> None:
            data = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        yield open_catalog(url, f"file://{tmp_path}/warehouse", {}).load_table("a.t")
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("said", [NUMBER, f"Malformed request: {NUMBER}", ROWS])
def test_it_is_told_as_a_commit_that_came_second_and_leaves_no_file(tmp_path: Path, said: str) -> None:
    with refusing(tmp_path, said) as table:
        files = set(tmp_path.glob("warehouse/**/*"))
        with pytest.raises(MovedOn, match="another commit came first; nothing was done"):
            land(table, lambda transaction: transaction.append(pa.table({"id": [1]})))
        left = {one for one in set(tmp_path.glob("warehouse/**/*")) - files if one.is_file()}
        assert {one.suffix for one in left} <= {".parquet"}, "manifests went; whoever wrote data files removes those"


def test_what_a_server_finds_malformed_otherwise_is_no_conflict(tmp_path: Path) -> None:
    with refusing(tmp_path, "Unknown field 'x'") as table, pytest.raises(UnknownOutcome, match="Unknown field 'x'"):
        land(table, lambda transaction: transaction.append(pa.table({"id": [1]})))
