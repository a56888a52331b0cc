"""What tests/data/formats holds, unpacked: objects and tables written by the first code that wrote each format."""

import json
import tarfile
from pathlib import Path
from typing import Any

FORMATS = Path(__file__).parent


def unpack(version: int, where: Path) -> Path:
    """Unpacks a version's fixture below `where`. -> its folder, with `staging`, `warehouse` and `catalog.db`."""
    with tarfile.open(FORMATS / str(version) / "staging-and-lake.tar.gz") as tar:
        tar.extractall(where, filter="data")
    return where / f"firn-format-{version}"


def expected(version: int) -> dict[str, Any]:
    """What its maker saw: what senders were told, dead letters, epochs, cuts, and the rows then and later on."""
    found: dict[str, Any] = json.loads((FORMATS / str(version) / "expected.json").read_text(encoding="utf-8"))
    return found


def rows_as_json(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A table's rows without Firn's own columns, as expected.json holds them."""
    plain = [{name: value for name, value in row.items() if not name.startswith("_firn")} for row in rows]
    return sorted(json.loads(json.dumps(plain, default=str)), key=lambda row: json.dumps(row, sort_keys=True))
